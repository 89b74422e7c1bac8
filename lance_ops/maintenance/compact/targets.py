"""Target size of a fragment, in rows and in bytes: small and full fragments. Pure.

A fragment is full when it reaches either target, so that wide rows are limited by bytes and narrow ones by
rows. The number of rows is known beforehand. The number of bytes is not: rewritten rows are compressed again,
and may become smaller. So a fragment counts as small in bytes only below three quarters of the target (the
usual share, as of Iceberg's `min-file-size-bytes`); the next compaction then skips fragments filled by this
one.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Integers
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.numbers import FragmentNumbers, numbers_of, running_totals

SMALL_SHARE = 0.75
"""Share of the target in bytes below which a fragment is small."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Contents of fragments.

    Attributes:
        rows: Live rows.
        bytes: Bytes of data files for live rows.
    """

    rows: int = 0
    bytes: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.rows + other.rows, self.bytes + other.bytes)


def live_amounts(fragments: Sequence[Fragment]) -> list[Amount]:
    """Return the contents of each of some fragments; bytes by the share of live rows."""
    rows, sizes = _live(fragments)
    return [Amount(*held) for held in zip(rows.tolist(), sizes.tolist(), strict=True)]


def total(fragments: Sequence[Fragment]) -> Amount:
    """Return the total contents of fragments."""
    rows, sizes = _live(fragments)
    return Amount(sum(rows.tolist()), sum(sizes.tolist()))


def full_parts(fragments: Sequence[Fragment], targets: "Targets") -> Iterator[Sequence[Fragment]]:
    """Divide neighbours into parts that fill a fragment; the rest stays with the last part."""
    rows, sizes = map(running_totals, _live(fragments))
    first, count = 0, len(fragments)
    while first < count:
        # A full part stays full with more, so the first end that fills it is found by bisection.
        last = _first_reaching(rows, int(rows[first]) + targets.rows)
        if targets.bytes is not None:
            last = min(last, _first_reaching(sizes, int(sizes[first]) + targets.bytes))
        last = max(last, first + 1)
        if last >= count or not targets.is_full(int(rows[-1] - rows[last]), int(sizes[-1] - sizes[last])):
            break
        yield fragments[first:last]
        first = last
    yield fragments[first:]


def _first_reaching(totals: npt.NDArray[Any], amount: int) -> int:
    # A target may exceed all 64-bit numbers.
    return len(totals) if amount > int(totals[-1]) else int(np.searchsorted(totals, amount))


def _live(fragments: Sequence[Fragment]) -> tuple[Integers, Integers]:
    """Return live rows of fragments, and their bytes."""
    numbers = numbers_of(fragments)
    rows, sizes = numbers.rows - numbers.deleted_rows, numbers.data_bytes
    worn = np.flatnonzero(numbers.has_deletions & (numbers.rows > 0))
    if len(worn):
        sizes = sizes.copy()
        # The product may exceed 64 bits.
        shares = zip(sizes[worn].tolist(), rows[worn].tolist(), numbers.rows[worn].tolist(), strict=True)
        sizes[worn] = [size * live // physical for size, live, physical in shares]
    return rows, sizes


@dataclass(frozen=True, slots=True)
class Targets:
    """Size of a full fragment.

    Attributes:
        rows: Number of rows.
        bytes: Number of bytes; None: only rows count.
    """

    rows: int
    bytes: int | None = None

    @classmethod
    def of(cls, options: CompactionOptions) -> "Targets":
        """Return the targets of a compaction."""
        return cls(options.target_rows_per_fragment, options.target_bytes_per_fragment)

    def are_small(self, numbers: FragmentNumbers) -> npt.NDArray[np.bool_]:
        """Return which fragments are small, deleted rows included as in pylance."""
        small: npt.NDArray[np.bool_] = numbers.rows < self.rows
        return small if self.bytes is None else small & (numbers.data_bytes < SMALL_SHARE * self.bytes)

    def reached(self, amount: Amount) -> bool:
        """Return whether contents fill a fragment."""
        return self.is_full(amount.rows, amount.bytes)

    def is_full(self, rows: int, size: int) -> bool:
        """Return whether rows and bytes fill a fragment."""
        return rows >= self.rows or (self.bytes is not None and size >= self.bytes)

    def files(self, amount: Amount) -> int:
        """Return how many full fragments some contents make; at least one unless empty."""
        if not amount.rows:
            return 0
        by_bytes = 0 if self.bytes is None else amount.bytes // self.bytes
        return min(amount.rows, max(1, amount.rows // self.rows, by_bytes))

    def tier(self, amount: Amount, growth: int) -> int:
        """Return the size tier of some contents: 0 if they fill a fragment, -1 above 1/growth of that, etc.

        The lowest tier is empty.
        """
        if self.reached(amount):
            return 0
        fill = amount.rows / self.rows
        if self.bytes is not None:
            fill = max(fill, amount.bytes / self.bytes)
        return min(-1, math.floor(math.log(fill, growth))) if fill > 0 else -1 << 30
