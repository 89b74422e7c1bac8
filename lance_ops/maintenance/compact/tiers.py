"""Size tiers: targets of a fragment in rows and bytes, and neighbours whose merge is worth its bytes. Pure.

A fragment is full when it reaches either target, so that wide rows are limited by bytes and narrow ones by
rows. The number of rows is known when planning. The number of bytes is not: rewritten rows are compressed
again, and may become smaller. So a fragment counts as small in bytes only below three quarters of the target
(the usual share, as of Iceberg's `min-file-size-bytes`); the next compaction then skips fragments filled by
this one.

By size tiers, every byte that a compaction writes ends in a larger tier than it came from.

A table that grows by small appends and is compacted after every few of them would rewrite its youngest large
fragment each time: the bytes written by n appends are quadratic in n. So sizes are divided into tiers, each
`growth` times as large as the one below, up to the target. A run of neighbours is merged only if the result
is in a larger tier than each of its parts. A byte moves up a tier whenever it is written, and there are
log(target / first size) tiers, which bounds its number of writes for any order of appends and compactions.
(Cassandra's size-tiered strategy and RocksDB's universal compaction do the same.)

Fragments that are rewritten anyway, for their deleted rows or their version, cost nothing extra: they may be
in any run. Neither do the smallest ones: to merge a few kilobytes costs no more than the commit itself, so
all sizes up to `_FREE_SHARE` of the target are one tier, within which neighbours are always merged.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Integers
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import FragmentNumbers, numbers_of, running_totals

SMALL_SHARE = 0.75
"""Share of the target in bytes below which a fragment is small."""

_FREE_SHARE = 1 / 8192
"""Share of the target in bytes up to which contents are merged regardless of tiers: 62.5 kB of 512 MB."""

_FREE = -(1 << 30)
"""The lowest tier."""


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

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.rows - other.rows, self.bytes - other.bytes)


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
        return cls(options.target_rows_per_fragment, options.target_bytes)

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

        The lowest tier, `_FREE`, is empty, or so small that writing it costs no more than a commit.
        """
        if self.reached(amount):
            return 0
        # An unknown size counts 0, and rows of an unknown size may be large.
        if self.bytes is not None and 0 < amount.bytes <= self.bytes * _FREE_SHARE:
            return _FREE
        fill = amount.rows / self.rows
        if self.bytes is not None:
            fill = max(fill, amount.bytes / self.bytes)
        return min(-1, math.floor(math.log(fill, growth))) if fill > 0 else _FREE


def tiered_runs(
    neighbours: Sequence[Fragment],
    targets: Targets,
    growth: int,
    due: Sequence[bool],
) -> Iterator[Sequence[Fragment]]:
    """Return the longest runs of neighbours whose merge moves each into a larger tier.

    If the whole does not reach the next tier, no run with a fragment of its largest tier does, since it is
    smaller. So it is sufficient to examine the parts between those.

    Args:
        neighbours: In the order of rows; all may be rewritten together.
        targets: Size of a full fragment.
        growth: Factor between tiers, at least 2.
        due: Whether each of them is rewritten anyway.
    """
    rows, sizes = _live(neighbours)
    # Many neighbours have the same size.
    tier = cache(lambda rows, size: targets.tier(Amount(rows, size), growth))
    tiers = np.array(list(map(tier, rows.tolist(), sizes.tolist())), np.int64)
    # Due fragments are below all tiers: merging them costs nothing extra.
    tiers[np.asarray(due, np.bool_)] = -(1 << 31)
    rows_before, bytes_before = running_totals(rows), running_totals(sizes)
    waiting = [(0, len(neighbours))]
    runs: list[tuple[int, int]] = []
    while waiting:
        start, stop = waiting.pop()
        if start == stop:
            continue
        largest = int(tiers[start:stop].max())
        whole = Amount(
            int(rows_before[stop] - rows_before[start]), int(bytes_before[stop] - bytes_before[start])
        )
        if largest <= _FREE or targets.tier(whole, growth) > largest:
            runs.append((start, stop))
            continue
        edge = start
        for position in (np.flatnonzero(tiers[start:stop] == largest) + start).tolist():
            waiting.append((edge, position))
            edge = position + 1
        waiting.append((edge, stop))
    for start, stop in sorted(runs):
        yield neighbours[start:stop]
