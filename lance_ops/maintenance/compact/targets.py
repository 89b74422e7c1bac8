"""Target size of a fragment, in rows and in bytes: what is small, what is full. Pure.

A fragment is full when it reaches either target, so that wide rows stop at the bytes and narrow ones at the
rows. Rows are known exactly beforehand. Bytes are not: what is written anew is compressed anew, and may be
smaller than what was read. So a fragment counts as small in bytes only below three quarters of the target
(the usual share, as of Iceberg's `min-file-size-bytes`); what one compaction filled is then left by the next.
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
    """What fragments hold.

    Attributes:
        rows: Live rows.
        bytes: Bytes of data files that belong to live rows.
    """

    rows: int = 0
    bytes: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.rows + other.rows, self.bytes + other.bytes)


def live_amounts(fragments: Sequence[Fragment]) -> list[Amount]:
    """What each of some fragments holds; its bytes by the share of its rows that are live."""
    rows, sizes = _live(fragments)
    return [Amount(*held) for held in zip(rows.tolist(), sizes.tolist(), strict=True)]


def total(fragments: Sequence[Fragment]) -> Amount:
    """What fragments hold together."""
    rows, sizes = _live(fragments)
    return Amount(sum(rows.tolist()), sum(sizes.tolist()))


def full_parts(fragments: Sequence[Fragment], targets: "Targets") -> Iterator[Sequence[Fragment]]:
    """Cut neighbours into parts that fill a fragment; what is left over stays with the last part."""
    rows, sizes = map(running_totals, _live(fragments))
    first, count = 0, len(fragments)
    while first < count:
        # What is full stays full with more, so the first that fills a part is found by halving.
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
    # A target may be above all numbers of 64 bits.
    return len(totals) if amount > int(totals[-1]) else int(np.searchsorted(totals, amount))


def _live(fragments: Sequence[Fragment]) -> tuple[Integers, Integers]:
    """Live rows of fragments, and the bytes that belong to them."""
    numbers = numbers_of(fragments)
    rows, sizes = numbers.rows - numbers.deleted_rows, numbers.data_bytes
    worn = np.flatnonzero(numbers.has_deletions & (numbers.rows > 0))
    if len(worn):
        sizes = sizes.copy()
        # The product need not fit into 64 bits.
        shares = zip(sizes[worn].tolist(), rows[worn].tolist(), numbers.rows[worn].tolist(), strict=True)
        sizes[worn] = [size * live // physical for size, live, physical in shares]
    return rows, sizes


@dataclass(frozen=True, slots=True)
class Targets:
    """When a fragment is full.

    Attributes:
        rows: With so many rows.
        bytes: With so many bytes; None: only rows count.
    """

    rows: int
    bytes: int | None = None

    @classmethod
    def of(cls, options: CompactionOptions) -> "Targets":
        """The targets of a compaction."""
        return cls(options.target_rows_per_fragment, options.target_bytes_per_fragment)

    def are_small(self, numbers: FragmentNumbers) -> npt.NDArray[np.bool_]:
        """Which fragments want to be merged, their deleted rows included as the peer counts them."""
        small: npt.NDArray[np.bool_] = numbers.rows < self.rows
        return small if self.bytes is None else small & (numbers.data_bytes < SMALL_SHARE * self.bytes)

    def reached(self, amount: Amount) -> bool:
        """Whether an amount fills a fragment."""
        return self.is_full(amount.rows, amount.bytes)

    def is_full(self, rows: int, size: int) -> bool:
        """Whether so many rows with so many bytes fill a fragment."""
        return rows >= self.rows or (self.bytes is not None and size >= self.bytes)

    def files(self, amount: Amount) -> int:
        """How many full fragments an amount makes, one at least unless there is nothing."""
        if not amount.rows:
            return 0
        by_bytes = 0 if self.bytes is None else amount.bytes // self.bytes
        return min(amount.rows, max(1, amount.rows // self.rows, by_bytes))

    def tier(self, amount: Amount, growth: int) -> int:
        """The size tier of an amount: 0 when it fills a fragment, -1 above 1/growth of that, and so on.

        Nothing lies in the least tier that there is.
        """
        if self.reached(amount):
            return 0
        fill = amount.rows / self.rows
        if self.bytes is not None:
            fill = max(fill, amount.bytes / self.bytes)
        return min(-1, math.floor(math.log(fill, growth))) if fill > 0 else -1 << 30
