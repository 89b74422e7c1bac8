"""Compaction groups: which fragments are rewritten together. Pure.

The rules are those of the peer (its `Compaction.plan`), so that both agree on when a table needs nothing:

1. A fragment with too many deleted rows is worth rewriting alone; one below the target size wants a
   neighbour.
2. Neighbours in id order make a bin. A fragment that is neither, or that is excluded, ends the bin.
3. A bin holds only fragments covered by the same indices: a merged fragment is covered by an index or it is
   not.
4. A bin of one fragment that wants a neighbour is dropped. Bins are cut at the target, and a rest below the
   target stays with the last part.
5. Limits on sources cut the list of groups at the first one that would exceed them (`estimate`).

Beyond the peer, a migration makes a fragment with data files of another version worth rewriting alone, the
target may be in bytes as well, bins may be cut by size tiers, and may need more members.

A fragment is full when it reaches either target, so that wide rows stop at the bytes and narrow ones at the
rows. Rows are known exactly beforehand. Bytes are not: what is written anew is compressed anew, and may be
smaller than what was read. So a fragment counts as small in bytes only below three quarters of the target
(the usual share, as of Iceberg's `min-file-size-bytes`); what one compaction filled is then left by the next.

By size tiers, every byte that a compaction writes ends in a larger tier than it came from.

A table that grows by small appends and is compacted after every few of them would write its youngest large
fragment again each time: n appends cost a number of bytes that grows with the square of n. So sizes are put
into tiers, each `growth` times as large as the one below, up to the target. A run of neighbours is merged
only when what comes out lies in a larger tier than each of those that go in. A byte climbs a tier whenever it
is written, and there are log(target / first size) tiers: so often it is written at most, whatever the order
of appends and compactions. (Cassandra's size-tiered strategy and RocksDB's universal compaction do the same.)

Fragments that are to be rewritten anyway, for their deleted rows or their version, climb for nothing: they
may be in any run.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Integers
from lance_ops.maintenance.compact.method import GroupMethod, choose_method
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.storage.fork_safe import cached_property
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.numbers import FragmentNumbers, kinds_of, numbers_of, running_totals
from lance_ops.table.manifest.fragments.totals import (
    fragments_with_overlays,
    total_bytes,
    total_physical_rows,
    total_rows,
)

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


def tiered_runs(
    neighbours: Sequence[Fragment],
    targets: Targets,
    growth: int,
    due: Sequence[bool],
) -> Iterator[Sequence[Fragment]]:
    """The longest runs of neighbours whose merging moves every one of them into a larger tier.

    When the whole does not reach the next tier, no run with a fragment of its largest tier does, for it holds
    less. So what lies between those is looked at alone, and nothing is overlooked.

    Args:
        neighbours: In the order of rows; all may be rewritten together.
        targets: What a full fragment is.
        growth: How many times each tier is as large as the one below, 2 at least.
        due: Whether each of them is rewritten in any case.
    """
    amounts = live_amounts(neighbours)
    # Due fragments lie below all tiers: merging them costs nothing that would not be spent anyway.
    below_all = -(1 << 31)
    tiers = [
        below_all if is_due else targets.tier(amount, growth)
        for is_due, amount in zip(due, amounts, strict=True)
    ]
    waiting = [(0, len(neighbours))]
    runs: list[tuple[int, int]] = []
    while waiting:
        start, stop = waiting.pop()
        if start == stop:
            continue
        largest = max(tiers[start:stop])
        whole = sum(amounts[start:stop], Amount())
        if largest == below_all or targets.tier(whole, growth) > largest:
            runs.append((start, stop))
            continue
        edge = start
        for position in range(start, stop):
            if tiers[position] == largest:
                waiting.append((edge, position))
                edge = position + 1
        waiting.append((edge, stop))
    for start, stop in sorted(runs):
        yield neighbours[start:stop]


@dataclass(frozen=True)
class CompactionGroup:
    """Fragments that become one or more new ones; what thousands of them sum up to is worked out once.

    Attributes:
        fragments: In the order of their rows; of many, each becomes an object when it is asked for.
        files: How many new fragments the live rows are spread over, before any cap on bytes.
        method: How the rows get there.
    """

    fragments: Sequence[Fragment]
    files: int
    method: GroupMethod

    @cached_property
    def fragment_ids(self) -> tuple[int, ...]:
        """Ids of the fragments."""
        return tuple(numbers_of(self.fragments).ids.tolist())

    @cached_property
    def live_rows(self) -> int:
        """Rows to be written."""
        return total_rows(self.fragments)

    @cached_property
    def deleted_rows(self) -> int:
        """Deleted rows that vanish."""
        return total_physical_rows(self.fragments) - self.live_rows

    @cached_property
    def data_bytes(self) -> int:
        """Recorded size of the data files to be read."""
        return total_bytes(self.fragments)


_MOST_OVERLAYS = 10
"""Overlays of a fragment above which it is rewritten, as by the peer: every read looks into each of them."""


class Coverage:
    """The set of data indices that cover each fragment."""

    def __init__(self, dataset: Dataset) -> None:
        self._indices = [index for index in dataset.indices if not index.is_system]

    def of(self, fragment: Fragment) -> frozenset[int]:
        """Numbers of those that cover a fragment."""
        return frozenset(
            position
            for position, index in enumerate(self._indices)
            if index.fragment_ids is not None and fragment.id in index.fragment_ids
        )

    def sets(self, ids: Integers) -> Integers:
        """A number for each of some fragments, equal for those that the same indices cover."""
        sets = np.zeros(len(ids), np.int64)
        for index in self._indices:
            covered = index.fragment_ids or frozenset()
            inside = np.isin(ids, np.fromiter(covered, np.int64, len(covered)))
            _, sets = np.unique(2 * sets + inside, return_inverse=True)
        return sets


def find_groups(
    dataset: Dataset, options: CompactionOptions, pinned: frozenset[int]
) -> list[CompactionGroup]:
    """All groups of a version that are worth rewriting, budgets apart.

    Args:
        dataset: The version.
        options: Resolved options.
        pinned: Ids of fragments that must stay.
    """
    targets = Targets.of(options)
    return [
        make_group(dataset, part, options)
        for bin_ in _bins(dataset, options, Coverage(dataset), pinned)
        for run in _runs(bin_, targets, options)
        for part in full_parts(run, targets)
    ]


def output_version(dataset: Dataset, options: CompactionOptions) -> str:
    """Version of the data files that a compaction writes."""
    return options.data_storage_version or dataset.data_storage_version


def make_group(
    dataset: Dataset, fragments: Sequence[Fragment], options: CompactionOptions
) -> CompactionGroup:
    """The group of some neighbours, with the method for it."""
    files = Targets.of(options).files(total(fragments))
    version = output_version(dataset, options)
    method = choose_method(fragments, files, dataset.lance_schema, version, options)
    return CompactionGroup(fragments, files, method)


def _are_enough_alone(fragments: Sequence[Fragment], options: CompactionOptions) -> npt.NDArray[np.bool_]:
    """Which fragments are worth rewriting without any neighbour."""
    numbers = numbers_of(fragments)
    many = [item.id for item in fragments_with_overlays(fragments) if len(item.overlays) > _MOST_OVERLAYS]
    enough = np.isin(numbers.ids, np.array(many, np.int64))
    if options.migrate:
        kinds = kinds_of(fragments)
        old = [place for place in np.unique(kinds).tolist() if _is_to_migrate(fragments[place], options)]
        enough |= np.isin(kinds, np.array(old, np.int64))
    if options.purges_deletions:
        share = numbers.deleted_rows / np.maximum(numbers.rows, 1)
        enough |= (numbers.rows > 0) & (share > options.materialize_deletions_threshold)
    return enough


def _is_to_migrate(fragment: Fragment, options: CompactionOptions) -> bool:
    return any(file.storage_version != options.data_storage_version for file in fragment.files)


def _bins(
    dataset: Dataset, options: CompactionOptions, coverage: Coverage, pinned: frozenset[int]
) -> Iterator[Sequence[Fragment]]:
    """Neighbours that may be rewritten together: all are candidates, under the same indices."""
    fragments = dataset.fragments
    numbers = numbers_of(fragments)
    candidates = Targets.of(options).are_small(numbers) | _are_enough_alone(fragments, options)
    alone = pinned | options.exclude_fragments
    candidates &= ~np.isin(numbers.ids, np.array(sorted(alone), np.int64))
    # What is no candidate lies in no bin, whatever covers it.
    bins = np.where(candidates, coverage.sets(numbers.ids), -1)
    edges = (np.flatnonzero(bins[1:] != bins[:-1]) + 1).tolist()
    for first, last in pairwise([0, *edges, len(bins)]):
        if first < last and candidates[first]:
            yield fragments[first:last]


def _runs(
    bin_: Sequence[Fragment], targets: Targets, options: CompactionOptions
) -> Iterator[Sequence[Fragment]]:
    """The parts of a bin that are worth rewriting."""
    runs: Iterable[Sequence[Fragment]] = [bin_]
    if options.tier_growth is not None:
        due = _are_enough_alone(bin_, options).tolist()
        runs = tiered_runs(bin_, targets, options.tier_growth, due)
    return (run for run in runs if is_worth_it(run, options))


def is_worth_it(fragments: Sequence[Fragment], options: CompactionOptions) -> bool:
    """Whether neighbours are worth rewriting together."""
    if len(fragments) >= options.min_source_fragments:
        return True
    if _are_enough_alone(fragments, options).any():
        return True
    return len(fragments) > 1 and Targets.of(options).reached(total(fragments))
