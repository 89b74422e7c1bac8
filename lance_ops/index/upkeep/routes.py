"""Remap strategies: how each segment of an index follows a rewrite, decided before anything is written."""

import contextlib
from dataclasses import dataclass, field
from enum import Enum

from lance_ops.errors import LanceOpsError
from lance_ops.file.reader import FileReader
from lance_ops.index.kind import IndexKind
from lance_ops.index.reading import REPAIR
from lance_ops.index.registry import kind_of, why_not_indexed_here
from lance_ops.index.upkeep.cost import IndexCost
from lance_ops.table.manifest.fragment_reuse import decode as fragment_reuse
from lance_ops.table.manifest.fragments.totals import total_physical_rows, total_rows
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.index_versions import holds_stable_row_ids
from lance_ops.table.snapshot import Snapshot


class Route(Enum):
    """Remap strategy of a segment that covers rewritten fragments."""

    MOVE = "remap"
    BUILD = "build anew"
    LOOK = "look at the new rows"
    KEEP = "nothing to do"
    PURGE = "take out names of rows that it has lost"
    DEFER = "defer"
    LEAVE = "leave the fragments"


AT_ONCE = (Route.MOVE, Route.BUILD, Route.LOOK, Route.PURGE)
"""Routes that write a segment with the rewrite."""


@dataclass(frozen=True, slots=True)
class SegmentRoute:
    """The strategy of a segment with its reason, and its cost if it was estimated (`weigh`)."""

    segment: IndexMetadata
    route: Route
    reason: str
    cost: IndexCost = field(default_factory=IndexCost)


def plan_routes(dataset: Snapshot, *, defer: bool, defer_unknown: bool) -> tuple[SegmentRoute, ...]:
    """Return the routes of all ordinary segments of a version.

    Args:
        dataset: The version that a rewrite is planned from.
        defer: Leave segments to the fragment reuse index, where every reader can go on with that.
        defer_unknown: Do so with those that nothing here can move; else their fragments are left alone.
    """
    if _has_too_many_deleted(dataset):
        defer = defer_unknown = False
    return tuple(
        _route(dataset, segment, defer=defer, defer_unknown=defer or defer_unknown)
        for segment in dataset.indices
        if not segment.is_system
    )


def why_not_deferred(dataset: Snapshot) -> str | None:
    """Return why no remap of a version can be deferred, if so."""
    if dataset.manifest.uses_stable_row_ids:
        return "no remap is deferred in a table with stable row ids"
    if _has_too_many_deleted(dataset):
        return f"no remap is deferred where more than {fragment_reuse.MOST_DELETED:,} rows are deleted"
    return None


def may_be_deferred(dataset: Snapshot, segment: IndexMetadata, kind: IndexKind) -> bool:
    """Return whether the remap of a segment can be deferred so that every reader supports it."""
    return why_not_deferred(dataset) is None and _may_wait(kind, dataset, segment)


def _has_too_many_deleted(dataset: Snapshot) -> bool:
    """Return whether a deferred rewrite could lose more rows than readers support."""
    deleted = total_physical_rows(dataset.fragments) - total_rows(dataset.fragments)
    return deleted > fragment_reuse.MOST_DELETED


def _route(dataset: Snapshot, segment: IndexMetadata, *, defer: bool, defer_unknown: bool) -> SegmentRoute:
    kind = kind_of(segment)
    stable = dataset.manifest.uses_stable_row_ids
    if segment.fragment_ids is None:
        return SegmentRoute(segment, Route.LEAVE, "its writer did not record which fragments it covers")
    if kind is None or _is_of_early_release(kind, dataset, segment):
        return _route_of_unknown(dataset, segment, defer=defer_unknown)
    if not kind.holds_addresses(segment, stable_row_ids=stable):
        return SegmentRoute(segment, Route.KEEP, "it holds stable row ids")
    if defer and not stable and _may_wait(kind, dataset, segment):
        return SegmentRoute(segment, Route.DEFER, "its remap is deferred, readers translate")
    why = "no reader could use it before its remap" if defer and not stable else "its row addresses are moved"
    if kind.looks_at_rows and why_not_indexed_here(dataset, segment) is not None:
        # Zones are made of rows, and those of such a column cannot be.
        return _route_of_unknown(dataset, segment, defer=defer_unknown)
    if kind.looks_at_rows:
        return SegmentRoute(segment, Route.LOOK, "what it holds cannot be moved")
    return SegmentRoute(segment, Route.MOVE, why)


def _may_wait(kind: IndexKind, dataset: Snapshot, segment: IndexMetadata) -> bool:
    try:
        return kind.may_wait(dataset, segment)
    except LanceOpsError:
        # It is found to be unreadable when it is moved.
        return False


def _route_of_unknown(dataset: Snapshot, segment: IndexMetadata, *, defer: bool) -> SegmentRoute:
    stable = dataset.manifest.uses_stable_row_ids
    if stable and holds_stable_row_ids(segment):
        return SegmentRoute(segment, Route.KEEP, "it holds stable row ids")
    way_out = ""
    if not segment.kind:
        way_out = f": its writer did not record its kind; {REPAIR}"
    elif segment.index_version is None:
        way_out = f": it is of a layout of early releases; {REPAIR}"
    stuck = f"its row addresses cannot be remapped{way_out}"
    if not defer:
        return SegmentRoute(segment, Route.LEAVE, stuck)
    if stable:
        return SegmentRoute(segment, Route.LEAVE, f"{stuck}, nor deferred in a table with stable row ids")
    if _may_be_graph(dataset, segment):
        return SegmentRoute(segment, Route.LEAVE, f"{stuck}, and pylance cannot search its graph before")
    return SegmentRoute(segment, Route.DEFER, "its row addresses cannot be moved here, readers translate")


def _is_of_early_release(kind: IndexKind, dataset: Snapshot, segment: IndexMetadata) -> bool:
    """Return whether a segment has an early layout that its own readers still use, but we cannot remap."""
    if segment.index_version is not None or kind.file_of_layout is None:
        return False
    store, directory = dataset.bases.index_directory(segment)
    return not store.exists(f"{directory}/{kind.file_of_layout}")


def _may_be_graph(dataset: Snapshot, segment: IndexMetadata) -> bool:
    """Return whether a vector index of an unknown version may have graphs, which need all rows."""
    if segment.kind != "vectorindexdetails":
        return False
    with contextlib.suppress(LanceOpsError, LookupError):
        store, directory = dataset.bases.index_directory(segment)
        reader = FileReader.open(store, f"{directory}/index.idx")
        return b"HNSW" in reader.schema.metadata["lance:index"]
    return True
