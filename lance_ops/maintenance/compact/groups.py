"""Compaction groups: which fragments are rewritten together. Pure.

The rules are those of the peer (its `Compaction.plan`), so that both agree on when a table needs nothing:

1. A fragment with too many deleted rows is worth rewriting alone; one below the target size wants a
   neighbour.
2. Neighbours in id order make a bin. A fragment that is neither, or that is excluded, ends the bin.
3. A bin holds only fragments covered by the same indices: a merged fragment is covered by an index or it is
   not.
4. A bin of one fragment that wants a neighbour is dropped. Bins are cut at the target, and a rest below the
   target stays with the last part.
5. Limits on sources cut the list of groups at the first one that would exceed them (`budget`).

Beyond the peer, a migration makes a fragment with data files of another version worth rewriting alone, the
target may be in bytes as well (`targets`), bins may be cut by size tiers (`tiers`), and may need more
members.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from lance_ops.maintenance.compact.method import GroupMethod, choose_method
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.targets import Targets, full_parts, total
from lance_ops.maintenance.compact.tiers import tiered_runs
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment


@dataclass(frozen=True)
class CompactionGroup:
    """Fragments that become one or more new ones; what thousands of them sum up to is worked out once.

    Attributes:
        fragments: In the order of their rows.
        files: How many new fragments the live rows are spread over, before any cap on bytes.
        method: How the rows get there.
    """

    fragments: tuple[Fragment, ...]
    files: int
    method: GroupMethod

    @cached_property
    def fragment_ids(self) -> tuple[int, ...]:
        """Ids of the fragments."""
        return tuple(fragment.id for fragment in self.fragments)

    @cached_property
    def live_rows(self) -> int:
        """Rows to be written."""
        return sum(fragment.num_rows for fragment in self.fragments)

    @cached_property
    def deleted_rows(self) -> int:
        """Deleted rows that vanish."""
        return sum(fragment.num_deleted_rows for fragment in self.fragments)

    @cached_property
    def data_bytes(self) -> int:
        """Recorded size of the data files to be read."""
        return sum(fragment.data_bytes for fragment in self.fragments)


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
        make_group(dataset, tuple(part), options)
        for bin_ in _bins(dataset, options, Coverage(dataset), pinned)
        for run in _runs(bin_, targets, options)
        for part in full_parts(run, targets)
    ]


def output_version(dataset: Dataset, options: CompactionOptions) -> str:
    """Version of the data files that a compaction writes."""
    return options.data_storage_version or dataset.data_storage_version


def make_group(
    dataset: Dataset, fragments: tuple[Fragment, ...], options: CompactionOptions
) -> CompactionGroup:
    """The group of some neighbours, with the method for it."""
    files = Targets.of(options).files(total(fragments))
    version = output_version(dataset, options)
    method = choose_method(fragments, files, dataset.lance_schema, version, options)
    return CompactionGroup(fragments, files, method)


def _is_enough_alone(fragment: Fragment, options: CompactionOptions) -> bool:
    if options.migrate and any(
        file.storage_version != options.data_storage_version for file in fragment.files
    ):
        return True
    if len(fragment.overlays) > _MOST_OVERLAYS:
        return True
    if not options.purges_deletions or not fragment.physical_rows:
        return False
    return fragment.num_deleted_rows / fragment.physical_rows > options.materialize_deletions_threshold


def _bins(
    dataset: Dataset, options: CompactionOptions, coverage: Coverage, pinned: frozenset[int]
) -> Iterator[list[Fragment]]:
    """Neighbours that may be rewritten together: all are candidates, under the same indices."""
    targets = Targets.of(options)
    current: list[Fragment] = []
    covering: frozenset[int] = frozenset()
    for fragment in dataset.fragments:
        left_alone = fragment.id in pinned or fragment.id in options.exclude_fragments
        candidate = not left_alone and (targets.is_small(fragment) or _is_enough_alone(fragment, options))
        indices = coverage.of(fragment) if candidate else frozenset()
        if current and (not candidate or indices != covering):
            yield current
            current = []
        if candidate:
            current.append(fragment)
            covering = indices
    if current:
        yield current


def _runs(bin_: list[Fragment], targets: Targets, options: CompactionOptions) -> Iterator[list[Fragment]]:
    """The parts of a bin that are worth rewriting."""
    runs: Iterable[list[Fragment]] = [bin_]
    if options.tier_growth is not None:
        runs = tiered_runs(
            bin_, targets, options.tier_growth, lambda fragment: _is_enough_alone(fragment, options)
        )
    return (run for run in runs if is_worth_it(run, options))


def is_worth_it(fragments: Sequence[Fragment], options: CompactionOptions) -> bool:
    """Whether neighbours are worth rewriting together."""
    if len(fragments) >= options.min_source_fragments:
        return True
    if any(_is_enough_alone(fragment, options) for fragment in fragments):
        return True
    return len(fragments) > 1 and Targets.of(options).reached(total(fragments))
