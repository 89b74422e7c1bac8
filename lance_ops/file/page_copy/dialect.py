"""What the copy has to know of a storage version."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError
from lance_ops.file.container.read import Encoding
from lance_ops.file.io.fetch import Request
from lance_ops.file.page_copy.plan import Part, Shape
from lance_ops.file.page_copy.removed import Ranges, Removed, outside
from lance_ops.file.page_copy.source import OpenSource

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class NewPage:
    """A page that is not one of an old file.

    Attributes:
        encoding: What the buffers hold.
        buffers: In the order of the encoding.
        length: Rows (or items).
    """

    encoding: Encoding
    buffers: tuple[Bytes, ...]
    length: int


@dataclass(frozen=True, slots=True)
class ReadPart:
    """A part with its bytes.

    Attributes:
        source: Its file.
        part: Which page, and what stays of it.
        buffers: Of the page.
        gone: Starts and stops of the rows that go, counted from the first of the page; None for none.
    """

    source: OpenSource
    part: Part
    buffers: tuple[Bytes, ...]
    gone: Ranges | None

    @property
    def keep(self) -> Mask | None:
        """Which rows stay, None for all."""
        return None if self.gone is None else outside(*self.gone, self.part.page.length)

    @property
    def path(self) -> str:
        """The file, for errors."""
        return self.source.path

    @property
    def where(self) -> str:
        """Column and page, for errors."""
        return self.part.where

    def serve(self, ranges: list[Request]) -> list[pa.Buffer]:
        """Ranges of the file that lie within buffers of the page."""
        return [self._serve(offset, length) for offset, length in ranges]

    def _serve(self, offset: int, length: int) -> pa.Buffer:
        for (start, size), data in zip(self.part.page.buffers, self.buffers, strict=True):
            if start <= offset and offset + length <= start + size:
                return pa.py_buffer(data[offset - start : offset - start + length])
        raise CorruptFileError("a page reads bytes that are not its own", path=self.path, field=self.where)


class Dialect(Protocol):
    """Pages of one storage version."""

    def find_lengths(self, source: OpenSource) -> list[int | None]:
        """Say how many rows (or items) each physical column must have, None where nobody knows."""

    def find_removed(self, source: OpenSource) -> list[Removed]:
        """Say what goes from each physical column of a file."""

    def is_header(self, source: OpenSource, column: int) -> bool:
        """Whether a column has no data but its length, and always one page."""

    def always_nullable_layers(self, source: OpenSource) -> list[tuple[bool, ...]]:
        """Say which layers of each physical column must be nullable in all pages or in none."""

    def shape(self, encoding: Encoding) -> Shape:
        """Say how a page can be put together with others."""

    def resize(self, encoding: Encoding, length: int) -> Encoding:
        """Describe a page of plain rows that has another number of rows."""

    def keep(self, page: ReadPart) -> list[NewPage]:
        """Drop rows from a page without decoding it, where that is possible."""

    def merge(self, pages: Sequence[ReadPart]) -> list[NewPage]:
        """Decode pages and write their rows anew."""
