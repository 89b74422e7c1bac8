"""Index plan: which segments to write for a new index, a refresh, or a rebuild.

Reads metadata, and the beginning of segments that are to be merged or that may wait for a remap.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from lance_ops.errors import InvalidArgumentError, UnreadableIndexError, check_type
from lance_ops.index.coverage import IndexCoverage, coverage, effective_fragments
from lance_ops.index.kind import IndexKind, Parameters
from lance_ops.index.reading import REPAIR
from lance_ops.index.registry import kind_by_name, kind_of
from lance_ops.maintenance.index.reuse_trim import ReuseTrim, SegmentNeeds
from lance_ops.maintenance.text import share_text, table_text
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.index_metadata import IndexMetadata


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """One segment to write.

    Attributes:
        name: Index name.
        kind: Kind by name.
        column: Path of the indexed column.
        fragments: Fragments to read.
        merged: Existing segments that go into the new one.
        removed: Existing segments that the new one replaces.
        row_ids: Whether it holds stable row ids and not addresses.
        parameters: How it is made, see `IndexKind.parameters`.
    """

    name: str
    kind: str
    column: str
    fragments: tuple[Fragment, ...]
    merged: tuple[IndexMetadata, ...]
    removed: tuple[IndexMetadata, ...]
    row_ids: bool = False
    parameters: Parameters = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Live rows to read from the table."""
        return sum(fragment.num_rows for fragment in self.fragments)


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What an index operation will do.

    Attributes:
        uri: The dataset.
        read_version: Version it was planned from.
        segments: Segments to write; empty when there is nothing to do.
        names: Indices that were looked at.
        skipped: Indices that lance_ops leaves alone, with their coverage and the reason.
        coverage_before: Share of live rows covered by the indices that are written to, 0 to 1; by all that
            were looked at if there is nothing to write.
        trim: What becomes of the fragment reuse index; None when it stays as it is, or there is none.
        rebuilt: Indices that are built anew although nobody asked for it, with the reason.
    """

    uri: str
    read_version: int
    segments: tuple[SegmentPlan, ...]
    names: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    coverage_before: float = 1.0
    trim: ReuseTrim | None = None
    rebuilt: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Numbers, names and ids as JSON values."""
        return {
            "operation": "index",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.read_version,
            "coverage_before": self.coverage_before,
            "segments": [
                {
                    "index": segment.name,
                    "kind": segment.kind,
                    "column": segment.column,
                    "fragments": [fragment.id for fragment in segment.fragments],
                    "rows": segment.rows,
                    "segments_merged": [str(merged.uuid) for merged in segment.merged],
                    "segments_removed": [str(removed.uuid) for removed in segment.removed],
                }
                for segment in self.segments
            ],
            "skipped": list(self.skipped),
            "rebuilt": list(self.rebuilt),
            "compactions_caught_up": 0 if self.trim is None else self.trim.dropped,
        }

    def __str__(self) -> str:
        notes = [f"skipped: {line}" for line in self.skipped]
        notes += [f"built anew: {line}" for line in self.rebuilt]
        if self.trim is not None:
            notes.append(str(self.trim))
        if not self.segments:
            what = "nothing to do" if self.trim is None else "no segment to write"
            coverage_text = f"coverage {share_text(self.coverage_before)}"
            return "\n".join([f"index: {what} at version {self.read_version}, {coverage_text}", *notes])
        rows = [
            (
                segment.name,
                segment.kind,
                segment.column,
                f"{len(segment.fragments):,}",
                f"{segment.rows:,}",
                str(len(segment.merged)),
            )
            for segment in self.segments
        ]
        header = ("index", "kind", "column", "fragments to read", "rows to read", "segments merged")
        return "\n".join([f"index at version {self.read_version}:", table_text(header, rows), *notes])


def plan_create_index(
    dataset: Dataset,
    column: str,
    kind: str = "BTREE",
    *,
    name: str | None = None,
    replace: bool = False,
    parameters: Parameters | None = None,
) -> IndexPlan:
    """Plan a new index over all fragments.

    Args:
        dataset: Version to plan from.
        column: Path of the column.
        kind: Kind of the index, ignoring case.
        name: Its name; `{column}_idx` by default.
        replace: Rebuild the index if there is one of this name.
        parameters: How the index is made, as its kind knows them.

    Raises:
        InvalidArgumentError: no such column or kind, the kind cannot index the column or does not know a
            parameter, or the name is taken.
    """
    chosen = kind_by_name(kind)
    indexed = dataset.lance_schema.field(column)
    chosen.check_field(indexed)
    if parameters is not None:
        check_type(parameters, Mapping, "parameters by name", field="parameters")
    checked = chosen.parameters(indexed, parameters or {})
    if name is not None:
        check_type(name, str, "the name of an index", field="name")
    name = name or f"{column}_idx"
    if name.startswith("__lance_"):
        raise InvalidArgumentError(f"{name!r} is a name the format reserves", field="name")
    old = tuple(segment for segment in dataset.indices if segment.name == name)
    if old and not replace:
        raise InvalidArgumentError(
            f"there is an index {name!r} already",
            path=dataset.uri,
            field="name",
            hint="replace it to build it anew, or optimize the indices to refresh it",
        )
    if old and old[0].fields != (indexed.id,):
        raise InvalidArgumentError(
            f"index {name!r} is on another column", path=dataset.uri, field="name", hint="choose another name"
        )
    segment = SegmentPlan(
        name,
        chosen.name,
        column,
        tuple(dataset.fragments),
        (),
        old,
        dataset.manifest.uses_stable_row_ids,
        checked,
    )
    return IndexPlan(
        dataset.uri,
        dataset.version,
        (segment,),
        (name,),
        coverage_before=mean_coverage(dataset, (name,)),
        trim=SegmentNeeds(dataset).trim(old),
    )


def plan_optimize_indices(
    dataset: Dataset, names: Sequence[str] | None = None, *, merge_segments: int = 1, rebuild: bool = False
) -> IndexPlan:
    """Plan to bring indices up to date.

    Segments whose rows were moved by compactions that left the indices as they were are written anew, and
    what the fragment reuse index keeps for them is given up once no segment needs it. An index that other
    readers believe and that would lose rows (`IndexKind.stale`) is built anew.

    Args:
        dataset: Version to plan from.
        names: Which indices; all by default.
        merge_segments: How many of an index's newest segments to merge with the fragments it does not cover;
            0 adds a segment of their own.
        rebuild: Read everything again, also where coverage is complete.

    Raises:
        InvalidArgumentError: a name is unknown, or `merge_segments` is negative.
    """
    if merge_segments < 0:
        raise InvalidArgumentError(f"{merge_segments} segments to merge", field="merge_segments")
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
    chosen = [by_name[name] for name in names] if names is not None else list(by_name.values())
    problem = dataset.fragment_reuse and dataset.fragment_reuse.problem
    for item in chosen:
        reason = _why_not(item)
        if reason is None and problem and not rebuild:
            reason = f"nobody can tell which rows it covers; rebuild it: {problem}"
        if reason is not None:
            skipped.append(f"{item.name} {reason}")
            continue
        waiting = () if rebuild else tuple(segment for segment in item.segments if needs.of(segment))
        stale = None if rebuild else _stale(dataset, item)
        if stale is not None:
            rebuilt.append(f"{item.name}: {stale}")
        anew = rebuild or stale is not None
        if anew or item.uncovered or waiting or _is_mixed(dataset, item):
            try:
                refresh = _refresh(dataset, item, merge_segments, waiting, rebuild=anew)
                for merged in (segment for part in refresh for segment in part.merged):
                    _kind(item).verify(dataset, merged, deep=False)
                segments += refresh
            except UnreadableIndexError as error:
                skipped.append(why_unreadable(dataset, item.name, error))
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


def _stale(dataset: Dataset, item: IndexCoverage) -> str | None:
    """Why an index must not stay as it is; what cannot be read is none of its business."""
    kind = _kind(item)
    for segment in item.segments:
        with contextlib.suppress(UnreadableIndexError):
            if effective_fragments(dataset.manifest, segment) and (why := kind.stale(dataset, segment)):
                return why
    return None


def _refresh(
    dataset: Dataset,
    item: IndexCoverage,
    merge_segments: int,
    waiting: tuple[IndexMetadata, ...],
    *,
    rebuild: bool,
) -> list[SegmentPlan]:
    kind = _kind(item)
    column = dataset.lance_schema.path(item.fields[0])
    stable = dataset.manifest.uses_stable_row_ids
    parameters = _parameters(dataset, item, rebuild=rebuild)
    if rebuild or _is_mixed(dataset, item):
        everything = tuple(dataset.fragments)
        return [SegmentPlan(item.name, kind.name, column, everything, (), item.segments, stable, parameters)]
    # What is there decides: a reader that understands it understands more of the same.
    plan = partial(
        SegmentPlan,
        item.name,
        kind.name,
        column,
        row_ids=not kind.holds_addresses(item.segments[0], stable_row_ids=stable),
        parameters=parameters,
    )
    merged = item.segments[len(item.segments) - min(merge_segments, len(item.segments)) :]
    if item.uncovered and not merged and waiting:
        # The caller wants what is new apart from what was there.
        return [plan(item.uncovered, (), ()), plan((), waiting, waiting)]
    if not item.uncovered:
        merged = ()
    merged += tuple(segment for segment in waiting if segment not in merged)
    return [plan(item.uncovered, merged, merged)]


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


def _why_not(item: IndexCoverage) -> str | None:
    kept = f"covers {share_text(item.ratio)} of rows and is kept as it is"
    if item.kind is None:
        # Up to 0.19 the peer did not.
        return f"{kept}: its writer did not record its kind; {REPAIR}"
    if any(kind is None or not kind.can_build for kind in map(kind_of, item.segments)):
        return f"{kept}: lance_ops cannot build an index of kind {item.kind}"
    if len(item.fields) != 1:
        return f"{kept}: it is on several columns"
    return None


def why_unreadable(dataset: Dataset, name: str, error: UnreadableIndexError) -> str:
    """Why an index is skipped that cannot be read, and what to do about it."""
    share = share_text(mean_coverage(dataset, (name,)))
    return f"{name} claims {share} of rows and is kept as it is: {error.message}; {error.hint}"


def mean_coverage(dataset: Dataset, names: Sequence[str]) -> float:
    """Mean share of live rows that the named indices cover; an index that is not there covers none."""
    if not names:
        return 1.0
    by_name = {item.name: item.ratio for item in coverage(dataset)}
    return sum(by_name.get(name, 0.0) for name in names) / len(names)
