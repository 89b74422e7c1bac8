"""Dialect: properties of a storage version that page copy needs."""

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
    """A page that is not a copy of an old one.

    Attributes:
        encoding: Encoding of the buffers.
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
        part: The page, and its kept rows.
        buffers: Of the page.
        gone: Starts and stops of the deleted rows, counted from the first of the page; None for none.
    """

    source: OpenSource
    part: Part
    buffers: tuple[Bytes, ...]
    gone: Ranges | None

    @property
    def keep(self) -> Mask | None:
        """Mask of the kept rows, None for all."""
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
        """Return ranges of the file that are within buffers of the page."""
        return [self._serve(offset, length) for offset, length in ranges]

    def _serve(self, offset: int, length: int) -> pa.Buffer:
        for (start, size), data in zip(self.part.page.buffers, self.buffers, strict=True):
            if start <= offset and offset + length <= start + size:
                return pa.py_buffer(data[offset - start : offset - start + length])
        raise CorruptFileError(
            "a page refers to bytes outside of its buffers", path=self.path, field=self.where
        )


class Dialect(Protocol):
    """Pages of one storage version."""

    def find_lengths(self, source: OpenSource) -> list[int | None]:
        """Return how many rows (or items) each physical column must have, None if unknown."""

    def find_removed(self, source: OpenSource) -> list[Removed]:
        """Return the deleted rows of each physical column of a file."""

    def is_header(self, source: OpenSource, column: int) -> bool:
        """Return whether a column has no data except its length, and always one page."""

    def always_nullable_layers(self, source: OpenSource) -> list[tuple[bool, ...]]:
        """Return which layers of each physical column must be nullable in all pages or in none."""

    def shape(self, encoding: Encoding) -> Shape:
        """Return how a page can be merged with others."""

    def resize(self, encoding: Encoding, length: int) -> Encoding:
        """Change the description of a page of plain rows to another number of rows."""

    def keep(self, page: ReadPart) -> list[NewPage]:
        """Drop rows from a page without decoding it, if possible."""

    def merge(self, pages: Sequence[ReadPart]) -> list[NewPage]:
        """Decode pages and encode their rows again."""
