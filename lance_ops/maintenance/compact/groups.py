"""Compaction groups: fragments that are rewritten together. Pure.

The rules are those of pylance (its `Compaction.plan`), so that both agree on when a table needs no
compaction:

1. A fragment with too many deleted rows is worth rewriting alone; one below the target size wants a
   neighbour.
2. Neighbours in id order make a bin. A fragment that is neither, or that is excluded, ends the bin.
3. A bin holds only fragments covered by the same indices: a merged fragment is covered by an index or it is
   not.
4. A bin of one fragment that wants a neighbour is dropped. Bins are cut at the target, and a rest below the
   target stays with the last part.
5. Limits on sources cut the list of groups at the first one that would exceed them (`budget`).

In addition, a migration makes a fragment with data files of another version worth rewriting alone, the target
may be in bytes as well (`targets`), bins may be cut by size tiers (`tiers`), and may need more members.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Integers
from lance_ops.maintenance.compact.method import GroupMethod, choose_method
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.targets import Targets, full_parts, total
from lance_ops.maintenance.compact.tiers import tiered_runs
from lance_ops.storage.fork_safe import cached_property
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.numbers import kinds_of, numbers_of
from lance_ops.table.manifest.fragments.totals import (
    fragments_with_overlays,
    total_bytes,
    total_physical_rows,
    total_rows,
)


@dataclass(frozen=True)
class CompactionGroup:
    """Fragments that become one or more new ones; their totals are computed once.

    Attributes:
        fragments: In the order of rows; created lazily.
        files: Number of new fragments for the live rows, before any limit in bytes.
        method: Method of writing them.
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
        """Number of deleted rows to purge."""
        return total_physical_rows(self.fragments) - self.live_rows

    @cached_property
    def data_bytes(self) -> int:
        """Recorded size of the data files to be read."""
        return total_bytes(self.fragments)


_MOST_OVERLAYS = 10
"""Overlays of a fragment above which it is rewritten, as in pylance: every read checks each of them."""


class Coverage:
    """The set of data indices that cover each fragment."""

    def __init__(self, dataset: Dataset) -> None:
        self._indices = [index for index in dataset.indices if not index.is_system]

    def of(self, fragment: Fragment) -> frozenset[int]:
        """Return the index numbers of those that cover a fragment."""
        return frozenset(
            position
            for position, index in enumerate(self._indices)
            if index.fragment_ids is not None and fragment.id in index.fragment_ids
        )

    def sets(self, ids: Integers) -> Integers:
        """Return a number for each of some fragments, equal for those that the same indices cover."""
        sets = np.zeros(len(ids), np.int64)
        for index in self._indices:
            covered = index.fragment_ids or frozenset()
            inside = np.isin(ids, np.fromiter(covered, np.int64, len(covered)))
            _, sets = np.unique(2 * sets + inside, return_inverse=True)
        return sets


def find_groups(
    dataset: Dataset, options: CompactionOptions, pinned: frozenset[int]
) -> list[CompactionGroup]:
    """Return all groups of a version that are worth rewriting, without budgets.

    Args:
        dataset: The version.
        options: Resolved options.
        pinned: Ids of fragments to keep.
    """
    targets = Targets.of(options)
    return [
        make_group(dataset, part, options)
        for bin_ in _bins(dataset, options, Coverage(dataset), pinned)
        for run in _runs(bin_, targets, options)
        for part in full_parts(run, targets)
    ]


def output_version(dataset: Dataset, options: CompactionOptions) -> str:
    """Return the storage version of the written data files."""
    return options.data_storage_version or dataset.data_storage_version


def make_group(
    dataset: Dataset, fragments: Sequence[Fragment], options: CompactionOptions
) -> CompactionGroup:
    """Build the group of some neighbours, with its method."""
    files = Targets.of(options).files(total(fragments))
    version = output_version(dataset, options)
    method = choose_method(fragments, files, dataset.lance_schema, version, options)
    return CompactionGroup(fragments, files, method)


def _are_enough_alone(fragments: Sequence[Fragment], options: CompactionOptions) -> npt.NDArray[np.bool_]:
    """Return which fragments are worth rewriting without a neighbour."""
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
    """Yield neighbours that may be rewritten together: candidates under the same indices."""
    fragments = dataset.fragments
    numbers = numbers_of(fragments)
    candidates = Targets.of(options).are_small(numbers) | _are_enough_alone(fragments, options)
    alone = pinned | options.exclude_fragments
    candidates &= ~np.isin(numbers.ids, np.array(sorted(alone), np.int64))
    # Fragments that are no candidates are in no bin, under any index.
    bins = np.where(candidates, coverage.sets(numbers.ids), -1)
    edges = (np.flatnonzero(bins[1:] != bins[:-1]) + 1).tolist()
    for first, last in pairwise([0, *edges, len(bins)]):
        if first < last and candidates[first]:
            yield fragments[first:last]


def _runs(
    bin_: Sequence[Fragment], targets: Targets, options: CompactionOptions
) -> Iterator[Sequence[Fragment]]:
    """Yield the parts of a bin that are worth rewriting."""
    runs: Iterable[Sequence[Fragment]] = [bin_]
    if options.tier_growth is not None:
        due = _are_enough_alone(bin_, options).tolist()
        runs = tiered_runs(bin_, targets, options.tier_growth, due)
    return (run for run in runs if is_worth_it(run, options))


def is_worth_it(fragments: Sequence[Fragment], options: CompactionOptions) -> bool:
    """Return whether neighbours are worth rewriting together."""
    if len(fragments) >= options.min_source_fragments:
        return True
    if _are_enough_alone(fragments, options).any():
        return True
    return len(fragments) > 1 and Targets.of(options).reached(total(fragments))
