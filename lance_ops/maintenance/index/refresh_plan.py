"""Plan of an index refresh: what each index needs, and why: new rows, a merge, a catch-up, or all anew."""

import contextlib
from collections.abc import Iterable, Sequence
from functools import partial
from uuid import UUID

import numpy as np

from lance_ops.errors import InvalidArgumentError, UnreadableIndexError, check_type
from lance_ops.index.coverage import IndexCoverage, coverage, effective_fragments
from lance_ops.index.kind import IndexKind, Parameters
from lance_ops.index.reading import REPAIR
from lance_ops.index.registry import kind_of
from lance_ops.index.row_ids import live_row_ids
from lance_ops.maintenance.index.merging import MOST_SEGMENTS, segments_to_merge
from lance_ops.maintenance.index.plan import IndexPlan, SegmentPlan, mean_coverage
from lance_ops.maintenance.index.reuse_trim import SegmentNeeds
from lance_ops.maintenance.text import count_text, share_text
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexMetadata


def plan_optimize_indices(
    dataset: Dataset,
    names: Sequence[str] | None = None,
    *,
    merge_segments: int | None = None,
    rebuild: bool = False,
    most_segments: int = MOST_SEGMENTS,
) -> IndexPlan:
    """Plan to bring indices up to date.

    Segments whose rows were moved by compactions that left the indices as they were are written anew, and
    what the fragment reuse index keeps for them is given up once no segment needs it. An index that other
    readers believe and that would lose rows (`IndexKind.stale`) is built anew, and so is one that is worn
    (`IndexKind.worn`) unless the caller says what to merge.

    Args:
        dataset: Version to plan from.
        names: Which indices; all by default.
        merge_segments: How many of an index's newest segments to merge with the fragments it does not cover;
            0 adds a segment of their own. None decides by what it costs, see `segments_to_merge`.
        rebuild: Read everything again, also where coverage is complete.
        most_segments: Segments that an index may have afterwards, where the cost decides.

    Raises:
        InvalidArgumentError: a name is unknown, or `merge_segments` or `most_segments` makes no sense.
    """
    if merge_segments is not None and merge_segments < 0:
        raise InvalidArgumentError(f"{merge_segments} segments to merge", field="merge_segments")
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
    segments: list[SegmentPlan] = []
    skipped: list[str] = []
    rebuilt: list[str] = []
    needs = SegmentNeeds(dataset)
    verified: set[UUID] = set()
    chosen = [by_name[name] for name in names] if names is not None else list(by_name.values())
    problem = dataset.fragment_reuse and dataset.fragment_reuse.problem
    for item in chosen:
        reason = _why_not(item, rebuild=rebuild)
        if reason is None and problem and not rebuild:
            reason = f"nobody can tell which rows it covers; rebuild it: {problem}"
        if reason is not None:
            skipped.append(f"{item.name} {reason}")
            continue
        waiting = () if rebuild else tuple(segment for segment in item.segments if needs.of(segment))
        try:
            why = _why_anew(dataset, item, merge_segments, rebuild=rebuild)
            if why is not None and not rebuild:
                rebuilt.append(f"{item.name}: {why}")
            if why is not None or _is_mixed(dataset, item):
                mixed = "some segments hold row ids, others addresses"
                refresh = [_rebuild(dataset, item, why or mixed, may_fail=why is None)]
            else:
                refresh = _refresh(dataset, item, merge_segments, most_segments, waiting, verified)
            for merged in (segment for part in refresh for segment in part.merged):
                _verify(dataset, merged, _kind(item), verified)
            segments += refresh
        except UnreadableIndexError as error:
            skipped.append(why_unreadable(dataset, item.name, error))
        if item.uncovered and not _kind(item).can_build:
            skipped.append(f"{item.name} {_kept(item)}: lance_ops cannot build an index of kind {item.kind}")
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
    )


def _why_anew(
    dataset: Dataset, item: IndexCoverage, merge_segments: int | None, *, rebuild: bool
) -> str | None:
    """Why an index is built anew; what cannot be read is none of its business."""
    if rebuild:
        return "asked for"
    kind = _kind(item)
    for segment in item.segments:
        if not kind.can_build or not effective_fragments(dataset.manifest, segment):
            continue
        with contextlib.suppress(UnreadableIndexError):
            if why := kind.stale(dataset, segment):
                return why
            if merge_segments is None and (why := kind.worn(dataset, segment)):
                return why
    return None


def _rebuild(dataset: Dataset, item: IndexCoverage, reason: str, *, may_fail: bool) -> SegmentPlan:
    return SegmentPlan(
        item.name,
        _kind(item).name,
        dataset.lance_schema.path(item.fields[0]),
        tuple(dataset.fragments),
        (),
        item.segments,
        dataset.manifest.uses_stable_row_ids,
        _parameters(dataset, item, rebuild=not may_fail),
        reason,
    )


def _refresh(
    dataset: Dataset,
    item: IndexCoverage,
    merge_segments: int | None,
    most_segments: int,
    waiting: tuple[IndexMetadata, ...],
    verified: set[UUID],
) -> list[SegmentPlan]:
    """Segments that cover what is not covered, and those that catch up with deferred compactions."""
    kind = _kind(item)
    merged: tuple[IndexMetadata, ...] = ()
    written: list[SegmentPlan] = []
    # What is there decides: a reader that understands it understands more of the same.
    stable = dataset.manifest.uses_stable_row_ids
    plan = partial(
        SegmentPlan,
        item.name,
        kind.name,
        dataset.lance_schema.path(item.fields[0]),
        row_ids=not kind.holds_addresses(item.segments[0], stable_row_ids=stable),
    )
    if kind.can_build:
        merged, reason = _merged(dataset, item, merge_segments, most_segments, verified)
        if item.uncovered or merged:
            parameters = _parameters(dataset, item, rebuild=False)
            written.append(plan(item.uncovered, merged, merged, parameters=parameters, reason=reason))
    return written + [
        plan((), (segment,), (segment,), reason="catches up with deferred compactions", catches_up=True)
        for segment in waiting
        if segment not in merged
    ]


def _merged(
    dataset: Dataset,
    item: IndexCoverage,
    merge_segments: int | None,
    most_segments: int,
    verified: set[UUID],
) -> tuple[tuple[IndexMetadata, ...], str]:
    new_rows = sum(fragment.num_rows for fragment in item.uncovered) if item.uncovered else None
    if merge_segments is None:
        live = {fragment.id: fragment.num_rows for fragment in dataset.fragments}
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
        number, reason = len(item.segments), "an update has taken rows out of older segments"
    return item.segments[len(item.segments) - number :], reason


def _has_lost_rows(dataset: Dataset, item: IndexCoverage) -> bool:
    """Whether a segment names row ids of rows that another one answers for now, or will, and readers mind."""
    kind = _kind(item)
    stable = dataset.manifest.uses_stable_row_ids
    if not (stable and kind.one_segment_of_row_ids):
        return False
    everything = frozenset(fragment.id for fragment in dataset.fragments)
    for segment in item.segments:
        covered = effective_fragments(dataset.manifest, segment)
        if not covered or kind.holds_addresses(segment, stable_row_ids=True):
            continue
        elsewhere = live_row_ids(dataset, everything - covered)
        with contextlib.suppress(UnreadableIndexError):
            if any(np.isin(ids, elsewhere).any() for ids in kind.addresses(dataset, segment)):
                return True
    return False


def _readable(dataset: Dataset, item: IndexCoverage, number: int, verified: set[UUID]) -> int:
    """How many of so many newest segments can be merged: a damaged one further back is left, with its elders.

    Raises:
        UnreadableIndexError: not even the newest.
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
    """Look at a segment, once for one plan.

    Raises:
        UnreadableIndexError: it cannot be read.
    """
    if segment.uuid not in verified:
        kind.verify(dataset, segment, deep=False)
        verified.add(segment.uuid)


def _parameters(dataset: Dataset, item: IndexCoverage, *, rebuild: bool) -> Parameters:
    """How the index is made, by its newest segment that tells.

    Raises:
        UnreadableIndexError: none does, and the index is not built anew.
    """
    problem: UnreadableIndexError | None = None
    for segment in reversed(item.segments):
        try:
            return _kind(item).parameters_of(dataset, segment)
        except UnreadableIndexError as error:
            problem = error
    if problem is not None and not rebuild:
        raise problem
    return _kind(item).parameters(dataset.lance_schema.field(dataset.lance_schema.path(item.fields[0])), {})


def _is_mixed(dataset: Dataset, item: IndexCoverage) -> bool:
    """Whether some segments hold row ids and others addresses: the peer refuses all filters on the column."""
    stable = dataset.manifest.uses_stable_row_ids
    kind = _kind(item)
    return len({kind.holds_addresses(segment, stable_row_ids=stable) for segment in item.segments}) > 1


def _kind(item: IndexCoverage) -> IndexKind:
    kind = kind_of(item.segments[0])
    assert kind is not None
    return kind


def _kept(item: IndexCoverage) -> str:
    return f"covers {share_text(item.ratio)} of rows and is kept as it is"


def _why_not(item: IndexCoverage, *, rebuild: bool) -> str | None:
    """Why an index is left alone."""
    if item.kind is None:
        # Up to 0.19 the peer did not.
        return f"{_kept(item)}: its writer did not record its kind; {REPAIR}"
    kinds = [kind_of(segment) for segment in item.segments]
    if any(kind is None or (rebuild and not kind.can_build) for kind in kinds):
        return f"{_kept(item)}: lance_ops cannot build an index of kind {item.kind}"
    if len(item.fields) != 1:
        return f"{_kept(item)}: it is on several columns"
    return None


def why_unreadable(dataset: Dataset, name: str, error: UnreadableIndexError) -> str:
    """Why an index is skipped that cannot be read, and what to do about it."""
    share = share_text(mean_coverage(dataset, (name,)))
    return f"{name} claims {share} of rows and is kept as it is: {error.message}; {error.hint}"
