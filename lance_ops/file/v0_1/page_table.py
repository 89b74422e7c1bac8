"""Page table of 0.1: position and number of values of the page of each field and batch."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from lance_ops.errors import CorruptFileError
from lance_ops.file.container.read import ENTRY_SIZE, Column, Encoding, Page
from lance_ops.file.io.fetch import Request

_PAGE = struct.Struct("<qq")


@dataclass(frozen=True, slots=True)
class PageTable(Sequence[Request]):
    """Locations of the entries of each column; a column is a field id minus the least one of the file.

    Attributes:
        position: Of the table in the file.
        num_batches: Entries of a column.
        num_columns: Columns.
    """

    position: int
    num_batches: int
    num_columns: int

    def __len__(self) -> int:
        return self.num_columns

    @overload
    def __getitem__(self, index: int) -> Request: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Request]: ...

    def __getitem__(self, index: int | slice) -> Request | Sequence[Request]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(self.num_columns))]
        if not 0 <= index < self.num_columns:
            raise IndexError(index)
        width = self.num_batches * ENTRY_SIZE
        return self.position + index * width, width


def decode_pages(
    data: bytes, starts: Sequence[int], logical_type: str, size: int, where: str, path: str
) -> Column:
    """Parse the page table's entries of one column.

    Args:
        data: A pair for each batch.
        starts: First row of each batch, and the number of rows.
        logical_type: Of the field, empty if unknown.
        size: Size of the whole file, which bounds all pages.
        where: The column, for errors.
        path: For errors.

    Returns:
        A column whose pages have one buffer each. Its size is not known here: 0.

    Raises:
        CorruptFileError: A page lies outside of the file.
    """
    pages = []
    for number, (position, length) in enumerate(_PAGE.iter_unpack(data)):
        if not (0 <= position <= size and length >= 0):
            raise CorruptFileError(
                f"a page of {length} values at {position} exceeds the file of {size} bytes",
                path=path,
                field=f"{where}, page {number}",
            )
        pages.append(Page(((position, 0),), length, starts[number], Encoding("", b"")))
    # The logical type takes the place of the encoding of 2.x: it has the same information.
    return Column(Encoding("", logical_type.encode()), tuple(pages))
