"""Compaction plan: groups, costs, and remap strategies of indices. Pure.

`groups` decides which fragments are rewritten together.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from lance_ops.errors import LanceOpsError
from lance_ops.file.schema.blob_fields import has_blob_v2
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.file.writer import check_writable
from lance_ops.index.upkeep.lost_rows import may_need_purges, with_purges
from lance_ops.index.upkeep.routes import Route, SegmentRoute, plan_routes, weigh_routes, why_not_deferred
from lance_ops.maintenance.compact.estimate import (
    GroupEstimate,
    PlanEstimate,
    RunEstimates,
    covers,
    within_limits,
)
from lance_ops.maintenance.compact.groups import (
    CompactionGroup,
    Coverage,
    Method,
    Selection,
    output_version,
)
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.tiers import SMALL_SHARE
from lance_ops.maintenance.target import check_side_by_side
from lance_ops.maintenance.text import bytes_text, count_text, ids_text, seconds_text, table_text
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import by_id, ids_of
from lance_ops.table.narrow_dictionaries import NarrowDictionaries, narrow_columns
from lance_ops.table.scan.fragment_reader import FragmentReader

_ROWS = 1 << 17


def without_kept_apart(
    dataset: Dataset, groups: Iterable[CompactionGroup], notes: list[str]
) -> list[CompactionGroup]:
    """Exclude groups that cannot become fewer fragments, which `rewrite_group` would reject.

    Only narrow dictionaries are read, and of a group that can become fewer those of its first fragments.

    Args:
        dataset: The version.
        groups: Candidates.
        notes: Receives a line for each excluded group.
    """
    names = narrow_columns(prepare_schema(dataset.lance_schema).arrow)
    if not names:
        return list(groups)
    kept: list[CompactionGroup] = []
    for group in groups:
        if group.deleted_rows or not _is_kept_apart(dataset, group, names):
            kept.append(group)
        else:
            notes.append(
                f"fragments {ids_text(group.fragment_ids)} cannot be merged: the dictionaries of "
                f"{', '.join(names)} together have more values than their index type allows; give the "
                "column a wider index type, or plain values, with alter_columns"
            )
    return kept


def _is_kept_apart(dataset: Dataset, group: CompactionGroup, names: list[str]) -> bool:
    schema = dataset.lance_schema.select(names)
    version = dataset.manifest.storage_version
    arrow = prepare_schema(schema).arrow
    known = NarrowDictionaries(arrow, version)
    files = 1
    try:
        for number, fragment in enumerate(group.fragments):
            for batch in FragmentReader(dataset, fragment).iter_batches(schema, batch_rows=_ROWS):
                if not known.add(batch):
                    known, files = NarrowDictionaries(arrow, version), files + 1
                    known.add(batch)
            if files <= number:
                return False
    except LanceOpsError:
        # The rewrite reports the error.
        return False
    return files > group.files


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """Fragments that a compaction leaves alone.

    Attributes:
        fragments: Number of them.
        reason: Why.
        fragment_ids: Their ids; empty for full ones, of which a table may have very many.
    """

    fragments: int
    reason: str
    fragment_ids: tuple[int, ...] = ()

    def __str__(self) -> str:
        noun = "fragment" if self.fragments == 1 else "fragments"
        which = f"{noun} {ids_text(self.fragment_ids)}" if self.fragment_ids else f"{self.fragments:,} {noun}"
        return f"{which}: {self.reason}"


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Plan of a compaction; prints as a table.

    Attributes:
        uri: The dataset.
        version: Version that it was planned from.
        options: Resolved options.
        groups: Groups to rewrite, in the order of rows.
        notes: Why fragments are not rewritten, and unknown config entries. Never empty without groups.
        indices: Remap strategy of the covering index segments.
        estimates: Cost and benefit of each group, in the order of the groups.
        estimate: Cost and benefit of the plan.
        left_alone: Fragments that are not rewritten, with reasons.
    """

    uri: str
    version: int
    options: CompactionOptions
    groups: tuple[CompactionGroup, ...]
    notes: tuple[str, ...] = ()
    indices: tuple[SegmentRoute, ...] = ()
    estimates: tuple[GroupEstimate, ...] = ()
    estimate: PlanEstimate = field(default_factory=PlanEstimate)
    left_alone: tuple[LeftAlone, ...] = ()

    @property
    def source_fragments(self) -> int:
        """Number of replaced fragments."""
        return sum(len(group.fragments) for group in self.groups)

    @property
    def expected_fragments(self) -> int:
        """Number of new fragments, unless the limit in bytes requires more."""
        return sum(group.files for group in self.groups)

    @property
    def live_rows(self) -> int:
        """Number of rows to write."""
        return sum(group.live_rows for group in self.groups)

    @property
    def deleted_rows(self) -> int:
        """Number of deleted rows to purge."""
        return sum(group.deleted_rows for group in self.groups)

    @property
    def data_bytes(self) -> int:
        """Recorded size of the data files to be read; about as much is written."""
        return sum(group.data_bytes for group in self.groups)

    @property
    def index_bytes(self) -> int:
        """Bytes of index segments to write, by the cost model (`index.upkeep.cost`)."""
        return sum(item.cost.written_bytes for item in self.indices)

    @property
    def index_seconds(self) -> float:
        """Duration of index remaps in sequence, by the cost model."""
        return sum(item.cost.seconds for item in self.indices)

    def to_dict(self) -> dict[str, object]:
        """Return numbers and ids as JSON values."""
        return {
            "operation": "compact",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.version,
            "source_fragments": self.source_fragments,
            "expected_fragments": self.expected_fragments,
            "live_rows": self.live_rows,
            "deleted_rows": self.deleted_rows,
            "data_bytes": self.data_bytes,
            "index_bytes": self.index_bytes,
            "index_seconds": self.index_seconds,
            "estimate": self.estimate.to_dict(),
            "groups": [
                {
                    "fragments": list(group.fragment_ids),
                    "expected_fragments": group.files,
                    "live_rows": group.live_rows,
                    "deleted_rows": group.deleted_rows,
                    "data_bytes": group.data_bytes,
                    "method": group.method.method.value,
                    "reason": group.method.reason,
                    "estimate": estimate.to_dict(),
                }
                for group, estimate in zip(self.groups, self.estimates, strict=True)
            ],
            "indices": [
                {
                    "index": item.segment.name,
                    "segment": str(item.segment.uuid),
                    "kind": item.segment.kind,
                    "route": item.route.value,
                    "reason": item.reason,
                    "rows": self._rows_under(item),
                    "bytes": item.cost.written_bytes,
                    "read_bytes": item.cost.read_bytes,
                    "seconds": item.cost.seconds,
                }
                for item in self.indices
            ],
            "strategy": self.options.rule,
            "left_alone": [
                {
                    "fragments": item.fragments,
                    "fragment_ids": list(item.fragment_ids),
                    "reason": item.reason,
                }
                for item in self.left_alone
            ],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        head = f"compact {self.uri} at version {self.version}"
        notes = [f"note: {line}" for line in self.notes]
        if not self.groups:
            return "\n".join([f"{head}, by {self.options.rule}: nothing to compact", *notes])
        left = [f"left alone: {item}" for item in self.left_alone]
        notes = [f"chosen by {self.options.rule}", *left, *notes]
        cost = (
            f"{head}: {count_text(self.source_fragments, 'fragment')} -> {self.expected_fragments:,}, "
            f"{count_text(self.live_rows, 'row')} and {bytes_text(self.data_bytes)} to rewrite, "
            f"{count_text(self.deleted_rows, 'deleted row')} to purge"
        )
        lines = [
            cost,
            str(self.estimate),
            table_text(
                (
                    "fragments",
                    "becomes",
                    "live rows",
                    "deleted",
                    "size",
                    "takes",
                    "scan",
                    "method",
                    "because",
                ),
                [
                    (
                        ids_text(group.fragment_ids),
                        f"{group.files:,}",
                        f"{group.live_rows:,}",
                        f"{group.deleted_rows:,}",
                        bytes_text(group.data_bytes),
                        seconds_text(estimate.cost),
                        f"-{seconds_text(estimate.scan_seconds_saved)}",
                        group.method.method.value,
                        group.method.reason,
                    )
                    for group, estimate in zip(self.groups, self.estimates, strict=True)
                ],
            ),
        ]
        if self.indices:
            header = ("index", "kind", "rows moved", "follows by", "to write", "takes", "because")
            lines.append(
                table_text(
                    header,
                    [
                        (
                            item.segment.name,
                            item.segment.kind or "unknown",
                            f"{self._rows_under(item):,}",
                            item.route.value,
                            bytes_text(item.cost.written_bytes),
                            f"{item.cost.seconds:,.2f} s",
                            item.reason,
                        )
                        for item in self.indices
                    ],
                )
            )
        return "\n".join([*lines, *notes])

    def _rows_under(self, item: SegmentRoute) -> int:
        """Return the rewritten live rows that a segment covers."""
        return sum(group.live_rows for group in self.groups if covers(item, group))


def plan_compaction(
    dataset: Dataset,
    options: CompactionOptions | None = None,
    *,
    warnings: tuple[str, ...] = (),
    slots: int = 1,
) -> CompactionPlan:
    """Plan a compaction.

    Args:
        dataset: The version to plan from.
        options: Resolved options; the defaults without them (see `resolve_options` for the table's config).
        warnings: First notes of the plan.
        slots: Concurrent tasks of the runner.

    Raises:
        InvalidArgumentError: a budget of bytes is set, but the manifest does not record the size of a file;
            or the requested storage version cannot be mixed with that of the dataset.
        UnsupportedTypeError: that version does not support a column.
    """
    options, dataset = options or CompactionOptions(), dataset.with_side_sizes()
    _check_version(dataset, options)
    routes = routes_of(dataset, options)
    pinned, notes = _pinned_fragments(dataset, routes)
    selection = Selection.of(dataset, options, pinned)
    groups = without_kept_apart(dataset, selection.groups, notes)
    within = list(within_limits(groups, options, dataset.uri))
    weighed = _weighed(dataset, options, routes, within)
    estimates = RunEstimates(dataset, within, weighed, options, slots)
    taken = estimates.taken()
    chosen = tuple(estimates.planned[position] for position in taken)
    left = len(groups) - len(within) + len(estimates.planned) - len(chosen)
    if left:
        notes.append(f"{count_text(left, 'more group')} left for later runs by the budget")
    left_alone = tuple(_left_alone(selection, options))
    if not groups:
        notes += map(str, left_alone)
        if not len(dataset.fragments):
            notes.append("there are no rows")
    if chosen and options.defer_index_remap and (not_deferred := why_not_deferred(dataset)) is not None:
        notes.append(not_deferred)
    if chosen and len(chosen) < len(estimates.planned):
        following = _weighed(dataset, options, routes, chosen)
    else:
        following = weighed if chosen else ()
    if may_need_purges(routes, (fragment for group in chosen for fragment in group.fragments)):
        following = followers_of(dataset, options, chosen)
    return CompactionPlan(
        dataset.uri,
        dataset.version,
        options,
        chosen,
        (*warnings, *notes),
        following,
        tuple(estimates.groups[position] for position in taken),
        estimates.of_run(taken, following),
        left_alone,
    )


def routes_of(dataset: Dataset, options: CompactionOptions) -> tuple[SegmentRoute, ...]:
    """Return how the index segments of a version are remapped."""
    return plan_routes(
        dataset, defer=options.defer_index_remap, defer_unknown=options.on_unknown_index == "defer"
    )


def followers_of(
    dataset: Dataset, options: CompactionOptions, groups: Collection[CompactionGroup]
) -> tuple[SegmentRoute, ...]:
    """Return the remap strategy of index segments that cover or name rows of some groups."""
    routes = routes_of(dataset, options)
    moved = frozenset(number for group in groups for number in group.fragment_ids)
    return with_purges(dataset, _weighed(dataset, options, routes, groups), routes, moved)


def _weighed(
    dataset: Dataset,
    options: CompactionOptions,
    routes: tuple[SegmentRoute, ...],
    groups: Collection[CompactionGroup],
) -> tuple[SegmentRoute, ...]:
    if not routes:
        return ()
    moved = [number for group in groups for number in group.fragment_ids]
    anew = (group for group in groups if group.method.method is Method.REWRITE)
    written = [number for group in anew for number in group.fragment_ids]
    return weigh_routes(dataset, routes, moved, may_defer=options.defer_where_cheaper, written=written)


def _check_version(dataset: Dataset, options: CompactionOptions) -> None:
    asked = options.data_storage_version
    if asked is not None and asked != dataset.data_storage_version:
        check_side_by_side(dataset, asked)
        check_writable(dataset.schema, asked)
    elif has_blob_v2(dataset.lance_schema):
        # The table may have got these after the plan.
        check_writable(dataset.schema, output_version(dataset, options))


def valid_groups(
    planned: Dataset,
    head: Dataset,
    groups: Iterable[CompactionGroup],
    options: CompactionOptions,
    emptied: frozenset[int] = frozenset(),
) -> tuple[CompactionGroup, ...]:
    """Return the planned groups that are still valid in a newer version.

    The schema is the same, their fragments are the same but for rows that were deleted since, and the same
    indices cover all fragments of a group.

    Args:
        planned: The version of the plan.
        head: The newer version.
        groups: The planned groups.
        options: Options of the compaction.
        emptied: Fragments removed because all their rows were deleted, see `emptied_fragments`.
    """
    if head.lance_schema.fields != planned.lance_schema.fields:
        return ()
    pinned, _ = _pinned_fragments(head, routes_of(head, options))
    coverage = Coverage(head)
    current = by_id(head.fragments)

    def stands(fragment: Fragment) -> bool:
        now = current.get(fragment.id)
        if now is None:
            return fragment.id in emptied
        return now == fragment or now.replace(deletion_file=fragment.deletion_file) == fragment

    return tuple(
        group
        for group in groups
        if all(stands(fragment) for fragment in group.fragments)
        and pinned.isdisjoint(group.fragment_ids)
        and len({coverage.of(fragment) for fragment in group.fragments if fragment.id in current}) == 1
    )


def _pinned_fragments(dataset: Dataset, routes: tuple[SegmentRoute, ...]) -> tuple[frozenset[int], list[str]]:
    """Return fragments to keep because an index over them could not be remapped, with notes.

    A rewrite must not reduce the coverage of an index (architecture, invariant 5), so fragments without a
    remap are not rewritten.
    """
    if not routes:
        return frozenset(), []
    live = frozenset(ids_of(dataset.fragments))
    reuse = dataset.fragment_reuse
    if reuse is not None and reuse.problem is not None:
        # The positions of the rows in the segments are unknown: moving them again would lose them.
        reason = "earlier rewrites have a deferred index remap, and their moved rows are unknown"
        return live, [f"nothing is rewritten: {reason}: {reuse.problem}"]
    pinned: set[int] = set()
    notes: list[str] = []
    for item in routes:
        index = item.segment
        covered = live if index.fragment_ids is None else live & index.fragment_ids
        if covered and item.route is Route.LEAVE:
            pinned |= covered
            notes.append(
                f"fragments {ids_text(sorted(covered))} are not rewritten because of index {index.name!r} "
                f"({index.kind or 'unknown kind'}): {item.reason}"
            )
    return frozenset(pinned), notes


def _left_alone(selection: Selection, options: CompactionOptions) -> Iterator[LeftAlone]:
    """Return the fragments that may be rewritten and are not worth it, with reasons."""
    rows, size = options.target_rows_per_fragment, options.target_bytes
    least = options.min_source_fragments
    fewer = "" if least == 2 else f", or there are fewer than {least:,} of them"
    limit = "" if size is None else f" and {bytes_text(round(SMALL_SHARE * size))}"
    reasons = (
        (selection.excluded, "excluded by the options"),
        (
            selection.waiting,
            f"merging them would not reach a larger size tier yet{fewer} (strategy 'rows' merges them)",
        ),
        (selection.few, f"fewer than {least:,} small neighbours"),
        (
            selection.alone,
            f"fewer than {rows:,} rows{limit}, but no small neighbour under the same indices",
        ),
    )
    for ids, reason in reasons:
        if ids:
            yield LeftAlone(len(ids), reason, ids)
    if selection.full:
        deleted = (
            f"none has more than {options.materialize_deletions_threshold:.0%} deleted"
            if options.purges_deletions
            else "deleted rows are not purged by these options"
        )
        reached = f"{rows:,} rows" + ("" if size is None else f" or {bytes_text(round(SMALL_SHARE * size))}")
        yield LeftAlone(selection.full, f"each has {reached} or more, and {deleted}")
