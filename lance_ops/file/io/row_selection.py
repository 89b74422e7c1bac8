"""Row selection: all rows of a range, or some by number."""

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
        numbers: The wanted rows in `[start, stop)`, ascending, without repetition; None for all of them.
        gap: Bytes that may be read in vain between two wanted rows rather than ask for them apart.
    """

    start: int
    stop: int
    numbers: Integers | None = None
    gap: int = 0

    @classmethod
    def some(cls, numbers: Integers, gap: int = 0) -> "RowSelection":
        """Some rows; they become a range where they leave nothing out.

        Args:
            numbers: Ascending, without repetition.
            gap: See the class.
        """
        if not len(numbers):
            return cls(0, 0, None, gap)
        start, stop = int(numbers[0]), int(numbers[-1]) + 1
        # Compiled loops want them next to each other.
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
        """The same rows where counting starts elsewhere."""
        if not distance:
            return self
        numbers = None if self.numbers is None else self.numbers + distance
        return RowSelection(self.start + distance, self.stop + distance, numbers, self.gap)

    def spread(self, width: int) -> "RowSelection":
        """The slots below these rows, where each row has as many."""
        if width == 1:
            return self
        if self.numbers is None:
            return RowSelection(self.start * width, self.stop * width, None, self.gap)
        slots = (self.numbers[:, np.newaxis] * width + np.arange(width)).reshape(-1)
        return RowSelection.some(slots, self.gap)

    def split(self, starts: Sequence[int], stop: int) -> Iterator[tuple[int, "RowSelection"]]:
        """Share the rows out to parts that follow each other.

        Args:
            starts: First row of each part, ascending; parts may be empty.
            stop: End of the last part, not before the end of the rows.

        Yields:
            Number of each part that has some of the rows, and which of its own rows they are.
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
                        # Small parts mostly have as many rows as the one before.
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
    """The numbers in `[start, stop)` of all pairs, one pair after the other."""
    counts = stops - starts
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    joined: Integers = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - counts), counts)
    return joined


def join_lengths(lengths: Integers) -> Integers:
    """Offsets of values of these lengths that follow each other, from 0 on."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
