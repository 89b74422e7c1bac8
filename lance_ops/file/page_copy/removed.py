"""Which rows of a column go: ranges, so that the items of long lists cost no more than their rows."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lance_ops.errors import InvalidArgumentError

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Ranges: TypeAlias = tuple[Integers, Integers]
"""Starts and stops."""


@dataclass(frozen=True, slots=True, eq=False)
class Removed:
    """Rows (or items) of one column of a file that are not copied.

    Attributes:
        starts: First row of each range; ranges ascend and do not touch each other.
        stops: End of each range.
        before: Rows in all ranges before each one, with the number of all at the end.
    """

    starts: Integers
    stops: Integers
    before: Integers

    @classmethod
    def of_ranges(cls, starts: Integers, stops: Integers) -> "Removed":
        """Join ranges that touch each other.

        Args:
            starts: Ascending.
            stops: End of each; none reaches beyond the start of the next.
        """
        full = stops > starts
        starts, stops = starts[full], stops[full]
        first = np.ones(len(starts), dtype=np.bool_)
        first[1:] = starts[1:] != stops[:-1]
        last = np.append(first[1:], np.ones(min(len(first), 1), dtype=np.bool_))
        starts, stops = starts[first], stops[last]
        return cls(starts, stops, np.concatenate([[0], np.cumsum(stops - starts)]))

    @classmethod
    def of_rows(cls, rows: npt.NDArray[Any] | None, num_rows: int, path: str) -> "Removed":
        """Read what a caller says.

        Args:
            rows: Ascending row numbers without repetition, or a mask of shape (num_rows,) that is true for
                deleted rows, or None.
            num_rows: Of the file.
            path: For errors.

        Raises:
            InvalidArgumentError: The rows are not ascending, or not in the file.
        """
        if rows is None:
            return NOTHING
        rows = np.asarray(rows)
        if rows.dtype == np.bool_:
            if rows.shape != (num_rows,):
                raise InvalidArgumentError(
                    f"a mask of shape {rows.shape} for a file of {num_rows} rows", path=path, field="deleted"
                )
            rows = np.flatnonzero(rows)
        if rows.ndim != 1 or (len(rows) and not np.issubdtype(rows.dtype, np.integer)):
            raise InvalidArgumentError(
                "deleted rows are numbers or a mask of booleans", path=path, field="deleted"
            )
        numbers = rows.astype(np.int64)
        if len(numbers) and (bool((np.diff(numbers) <= 0).any()) or int(numbers[0]) < 0):
            raise InvalidArgumentError("deleted rows must ascend and not repeat", path=path, field="deleted")
        if len(numbers) and int(numbers[-1]) >= num_rows:
            raise InvalidArgumentError(
                f"row {int(numbers[-1])} is deleted from a file of {num_rows}", path=path, field="deleted"
            )
        return cls.of_ranges(numbers, numbers + 1)

    def __len__(self) -> int:
        return int(self.before[-1])

    def spread(self, width: int) -> "Removed":
        """The same for a column that has several values for each row."""
        if width == 1 or not len(self.starts):
            return self
        return Removed(self.starts * width, self.stops * width, self.before * width)

    def count_inside(self, start: int, stop: int) -> int:
        """Removed rows among some rows."""
        return self.count_before(stop) - self.count_before(start) if len(self.starts) else 0

    def count_before(self, row: int) -> int:
        """Removed rows before a row."""
        if not row or not len(self.starts):
            return 0
        number = int(np.searchsorted(self.starts, row, side="right")) - 1
        if number < 0:
            return 0
        return int(self.before[number]) + min(row, int(self.stops[number])) - int(self.starts[number])

    def inside(self, start: int, stop: int) -> Ranges:
        """The ranges within some rows, counted from the first of these.

        Args:
            start: First row.
            stop: End of the rows.
        """
        first = int(np.searchsorted(self.stops, start, side="right"))
        last = int(np.searchsorted(self.starts, stop, side="left"))
        starts = np.maximum(self.starts[first:last], start) - start
        return starts, np.minimum(self.stops[first:last], stop) - start

    def kept(self, start: int, stop: int) -> Mask:
        """Which rows of a page stay."""
        return outside(*self.inside(start, stop), stop - start)

    def kept_ranges(self, start: int, stop: int) -> Ranges:
        """Ranges of the rows of a page that stay, counted from its first row."""
        starts, stops = self.inside(start, stop)
        begins, ends = np.append(0, stops), np.append(starts, stop - start)
        full = ends > begins
        return begins[full], ends[full]


_NONE = np.empty(0, dtype=np.int64)

NOTHING = Removed(_NONE, _NONE, np.zeros(1, dtype=np.int64))
"""All rows stay."""


def outside(starts: Integers, stops: Integers, count: int) -> Mask:
    """Which of some rows lie in none of some ranges.

    Args:
        starts: First row of each range.
        stops: End of each.
        count: Number of rows.
    """
    mask = np.ones(count, dtype=np.bool_)
    lengths = stops - starts
    if bool((lengths == 1).all()):
        mask[starts] = False
        return mask
    firsts = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    mask[firsts + np.arange(int(lengths.sum()), dtype=np.int64)] = False
    return mask
