"""Compaction groups: fragments that are rewritten together. Pure.

With the strategy "rows" the rules are those of pylance (its `Compaction.plan`), so that both agree on when a
table needs no compaction:

1. A fragment with too many deleted rows is worth rewriting alone; one below the target size wants a
   neighbour.
2. Neighbours in id order make a bin. A fragment that is neither, or that is excluded, ends the bin.
3. A bin holds only fragments covered by the same indices: a merged fragment is covered by an index or it is
   not.
4. A bin of one fragment that wants a neighbour is dropped. Bins are cut at the target, and a rest below the
   target stays with the last part.
5. Limits on sources cut the list of groups at the first one that would exceed them (`estimate`).

Beyond the peer, a migration makes a fragment with data files of another version worth rewriting alone, and
bins may need more members. With the strategy "tiers", the default, the target is in bytes as well, and bins
are cut by size tiers.

What is full or small, and the tiers, are in `tiers`.

Method of a group: copy encoded pages, or rewrite rows. Pure.

To copy takes a fraction of a rewrite's work for each byte, but a fixed time for each page, which a rewrite
does not have: so files whose pages are small are rewritten. What the manifest does not say, such as the
encodings of the files, the task of a group looks at; it rewrites where they do not allow the copy.

Fragments of one table need not have the same columns: dropped columns remain in old files, and columns added
later are missing in them and read as null. Files can be copied into one if every column is in the same file
of each fragment.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Integers
from lance_ops.file.schema.blob_fields import has_blobs
from lance_ops.file.schema.logical_types import JSON_TYPE
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.versions import is_legacy
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.tiers import Targets, full_parts, tiered_runs, total
from lance_ops.maintenance.text import bytes_text
from lance_ops.storage.fork_safe import cached_property
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.data_file import LINEAGE_FIELDS, UNASSIGNED
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import (
    examples,
    fragments_with_overlays,
    kinds_of,
    numbers_of,
    total_bytes,
    total_physical_rows,
    total_rows,
)

# Storage versions in which null columns differ by type.
_WITHOUT_NULL_PAGES = frozenset({"2.0"})
_ELSEWHERE = "its fragments do not have the same columns in the same files"
_UNKNOWN = "its files have columns that are not in the schema"
_NOTHING_LEFT = "its files have dropped columns"


@dataclass(frozen=True, slots=True)
class Place:
    """Files, one of each fragment, that become one file.

    Attributes:
        number: Position of the file in its fragment.
        schema: Columns of the new file; None for those of all files.
    """

    number: int
    schema: Schema | None = None


def find_places(fragments: Sequence[Fragment], schema: Schema) -> tuple[Place, ...] | str:
    """Match the files of fragments.

    Args:
        fragments: At least one.
        schema: Schema of the dataset.

    Returns:
        The files of a new fragment, or the reason why they cannot be merged.
    """
    first = fragments[0]
    every = [file for fragment in fragments for file in fragment.files]
    tops = {node.id: top for top in schema.fields for node in top.walk()}
    is_alike = len({_columns(fragment) for fragment in fragments}) == 1
    if is_alike and all(field_id in tops for file in every for field_id in file.fields):
        return tuple(Place(number) for number in range(len(first.files)))
    unknown = {UNASSIGNED, *LINEAGE_FIELDS.values()}
    if any(field_id in unknown for file in every for field_id in file.fields):
        return _UNKNOWN
    if len({len(fragment.files) for fragment in fragments}) != 1:
        return _ELSEWHERE
    numbers: dict[int, int] = {}
    for fragment in fragments:
        for number, file in enumerate(fragment.files):
            for field_id in file.fields:
                top = tops.get(field_id)
                if top is not None and numbers.setdefault(top.id, number) != number:
                    return _ELSEWHERE
    is_old = any(file.storage_version in _WITHOUT_NULL_PAGES for file in every)
    for top in schema.fields:
        if top.id in numbers and (is_old or not _can_be_null(top)) and not _is_everywhere(top, fragments):
            return f"column {top.name!r} is not in all of its fragments"
    places = []
    for number in sorted(set(numbers.values())):
        held = tuple(top for top in schema.fields if numbers.get(top.id) == number)
        places.append(Place(number, Schema(held, schema.metadata)))
    return tuple(places) if places else _NOTHING_LEFT


def _columns(fragment: Fragment) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    return tuple((file.fields, file.column_indices) for file in fragment.files)


def _can_be_null(field: Field) -> bool:
    return field.nullable and not field.children


def _is_everywhere(field: Field, fragments: Sequence[Fragment]) -> bool:
    ids = {node.id for node in field.walk()}
    return all(any(ids.intersection(file.fields) for file in fragment.files) for fragment in fragments)


COPY_PAGE_BYTES = 8 << 10
"""Average page size below which copying is slower than rewriting."""


class Method(StrEnum):
    """Method of writing the rows of a group to new files."""

    COPY = "copy"
    REWRITE = "rewrite"


@dataclass(frozen=True, slots=True)
class GroupMethod:
    """The method of a group.

    Attributes:
        method: The method.
        reason: The reason, for display.
    """

    method: Method
    reason: str


def choose_method(
    fragments: Sequence[Fragment], files: int, schema: Schema, version: str, options: CompactionOptions
) -> GroupMethod:
    """Choose the method by the manifest and by cost.

    Args:
        fragments: Fragments of the group.
        files: Number of new fragments.
        schema: Schema of the dataset.
        version: Storage version of the new files.
        options: Options of the compaction; `method` overrides the cost, but not obstacles.
    """
    if options.method == Method.REWRITE:
        return GroupMethod(Method.REWRITE, "as asked")
    obstacle = _obstacle(fragments, files, schema, version, options)
    if obstacle is not None:
        return GroupMethod(Method.REWRITE, obstacle)
    if options.method == Method.COPY:
        return GroupMethod(Method.COPY, "as asked")
    kinds = examples(fragments)
    pages = sum(count * len(file.fields) for fragment, count in kinds for file in fragment.files)
    # More fragments than before have more pages, too.
    pages = max(pages, pages * files // len(fragments))
    size = total_bytes(fragments) // max(1, pages)
    if size < COPY_PAGE_BYTES:
        return GroupMethod(
            Method.REWRITE, f"pages are small: a column has {bytes_text(size)} per file on average"
        )
    return GroupMethod(Method.COPY, "pages can be copied")


def _obstacle(
    fragments: Sequence[Fragment], files: int, schema: Schema, version: str, options: CompactionOptions
) -> str | None:
    """Return why the fragments' pages cannot be copied, as far as the manifest shows; None if they can."""
    if files == 0:
        return "no rows are left"
    # One fragment represents all of its kind.
    kinds = [fragment for fragment, _ in examples(fragments)]
    if any(fragment.has_overlays for fragment in kinds):
        return "it has data overlays"
    if has_blobs(schema):
        return "pages contain the offsets of blobs, which would change"
    if any(field.logical_type == JSON_TYPE for field in schema.walk()):
        return "it has JSON documents, whose copied pages pylance cannot read"
    every = [file for fragment in kinds for file in fragment.files]
    if any(is_legacy(file.major, file.minor) for file in every):
        return "files of storage version 0.1 have no pages that can be copied"
    others = sorted({file.storage_version for file in every} - {version})
    if others:
        return f"files of storage version {', '.join(others)} become {version}"
    places = find_places(kinds, schema)
    if isinstance(places, str):
        return places
    if options.max_bytes_per_file is not None:
        # The sizes of several new files are unknown when planning.
        if files > 1:
            return f"it becomes {files} fragments with limited size"
        if total_bytes(fragments) > options.max_bytes_per_file:
            return f"one file would exceed {bytes_text(options.max_bytes_per_file)}"
    return None


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
    return Selection.of(dataset, options, pinned).groups


def small_sources(groups: Iterable[CompactionGroup], options: CompactionOptions) -> int:
    """Return the number of small fragments that groups merge with others."""
    targets = Targets.of(options)
    merged = [group.fragments for group in groups if len(group.fragments) > 1]
    return sum(int(targets.are_small(numbers_of(fragments)).sum()) for fragments in merged)


@dataclass(frozen=True, slots=True)
class Selection:
    """Fragments of a version by what a compaction does with them.

    Attributes:
        groups: Groups that are worth rewriting, without budgets.
        alone: Ids of small fragments without a small neighbour under the same indices.
        waiting: Ids of small fragments whose merge with neighbours would not reach a larger size tier.
        few: Ids of small fragments with fewer small neighbours than the options require.
        excluded: Ids of fragments that the options exclude.
        full: Number of fragments that are not small and have few deleted rows.
    """

    groups: list[CompactionGroup]
    alone: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    few: tuple[int, ...] = ()
    excluded: tuple[int, ...] = ()
    full: int = 0

    @classmethod
    def of(cls, dataset: Dataset, options: CompactionOptions, pinned: frozenset[int]) -> "Selection":
        """Sort the fragments of a version.

        Args:
            dataset: The version.
            options: Resolved options.
            pinned: Ids of fragments to keep.
        """
        targets = Targets.of(options)
        groups: list[CompactionGroup] = []
        left: dict[str, list[int]] = {"alone": [], "waiting": [], "few": []}
        numbers = numbers_of(dataset.fragments)
        is_excluded = np.isin(numbers.ids, np.array(sorted(options.exclude_fragments), np.int64))
        is_pinned = np.isin(numbers.ids, np.array(sorted(pinned), np.int64))
        candidates = 0
        for bin_ in _bins(dataset, options, Coverage(dataset), pinned):
            candidates += len(bin_)
            found = [part for run in _runs(bin_, targets, options) for part in full_parts(run, targets)]
            groups += [make_group(dataset, part, options) for part in found]
            kept = set(numbers_of(bin_).ids.tolist()).difference(
                *(numbers_of(part).ids.tolist() for part in found)
            )
            if kept:
                left[_why_left(len(bin_), options)] += sorted(kept)
        return cls(
            groups,
            **{name: tuple(ids) for name, ids in left.items()},
            excluded=tuple(numbers.ids[is_excluded].tolist()),
            full=int((~is_excluded & ~is_pinned).sum()) - candidates,
        )


def _why_left(neighbours: int, options: CompactionOptions) -> str:
    if neighbours == 1:
        return "alone"
    return "few" if options.growth is None else "waiting"


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
    if options.growth is not None:
        due = _are_enough_alone(bin_, options).tolist()
        runs = tiered_runs(bin_, targets, options.growth, due)
    return (run for run in runs if is_worth_it(run, options))


def is_worth_it(fragments: Sequence[Fragment], options: CompactionOptions) -> bool:
    """Return whether neighbours are worth rewriting together."""
    if len(fragments) >= options.min_source_fragments:
        return True
    if _are_enough_alone(fragments, options).any():
        return True
    return len(fragments) > 1 and Targets.of(options).reached(total(fragments))
