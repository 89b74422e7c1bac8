"""Row selection: all rows of a range, or rows by number."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RowSelection:
    """Rows of a file, a column or a page.

    Attributes:
        start: First row.
        stop: End of the rows.
        numbers: The wanted rows in `[start, stop)`, ascending, distinct; None for all of them.
        gap: Maximum unused bytes to read between two wanted rows instead of sending two requests.
    """

    start: int
    stop: int
    numbers: Integers | None = None
    gap: int = 0

    @classmethod
    def some(cls, numbers: Integers, gap: int = 0) -> "RowSelection":
        """Select rows by number; contiguous ones become a range.

        Args:
            numbers: Ascending, distinct.
            gap: See the class.
        """
        if not len(numbers):
            return cls(0, 0, None, gap)
        start, stop = int(numbers[0]), int(numbers[-1]) + 1
        # Compiled loops need contiguous memory.
        return cls(start, stop, None if stop - start == len(numbers) else np.ascontiguousarray(numbers), gap)

    @property
    def count(self) -> int:
        """Number of wanted rows."""
        return self.stop - self.start if self.numbers is None else len(self.numbers)

    @property
    def indices(self) -> Integers:
        """The numbers of the wanted rows."""
        return np.arange(self.start, self.stop, dtype=np.int64) if self.numbers is None else self.numbers

    def moved(self, distance: int) -> "RowSelection":
        """Return the same rows with shifted numbers."""
        if not distance:
            return self
        numbers = None if self.numbers is None else self.numbers + distance
        return RowSelection(self.start + distance, self.stop + distance, numbers, self.gap)

    def spread(self, width: int) -> "RowSelection":
        """Return the child slots of these rows, where each row has the same number."""
        if width == 1:
            return self
        if self.numbers is None:
            return RowSelection(self.start * width, self.stop * width, None, self.gap)
        slots = (self.numbers[:, np.newaxis] * width + np.arange(width)).reshape(-1)
        return RowSelection.some(slots, self.gap)

    def split(self, starts: Sequence[int], stop: int) -> Iterator[tuple[int, "RowSelection"]]:
        """Split the rows by consecutive parts.

        Args:
            starts: First row of each part, ascending; parts may be empty.
            stop: End of the last part, not before the end of the rows.

        Yields:
            Number of each part with some of the rows, and its own rows.
        """
        if self.start >= self.stop:
            return
        if len(starts) == 1:
            yield 0, self.moved(-starts[0])
            return
        if self.numbers is None:
            # Of several parts that start at one row all but the last are empty.
            number = bisect_right(starts, self.start) - 1
            part = RowSelection(0, 0, None, self.gap)
            while number < len(starts) and (begin := starts[number]) < self.stop:
                end = starts[number + 1] if number + 1 < len(starts) else stop
                first = max(self.start - begin, 0)
                last = min(end, self.stop) - begin
                if first < last:
                    if part.start != first or part.stop != last:
                        # Small parts mostly have as many rows as the previous one.
                        part = RowSelection(first, last, None, self.gap)
                    yield number, part
                number += 1
            return
        parts = np.searchsorted(np.asarray(starts, dtype=np.int64), self.numbers, side="right") - 1
        cuts = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(parts)]
        for first, last in pairwise(cuts):
            number = int(parts[first])
            yield number, RowSelection.some(self.numbers[first:last] - starts[number], self.gap)


def join_extents(starts: Integers, stops: Integers) -> Integers:
    """Concatenate the ranges `[start, stop)` of all pairs."""
    counts = stops - starts
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    joined: Integers = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - counts), counts)
    return joined


def join_lengths(lengths: Integers) -> Integers:
    """Return offsets of consecutive values of these lengths, from 0 on."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
