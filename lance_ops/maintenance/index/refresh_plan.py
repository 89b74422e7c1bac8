"""Plan of an index refresh: new rows, merges, remaps, or rebuilds, with reasons."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from uuid import UUID

from lance_ops.errors import InvalidArgumentError, UnreadableIndexError, check_type
from lance_ops.index.coverage import IndexCoverage, coverage, effective_fragments
from lance_ops.index.kind import IndexKind
from lance_ops.index.registry import kind_of, parameters_as_made
from lance_ops.index.row_ids import live_row_ids, present_row_ids
from lance_ops.index.upkeep.lost_rows import lost_segments, minds_gone_row_ids
from lance_ops.index.upkeep.wear import IndexWear, index_wear
from lance_ops.maintenance.index.decision import (
    LEAST_ROWS,
    Decision,
    WearLimits,
    choices_of,
    decide,
)
from lance_ops.maintenance.index.kept import kept_as_it_is, why_kept, why_left_alone
from lance_ops.maintenance.index.merging import MOST_SEGMENTS, segments_to_merge
from lance_ops.maintenance.index.plan import IndexPlan, SegmentChoice, SegmentPlan, mean_coverage
from lance_ops.maintenance.index.reuse_trim import SegmentNeeds
from lance_ops.maintenance.text import count_text
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import ids_of, live_rows_by_id, total_physical_rows
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import RowSet

_LOST = "an update has removed rows from older segments"


def plan_optimize_indices(
    dataset: Dataset,
    names: Sequence[str] | None = None,
    *,
    merge_segments: int | None = None,
    rebuild: bool = False,
    most_segments: int = MOST_SEGMENTS,
    limits: WearLimits | None = None,
) -> IndexPlan:
    """Plan a refresh of indices.

    Segments with a deferred remap are rewritten, and the row maps in the fragment reuse index are dropped
    when no segment needs them. An index that other readers trust and that would lose rows (`IndexKind.stale`)
    is rebuilt. By default, the state of each large index is measured, and cost decides: new rows get a
    separate segment or are merged (`segments_to_merge`), a segment with many deleted rows is rewritten
    without them, and a degraded model is retrained (`decide`).

    Args:
        dataset: Version to plan from.
        names: Names of indices; all by default.
        merge_segments: Number of newest segments to merge with uncovered fragments; 0 adds a separate
            segment. None decides by cost, see `segments_to_merge`.
        rebuild: Read all rows again, even with complete coverage.
        most_segments: Maximum segments of an index afterwards, if cost decides.
        limits: Limits of degradation; those of `WearLimits` by default.

    Raises:
        InvalidArgumentError: a name is unknown, or `merge_segments` or `most_segments` is invalid.
    """
    if merge_segments is not None and merge_segments < 0:
        raise InvalidArgumentError(
            f"merge_segments must be at least 0, got {merge_segments}", field="merge_segments"
        )
    if most_segments < 1:
        raise InvalidArgumentError("most_segments must be at least 1", field="most_segments")
    if names is not None:
        check_type(names, Iterable, "a list of names", field="names")
    by_name = {item.name: item for item in coverage(dataset)}
    unknown = [name for name in names or () if name not in by_name]
    if unknown:
        raise InvalidArgumentError(
            f"no index {', '.join(map(repr, unknown))}",
            path=dataset.uri,
            field="names",
            hint=f"indices: {', '.join(by_name) or 'none'}",
        )
    limits = WearLimits() if limits is None else limits
    segments: list[SegmentPlan] = []
    choices: list[SegmentChoice] = []
    skipped: list[str] = []
    rebuilt: list[str] = []
    measured: list[IndexWear] = []
    needs = SegmentNeeds(dataset)
    stored = total_physical_rows(dataset.fragments)
    verified: set[UUID] = set()
    chosen = [by_name[name] for name in names] if names is not None else list(by_name.values())
    problem = dataset.fragment_reuse and dataset.fragment_reuse.problem
    for item in chosen:
        reason = why_left_alone(dataset, item, rebuild=rebuild)
        if reason is None and problem and not rebuild:
            reason = f"index coverage is unknown; rebuild the index: {problem}"
        if reason is not None:
            skipped.append(f"{item.name} {reason}")
            choices += [SegmentChoice(item.name, segment.uuid, "skip", reason) for segment in item.segments]
            continue
        waiting = () if rebuild else tuple(segment for segment in item.segments if needs.of(segment))
        wear, refresh = IndexWear(item.name), []
        try:
            if merge_segments is None and not rebuild and stored >= LEAST_ROWS:
                wear = index_wear(dataset, item)
                measured.append(wear)
            decision = decide(wear, limits)
            why = _rebuild_reason(dataset, item, rebuild=rebuild) or decision.rebuild or None
            if not _kind(item).can_build:
                why, decision = None, Decision()
            if why is not None or _is_mixed(dataset, item):
                mixed = "some segments contain row ids, others addresses"
                refresh = [_rebuild(dataset, item, why or mixed)]
            else:
                worn = dict(decision.rewrite)
                if merge_segments is None:
                    worn |= _with_gone_row_ids(dataset, item)
                refresh = _refresh(dataset, item, merge_segments, most_segments, waiting, verified, worn)
            for merged in (segment for part in refresh for segment in part.merged):
                _verify(dataset, merged, _kind(item), verified)
            segments += refresh
            if why is not None and not rebuild:
                rebuilt.append(f"{item.name}: {why}")
        except UnreadableIndexError as error:
            refresh = []
            skipped.append(why_kept(dataset, item, error))
        choices += choices_of(item, refresh, wear, limits)
        if item.uncovered and not _kind(item).can_build:
            skipped.append(
                f"{item.name} {kept_as_it_is(item)}: lance_ops cannot build an index of kind {item.kind}"
            )
    planned = tuple(dict.fromkeys(segment.name for segment in segments))
    removed = [old for segment in segments for old in segment.removed]
    looked_at = tuple(item.name for item in chosen)
    return IndexPlan(
        dataset.uri,
        dataset.version,
        tuple(segments),
        looked_at,
        tuple(skipped),
        coverage_before=mean_coverage(dataset, planned or looked_at),
        trim=needs.trim(removed),
        rebuilt=tuple(rebuilt),
        choices=tuple(choices),
        wear=tuple(measured),
    )


def _rebuild_reason(dataset: Dataset, item: IndexCoverage, *, rebuild: bool) -> str | None:
    """Return why an index must be rebuilt; unreadable segments are handled elsewhere."""
    if rebuild:
        return "asked for"
    kind = _kind(item)
    for segment in item.segments:
        if not kind.can_build or not effective_fragments(dataset.manifest, segment):
            continue
        with contextlib.suppress(UnreadableIndexError):
            if why := kind.stale(dataset, segment):
                return why
    return None


def _rebuild(dataset: Dataset, item: IndexCoverage, reason: str) -> SegmentPlan:
    return SegmentPlan(
        item.name,
        _kind(item).name,
        dataset.lance_schema.path(item.fields[0]),
        tuple(dataset.fragments),
        (),
        item.segments,
        dataset.manifest.uses_stable_row_ids,
        parameters_as_made(dataset, item.segments),
        reason,
    )


def _refresh(
    dataset: Dataset,
    item: IndexCoverage,
    merge_segments: int | None,
    most_segments: int,
    waiting: tuple[IndexMetadata, ...],
    verified: set[UUID],
    worn: Mapping[UUID, str],
) -> list[SegmentPlan]:
    """Return the segments for uncovered rows, without deleted rows, or after a remap."""
    kind = _kind(item)
    merged: tuple[IndexMetadata, ...] = ()
    written: list[SegmentPlan] = []
    # The existing form decides: a reader that supports it supports more of it.
    stable = dataset.manifest.uses_stable_row_ids
    # A merge looks up every row id, and omits those without a row. Addresses of deleted rows are kept.
    copies_are_worn = kind.holds_addresses(item.segments[0], stable_row_ids=stable)
    plan = partial(
        SegmentPlan,
        item.name,
        kind.name,
        dataset.lance_schema.path(item.fields[0]),
        row_ids=not copies_are_worn,
    )
    if kind.can_build:
        merged, reason = _merged(dataset, item, merge_segments, most_segments, verified)
        lost: tuple[IndexMetadata, ...] = ()
        if (item.uncovered or merge_segments is None) and (item.uncovered or len(item.segments) > 1):
            lost = lost_segments(dataset, item)
        empty = tuple(old for old in lost if not effective_fragments(dataset.manifest, old))
        if empty and not (item.uncovered or merged):
            # A segment must be written for others to be removed.
            merged, reason = tuple(old for old in item.segments if old not in empty)[-1:], _LOST
        if (item.uncovered or merged or worn) and _other_forms_stay(dataset, item, (*empty, *merged), worn):
            merged, reason = item.segments, "pylance does not merge newly written segments with older ones"
        # All rows in these are outdated.
        merged = tuple(old for old in merged if old not in empty)
        if item.uncovered or merged:
            anew = [segment for segment in merged if segment.uuid in worn and copies_are_worn]
            taken = [segment for segment in merged if segment not in anew]
            read = _fragments_of(dataset, anew)
            parameters = parameters_as_made(dataset, item.segments)
            written.append(
                plan(
                    (*read, *item.uncovered),
                    tuple(taken),
                    (*empty, *merged),
                    parameters=parameters,
                    reason=reason,
                )
            )
        for segment in item.segments:
            if segment.uuid in worn and segment not in (*empty, *merged):
                parameters = parameters_as_made(dataset, item.segments)
                read = _fragments_of(dataset, [segment]) if copies_are_worn else ()
                kept = () if copies_are_worn else (segment,)
                written.append(plan(read, kept, (segment,), parameters=parameters, reason=worn[segment.uuid]))
            elif segment in lost and segment not in (*empty, *merged):
                parameters = parameters_as_made(dataset, item.segments)
                written.append(plan((), (segment,), (segment,), parameters=parameters, reason=_LOST))
    gone = {segment.uuid for part in written for segment in part.removed}
    return written + [
        plan((), (segment,), (segment,), reason="applies deferred remaps", catches_up=True)
        for segment in waiting
        if segment.uuid not in gone
    ]


def _other_forms_stay(
    dataset: Dataset, item: IndexCoverage, merged: Sequence[IndexMetadata], worn: Mapping[UUID, str]
) -> bool:
    """Return whether an unchanged segment would keep pylance from merging the index."""
    kept = [segment for segment in item.segments if segment not in merged and segment.uuid not in worn]
    if not kept:
        return False
    parameters = parameters_as_made(dataset, item.segments)
    for segment in kept:
        with contextlib.suppress(UnreadableIndexError):
            if not _kind(item).merges_with_new(dataset, segment, parameters):
                return True
    return False


def _fragments_of(dataset: Dataset, segments: Sequence[IndexMetadata]) -> tuple[Fragment, ...]:
    """Return the fragments covered by some segments, in the order of rows."""
    covered = frozenset[int]().union(*(effective_fragments(dataset.manifest, item) for item in segments))
    return tuple(fragment for fragment in dataset.fragments if fragment.id in covered)


def _merged(
    dataset: Dataset,
    item: IndexCoverage,
    merge_segments: int | None,
    most_segments: int,
    verified: set[UUID],
) -> tuple[tuple[IndexMetadata, ...], str]:
    new_rows = sum(fragment.num_rows for fragment in item.uncovered) if item.uncovered else None
    if merge_segments is None:
        live = live_rows_by_id(dataset.fragments)
        rows = [
            sum(live[fragment_id] for fragment_id in effective_fragments(dataset.manifest, segment))
            for segment in item.segments
        ]
        number, reason = segments_to_merge(rows, new_rows, most_segments)
        number = _readable(dataset, item, number, verified)
    else:
        number = 0 if new_rows is None else min(merge_segments, len(item.segments))
        reason = "" if new_rows is None else f"{count_text(new_rows, 'row')} not covered"
    asked = new_rows is not None or merge_segments is None
    if asked and number < len(item.segments) and _has_lost_rows(dataset, item):
        number, reason = len(item.segments), _LOST
    return item.segments[len(item.segments) - number :], reason


def _has_lost_rows(dataset: Dataset, item: IndexCoverage) -> bool:
    """Return whether a segment has row ids of rows now covered by another one, which misleads readers."""
    kind = _kind(item)
    stable = dataset.manifest.uses_stable_row_ids
    if not (stable and kind.one_segment_after_updates):
        return False
    everything = frozenset(ids_of(dataset.fragments))
    for segment in item.segments:
        covered = effective_fragments(dataset.manifest, segment)
        if not covered or kind.holds_addresses(segment, stable_row_ids=True):
            continue
        elsewhere = live_row_ids(dataset, everything - covered)
        with contextlib.suppress(UnreadableIndexError):
            if any(RowSet.of(ids) & elsewhere for ids in kind.addresses(dataset, segment)):
                return True
    return False


def _with_gone_row_ids(dataset: Dataset, item: IndexCoverage) -> dict[UUID, str]:
    """Return segments with row ids that no fragment has any more, for which pylance returns too few rows."""
    kind = _kind(item)
    minding = [segment for segment in item.segments if minds_gone_row_ids(dataset, segment, kind)]
    if not minding:
        return {}
    found: dict[UUID, str] = {}
    present = present_row_ids(dataset)
    for segment in minding:
        with contextlib.suppress(UnreadableIndexError):
            names = kind.addresses(dataset, segment)
            gone = sum(len(RowSet.of(part) - present) for part in names)
            if gone:
                found[segment.uuid] = (
                    f"a compaction removed {count_text(gone, 'row')} in it, for which pylance returns too "
                    "few rows"
                )
    return found


def _readable(dataset: Dataset, item: IndexCoverage, number: int, verified: set[UUID]) -> int:
    """Return how many of the newest segments can be merged: a damaged one ends the list.

    Raises:
        UnreadableIndexError: the newest one is unreadable.
    """
    for position, segment in enumerate(reversed(item.segments[len(item.segments) - number :])):
        try:
            _verify(dataset, segment, _kind(item), verified)
        except UnreadableIndexError:
            if position == 0:
                raise
            return position
    return number


def _verify(dataset: Dataset, segment: IndexMetadata, kind: IndexKind, verified: set[UUID]) -> None:
    """Verify a segment, once per plan.

    Raises:
        UnreadableIndexError: it is unreadable.
    """
    if segment.uuid not in verified:
        kind.verify(dataset, segment, deep=False)
        verified.add(segment.uuid)


def _is_mixed(dataset: Dataset, item: IndexCoverage) -> bool:
    """Return whether some segments have row ids and others addresses: pylance then rejects all filters."""
    stable = dataset.manifest.uses_stable_row_ids
    kind = _kind(item)
    return len({kind.holds_addresses(segment, stable_row_ids=stable) for segment in item.segments}) > 1


def _kind(item: IndexCoverage) -> IndexKind:
    kind = kind_of(item.segments[0])
    assert kind is not None
    return kind
