"""Target size of a fragment, in rows and in bytes: what is small, what is full. Pure.

A fragment is full when it reaches either target, so that wide rows stop at the bytes and narrow ones at the
rows. Rows are known exactly beforehand. Bytes are not: what is written anew is compressed anew, and may be
smaller than what was read. So a fragment counts as small in bytes only below three quarters of the target
(the usual share, as of Iceberg's `min-file-size-bytes`); what one compaction filled is then left by the next.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.table.manifest.fragment import Fragment

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


def live_amount(fragment: Fragment) -> Amount:
    """What a fragment holds; its bytes by the share of its rows that are live."""
    return Amount(*_live(fragment))


def total(fragments: Iterable[Fragment]) -> Amount:
    """What fragments hold together."""
    rows = size = 0
    for fragment in fragments:
        own_rows, own_size = _live(fragment)
        rows += own_rows
        size += own_size
    return Amount(rows, size)


def full_parts(fragments: Sequence[Fragment], targets: "Targets") -> Iterator[Sequence[Fragment]]:
    """Cut neighbours into parts that fill a fragment; what is left over stays with the last part."""
    amounts = [_live(fragment) for fragment in fragments]
    left_rows, left_size = (sum(some) for some in zip(*amounts, strict=True))
    first = rows = size = 0
    for number, (own_rows, own_size) in enumerate(amounts):
        rows += own_rows
        size += own_size
        left_rows -= own_rows
        left_size -= own_size
        if targets.is_full(rows, size) and targets.is_full(left_rows, left_size):
            yield fragments[first : number + 1]
            first, rows, size = number + 1, 0, 0
    yield fragments[first:]


def _live(fragment: Fragment) -> tuple[int, int]:
    # Plain numbers: a table may have 100,000 fragments.
    size, rows = fragment.data_bytes, fragment.physical_rows
    if fragment.deletion_file is None or not rows:
        return rows, size
    live = fragment.num_rows
    return live, size * live // rows


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

    def is_small(self, fragment: Fragment) -> bool:
        """Whether a fragment wants to be merged, its deleted rows included as the peer counts them."""
        if fragment.physical_rows >= self.rows:
            return False
        return self.bytes is None or fragment.data_bytes < SMALL_SHARE * self.bytes

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
