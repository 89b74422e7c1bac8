"""Physical columns of 0.1: the pages of one field, one a batch."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.values.flat import bit_width
from lance_ops.errors import CorruptFileError, UnsupportedError, UnsupportedTypeError
from lance_ops.file.container.read import Column
from lance_ops.file.io.row_selection import Integers, RowSelection
from lance_ops.file.schema.logical_types import NESTED_TYPES, decode_logical_type
from lance_ops.file.schema.model import Schema

# Bytes of a batch, over all columns, from which a separate array pays.
_SMALL_BATCH = 1 << 20


@dataclass(frozen=True, slots=True)
class BatchColumn:
    """The pages of a field.

    Attributes:
        positions: Of each page in the file, in bytes; the content depends on the type.
        lengths: Of each page, in values; one more than the rows for lists.
        starts: First row of each batch.
        logical_type: Of the field, empty if the file has none.
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

    def pages(self, slices: "Slices", *, more: int = 0) -> Integers:
        """Return the position of the page of each slice.

        Args:
            slices: Of values of this column.
            more: Additional entries of a page.

        Raises:
            CorruptFileError: A page has fewer values.
        """
        short = np.flatnonzero(slices.stops + more > self.lengths[slices.batches])
        if len(short):
            batch = int(slices.batches[short[0]])
            raise CorruptFileError(
                f"a page has {int(self.lengths[batch])} values, expected "
                f"{int(slices.stops[short[0]]) + more}",
                path=self.path,
                field=f"{self.where}, page {batch}",
            )
        return self.positions[slices.batches]


@dataclass(frozen=True, slots=True, eq=False)
class Slices:
    """Consecutive values of some batches, which are joined into one array.

    Attributes:
        batches: Number of the batch of each slice.
        starts: First value of each within its batch.
        stops: End of each.
        gap: As in `RowSelection`.
    """

    batches: Integers
    starts: Integers
    stops: Integers
    gap: int = 0

    @classmethod
    def one(cls, start: int, stop: int) -> "Slices":
        """Return values of a single page."""
        numbers = np.array([0, start, stop], dtype=np.int64)
        return cls(numbers[:1], numbers[1:2], numbers[2:])

    @property
    def count(self) -> int:
        """Number of values."""
        return int((self.stops - self.starts).sum())

    def below(self, starts: Integers, stops: Integers) -> "Slices":
        """Return the child slices of these, in the same batches."""
        return Slices(self.batches, starts, stops, self.gap)


def plan_slices(column: BatchColumn, rows: RowSelection) -> list[Slices]:
    """Split rows by batch.

    Small batches are read as one array, because of the fixed cost of each; large ones one by one, without
    copies.

    Args:
        column: Any top-level one; all of them have the same batches.
        rows: Rows of the file.
    """
    starts = np.asarray(column.starts, dtype=np.int64)
    if rows.numbers is not None:
        batches = np.searchsorted(starts, rows.numbers, side="right") - 1
        inside = rows.numbers - starts[batches]
        # Adjacent rows are one slice.
        first = np.ones(len(inside), dtype=np.bool_)
        first[1:] = (np.diff(rows.numbers) > 1) | (np.diff(batches) > 0)
        last = np.append(first[1:], True)
        return [Slices(batches[first], inside[first], inside[last] + 1, rows.gap)]
    # The last batch ends with the rows of the file.
    parts = list(rows.split(column.starts, rows.stop))
    if not parts:
        return []
    batches = np.array([batch for batch, _ in parts], dtype=np.int64)
    firsts = np.array([part.start for _, part in parts], dtype=np.int64)
    lasts = np.array([part.stop for _, part in parts], dtype=np.int64)
    whole = Slices(batches, firsts, lasts, rows.gap)
    if column.file_size // len(column.starts) < _SMALL_BATCH:
        return [whole]
    return [
        Slices(whole.batches[n : n + 1], whole.starts[n : n + 1], whole.stops[n : n + 1], rows.gap)
        for n in range(len(parts))
    ]


def parse_column(column: Column, where: str, path: str, file_size: int) -> BatchColumn:
    """Parse a column of the container; `where` names it in errors."""
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
    """Estimate the memory of a whole column.

    Without a fixed width, the size of the file is the only bound that is known without reading pages.
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
    """Return the physical column of each field: its id minus the least id of the file.

    Raises:
        UnsupportedError: The file has no schema of its own, so that only the table knows its columns.
    """
    ids = [node.id for node in schema.walk()]
    if not ids:
        raise UnsupportedError("the file has no schema", path=path, hint="read it through its table")
    first = min(ids)
    return {field_id: field_id - first for field_id in ids}
