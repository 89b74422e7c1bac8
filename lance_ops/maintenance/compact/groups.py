"""Compaction groups: which fragments are rewritten together. Pure.

The rules are those of the peer (its `Compaction.plan`), so that both agree on when a table needs nothing:

1. A fragment with too many deleted rows is worth rewriting alone; one below the target size wants a
   neighbour.
2. Neighbours in id order make a bin. A fragment that is neither, or that is excluded, ends the bin.
3. A bin holds only fragments covered by the same indices: a merged fragment is covered by an index or it is
   not.
4. A bin of one fragment that wants a neighbour is dropped. Bins are cut at the target, and a rest below the
   target stays with the last part.
5. Budgets cut the list of groups at the first one that would exceed them.

Beyond the peer, a migration makes a fragment with data files of another version worth rewriting alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.compact.method import GroupMethod, choose_method
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment


@dataclass(frozen=True, slots=True)
class CompactionGroup:
    """Fragments that become one or more new ones.

    Attributes:
        fragments: In the order of their rows.
        files: How many new fragments the live rows are spread over, before any cap on bytes.
        method: How the rows get there.
    """

    fragments: tuple[Fragment, ...]
    files: int
    method: GroupMethod

    @property
    def fragment_ids(self) -> tuple[int, ...]:
        """Ids of the fragments."""
        return tuple(fragment.id for fragment in self.fragments)

    @property
    def live_rows(self) -> int:
        """Rows to be written."""
        return sum(fragment.num_rows for fragment in self.fragments)

    @property
    def deleted_rows(self) -> int:
        """Deleted rows that vanish."""
        return sum(fragment.num_deleted_rows for fragment in self.fragments)

    @property
    def data_bytes(self) -> int:
        """Recorded size of the data files to be read."""
        return sum(fragment.data_bytes for fragment in self.fragments)


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
    return [
        _group(dataset, tuple(part), options)
        for bin_ in _bins(dataset, options, Coverage(dataset), pinned)
        for part in _split(bin_, options.target_rows_per_fragment)
    ]


def output_version(dataset: Dataset, options: CompactionOptions) -> str:
    """Version of the data files that a compaction writes."""
    return options.data_storage_version or dataset.data_storage_version


def _group(dataset: Dataset, fragments: tuple[Fragment, ...], options: CompactionOptions) -> CompactionGroup:
    live = sum(fragment.num_rows for fragment in fragments)
    files = max(1, live // options.target_rows_per_fragment) if live else 0
    version = output_version(dataset, options)
    method = choose_method(fragments, files, dataset.lance_schema, version, options)
    return CompactionGroup(fragments, files, method)


def _is_enough_alone(fragment: Fragment, options: CompactionOptions) -> bool:
    if options.migrate and any(
        file.storage_version != options.data_storage_version for file in fragment.files
    ):
        return True
    if not options.purges_deletions or not fragment.physical_rows:
        return False
    return fragment.num_deleted_rows / fragment.physical_rows > options.materialize_deletions_threshold


def _bins(
    dataset: Dataset, options: CompactionOptions, coverage: Coverage, pinned: frozenset[int]
) -> Iterator[list[Fragment]]:
    current: list[Fragment] = []
    covering: frozenset[int] = frozenset()
    for fragment in dataset.fragments:
        left_alone = fragment.id in pinned or fragment.id in options.exclude_fragments
        small = fragment.physical_rows < options.target_rows_per_fragment
        candidate = not left_alone and (small or _is_enough_alone(fragment, options))
        indices = coverage.of(fragment) if candidate else frozenset()
        if current and (not candidate or indices != covering):
            if _is_worth_it(current, options):
                yield current
            current = []
        if candidate:
            current.append(fragment)
            covering = indices
    if current and _is_worth_it(current, options):
        yield current


def _is_worth_it(fragments: list[Fragment], options: CompactionOptions) -> bool:
    return len(fragments) > 1 or _is_enough_alone(fragments[0], options)


def _split(fragments: list[Fragment], target: int) -> Iterator[list[Fragment]]:
    """Cut a bin into parts of at least `target` live rows; what is left over stays with the last part."""
    left = sum(fragment.num_rows for fragment in fragments)
    part: list[Fragment] = []
    rows = 0
    for fragment in fragments:
        part.append(fragment)
        rows += fragment.num_rows
        left -= fragment.num_rows
        if rows >= target and left >= target:
            yield part
            part, rows = [], 0
    yield part


def within_budget(
    groups: list[CompactionGroup], options: CompactionOptions, uri: str
) -> Iterator[CompactionGroup]:
    """The first groups that the budgets allow.

    Raises:
        InvalidArgumentError: There is a budget of bytes, and the size of a file is not known.
    """
    fragments = rows = size = 0
    for group in groups:
        fragments += len(group.fragments)
        rows += group.live_rows
        if options.max_source_bytes is not None:
            size += _recorded_bytes(group, uri)
        for used, budget in (
            (fragments, options.max_source_fragments),
            (rows, options.max_source_rows),
            (size, options.max_source_bytes),
        ):
            if budget is not None and used > budget:
                return
        yield group


def _recorded_bytes(group: CompactionGroup, uri: str) -> int:
    for fragment in group.fragments:
        for file in fragment.files:
            if not file.size_bytes:
                raise InvalidArgumentError(
                    f"the manifest does not record the size of {file.path} of fragment {fragment.id}",
                    path=uri,
                    field="max_source_bytes",
                    hint="give a budget of rows or fragments instead",
                )
    return group.data_bytes
