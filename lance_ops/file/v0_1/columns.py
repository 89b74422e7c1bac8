"""Physical columns of 0.1: the pages of one field, one a batch."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.flat import bit_width
from lance_ops.errors import CorruptFileError, UnsupportedError, UnsupportedTypeError
from lance_ops.file.container import Column
from lance_ops.file.logical_types import NESTED_TYPES, decode_logical_type
from lance_ops.file.row_selection import RowSelection
from lance_ops.file.schema import Schema


@dataclass(frozen=True, slots=True)
class BatchColumn:
    """The pages of a field.

    Attributes:
        positions: Of each page in the file, in bytes; what lies there depends on the type.
        lengths: Of each page, in values; one more than the rows for lists.
        starts: First row of each batch.
        logical_type: Of the field, empty when the file does not say.
        where: Names the column in errors.
        path: Names the file in errors.
        file_size: In bytes; bounds what a page can claim.
    """

    positions: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    starts: tuple[int, ...]
    logical_type: str
    where: str
    path: str
    file_size: int

    def parts(self, rows: RowSelection) -> Iterator[tuple[int, RowSelection]]:
        """The number of each batch that has some of the rows, and which of its rows they are."""
        # The file says how many rows there are, so that they end in the last batch.
        return rows.split(self.starts, rows.stop)

    def page(self, batch: int, stop: int) -> int:
        """Position of a page.

        Args:
            batch: Number of the batch.
            stop: End of the values that are wanted of it.

        Raises:
            CorruptFileError: It does not have as many.
        """
        if stop > int(self.lengths[batch]):
            raise CorruptFileError(
                f"{stop} values are expected, but there are {int(self.lengths[batch])}",
                path=self.path,
                field=f"{self.where}, page {batch}",
            )
        return int(self.positions[batch])


def parse_column(column: Column, where: str, path: str, file_size: int) -> BatchColumn:
    """Take a column of the container apart; `where` names it in errors."""
    pages = column.pages
    return BatchColumn(
        positions=np.array([page.buffers[0][0] for page in pages], dtype=np.int64),
        lengths=np.array([page.length for page in pages], dtype=np.int64),
        starts=tuple(page.priority for page in pages),
        logical_type=column.encoding.value.decode(),
        where=where,
        path=path,
        file_size=file_size,
    )


def column_bytes(column: BatchColumn) -> int:
    """Estimate what reading a whole column takes in memory.

    Where the type does not tell, the size of the file is the only bound that needs no look at the pages.
    """
    kind = column.logical_type
    if kind in NESTED_TYPES:
        return 8 * int(column.lengths.sum())
    try:
        bits = bit_width(decode_logical_type(kind)) if kind else 0
    except UnsupportedTypeError:
        bits = 0
    return bits * int(column.lengths.sum()) // 8 or column.file_size


def assign_columns(schema: Schema, path: str | None = None) -> dict[int, int]:
    """Physical column of each field: its id, counted from the least id of the file.

    Raises:
        UnsupportedError: The file has no schema of its own, so that only the table knows its columns.
    """
    ids = [node.id for node in schema.walk()]
    if not ids:
        raise UnsupportedError(
            "the file has no schema of its own", path=path, hint="read it through its table"
        )
    first = min(ids)
    return {field_id: field_id - first for field_id in ids}
