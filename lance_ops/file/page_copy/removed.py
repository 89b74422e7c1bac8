"""Deleted rows of a column as ranges, so that the items of long lists cost no more than their rows."""

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
        before: Cumulative rows of the ranges before each one, with the total at the end.
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
        """Convert rows given by a caller.

        Args:
            rows: Ascending distinct row numbers, or a mask of shape (num_rows,) that is true for
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
                    f"a mask of shape {rows.shape} does not match a file of {num_rows} rows",
                    path=path,
                    field="deleted",
                )
            rows = np.flatnonzero(rows)
        if rows.ndim != 1 or (len(rows) and not np.issubdtype(rows.dtype, np.integer)):
            raise InvalidArgumentError(
                "deleted rows must be integers or a boolean mask", path=path, field="deleted"
            )
        numbers = rows.astype(np.int64)
        if len(numbers) and (bool((np.diff(numbers) <= 0).any()) or int(numbers[0]) < 0):
            raise InvalidArgumentError(
                "deleted rows must be ascending and distinct", path=path, field="deleted"
            )
        if len(numbers) and int(numbers[-1]) >= num_rows:
            raise InvalidArgumentError(
                f"deleted row {int(numbers[-1])} is out of range for a file of {num_rows} rows",
                path=path,
                field="deleted",
            )
        return cls.of_ranges(numbers, numbers + 1)

    def __len__(self) -> int:
        return int(self.before[-1])

    def spread(self, width: int) -> "Removed":
        """Return the removed values of a column with several values for each row."""
        if width == 1 or not len(self.starts):
            return self
        return Removed(self.starts * width, self.stops * width, self.before * width)

    def count_inside(self, start: int, stop: int) -> int:
        """Count removed rows in a range."""
        return self.count_before(stop) - self.count_before(start) if len(self.starts) else 0

    def count_before(self, row: int) -> int:
        """Count removed rows before a row."""
        if not row or not len(self.starts):
            return 0
        number = int(np.searchsorted(self.starts, row, side="right")) - 1
        if number < 0:
            return 0
        return int(self.before[number]) + min(row, int(self.stops[number])) - int(self.starts[number])

    def inside(self, start: int, stop: int) -> Ranges:
        """Return the ranges within some rows, counted from the first of these.

        Args:
            start: First row.
            stop: End of the rows.
        """
        first = int(np.searchsorted(self.stops, start, side="right"))
        last = int(np.searchsorted(self.starts, stop, side="left"))
        starts = np.maximum(self.starts[first:last], start) - start
        return starts, np.minimum(self.stops[first:last], stop) - start

    def kept(self, start: int, stop: int) -> Mask:
        """Return a mask of the kept rows of a page."""
        return outside(*self.inside(start, stop), stop - start)

    def kept_ranges(self, start: int, stop: int) -> Ranges:
        """Return ranges of the kept rows of a page, counted from its first row."""
        starts, stops = self.inside(start, stop)
        begins, ends = np.append(0, stops), np.append(starts, stop - start)
        full = ends > begins
        return begins[full], ends[full]


_NONE = np.empty(0, dtype=np.int64)

NOTHING = Removed(_NONE, _NONE, np.zeros(1, dtype=np.int64))
"""Nothing is removed."""


def outside(starts: Integers, stops: Integers, count: int) -> Mask:
    """Return a mask of rows that are in none of some ranges.

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
