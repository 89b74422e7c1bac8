"""Remap strategies: how each segment of an index follows a rewrite, decided before anything is written.

Cost model: what it takes to move an index segment along, to build it again, or to let it wait. Pure.

A cost is bytes read, bytes written and seconds of computing; costs add up, and seconds follow at a pace of
the store. The constants are measured: 400,000 rows a kind (vectors: 100,000 of 128 dimensions), one core,
local disk. They are there to be compared with each other, where a factor of two decides nothing.

Choice of a route by cost: segments that can follow a rewrite in several ways take the cheapest.
"""

import contextlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import LanceOpsError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Field
from lance_ops.index.column import value_type
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import IndexKind
from lance_ops.index.reading import REPAIR
from lance_ops.index.registry import kind_of, parameters_as_made, why_not_indexed_here
from lance_ops.table.manifest.fragment_reuse import decode as fragment_reuse
from lance_ops.table.manifest.fragments.totals import (
    FragmentNumbers,
    numbers_of,
    total_physical_rows,
    total_rows,
)
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.index_versions import holds_stable_row_ids
from lance_ops.table.snapshot import Snapshot

BYTES_PER_SECOND: Final = 800e6
"""Bytes per second of a store with decoding, one stream."""
_NS: Final = 0.25e-9
"""The paces below are nanoseconds of an earlier release, which took four times as long for all kinds."""
_SEGMENT_SECONDS: Final = 0.00125
"""Fixed seconds for the files of a segment: requests and metadata."""
_VARIABLE_WIDTH: Final = 4.0
"""Slowdown of sorting and comparing variable-width values."""
_REUSE_BYTES: Final = 1 / 8
"""Bytes of the fragment reuse index for a moved row: one bit of a bitmap, less for long runs."""
_READERS: Final = 100
"""Searches that are taken to translate before a deferred remap is caught up with."""
_READER_SECONDS: Final = 0.0025
"""Seconds for each reader to open the fragment reuse index and map rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCost:
    """Cost of an index for a rewrite.

    Attributes:
        read_bytes: Of the segment, or of the indexed column.
        written_bytes: Of the new segment.
        cpu_seconds: Of one core.
    """

    read_bytes: int = 0
    written_bytes: int = 0
    cpu_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Return the seconds of one core that waits for its store."""
        return self.cpu_seconds + (self.read_bytes + self.written_bytes) / BYTES_PER_SECOND

    def __add__(self, other: "IndexCost") -> "IndexCost":
        return IndexCost(
            read_bytes=self.read_bytes + other.read_bytes,
            written_bytes=self.written_bytes + other.written_bytes,
            cpu_seconds=self.cpu_seconds + other.cpu_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLoad:
    """Work for a segment.

    Attributes:
        kind: Name of the kind.
        named_rows: Rows in the segment, deleted ones included.
        live_rows: Those of them that are live.
        moved_rows: Live rows that the rewrite moves.
        noted_rows: Those of them that are observed during the rewrite.
        segment_bytes: Size of its files.
        column_bytes: Size of the indexed column in the fragments that it covers.
        of_one_width: True if all values have the same number of bytes.
    """

    kind: str
    named_rows: int
    live_rows: int
    moved_rows: int
    segment_bytes: int
    column_bytes: int
    of_one_width: bool = True
    noted_rows: int = 0

    @property
    def live_share(self) -> float:
        """Share of the rows in the segment that are live, 0 to 1."""
        return self.live_rows / self.named_rows if self.named_rows else 1.0

    @property
    def moved_share(self) -> float:
        """Share of the live rows that are moved, 0 to 1."""
        return self.moved_rows / self.live_rows if self.live_rows else 0.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Computing of a kind.

    Attributes:
        move_ns: Nanoseconds for each row that a segment names, to move it.
        build_ns: For each live row, to build it; None where a build learns a model, which no compaction does.
        move_byte_ns: For each byte of a segment, on top.
        sorts: True if values of many widths are slower to build from.
    """

    move_ns: float
    build_ns: float | None
    move_byte_ns: float = 0.0
    sorts: bool = False


_PACES: Final[Mapping[str, Pace]] = {
    "BTREE": Pace(110, 115, sorts=True),
    "BITMAP": Pace(105, 275),
    "LABEL_LIST": Pace(80, 350),
    "ZONEMAP": Pace(5, 35),
    "BLOOMFILTER": Pace(5, 125),
    "NGRAM": Pace(30, 62_000, move_byte_ns=5),
    "JSON": Pace(95, 690),
    "RTREE": Pace(100, 700),
    "INVERTED": Pace(25, 6_000, move_byte_ns=3.5),
    "MINHASHLSH": Pace(100, None),
}
_VECTORS: Final = Pace(120, None, move_byte_ns=1.1)
_GRAPHS: Final = Pace(120, None, move_byte_ns=3)


def move_cost(load: SegmentLoad) -> IndexCost:
    """Return the cost of a remap, which reads and writes the whole segment."""
    pace = _pace(load.kind)
    return IndexCost(
        read_bytes=load.segment_bytes,
        written_bytes=load.segment_bytes,
        cpu_seconds=_SEGMENT_SECONDS
        + _NS * (load.named_rows * pace.move_ns + load.segment_bytes * pace.move_byte_ns),
    )


def build_cost(load: SegmentLoad) -> IndexCost | None:
    """Cost of reading the column in all covered fragments; None if it cannot be read."""
    pace = _pace(load.kind)
    if pace.build_ns is None:
        return None
    slower = _VARIABLE_WIDTH if pace.sorts and not load.of_one_width else 1.0
    return IndexCost(
        read_bytes=load.column_bytes,
        written_bytes=round(load.segment_bytes * load.live_share),
        cpu_seconds=_SEGMENT_SECONDS + _NS * load.live_rows * pace.build_ns * slower,
    )


def look_cost(load: SegmentLoad) -> IndexCost:
    """Return the cost of reading the column in the new fragments, unless observed during the rewrite.

    Entries of other fragments are copied.
    """
    pace = _pace(load.kind)
    read_share = (load.moved_rows - load.noted_rows) / load.live_rows if load.live_rows else 0.0
    return IndexCost(
        read_bytes=round(load.column_bytes * read_share) + load.segment_bytes,
        written_bytes=load.segment_bytes,
        cpu_seconds=_SEGMENT_SECONDS
        + _NS * (load.moved_rows * (pace.build_ns or 0) + load.named_rows * pace.move_ns),
    )


def defer_cost(load: SegmentLoad) -> IndexCost:
    """Cost of the reuse index now, of translations until the remap, and of this rewrite's part of it.

    A later remap applies all rewrites at once: each is charged for its share of the rows.
    """
    later = move_cost(load)
    share = load.moved_share
    return IndexCost(
        read_bytes=round(later.read_bytes * share),
        written_bytes=round(later.written_bytes * share + load.moved_rows * _REUSE_BYTES),
        cpu_seconds=later.cpu_seconds * share + _READERS * _READER_SECONDS,
    )


def _pace(kind: str) -> Pace:
    return _PACES.get(kind) or (_GRAPHS if "HNSW" in kind else _VECTORS)


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


_CLEARLY = 0.8
"""Another strategy is chosen if its cost is below this share of the default: the model is no more precise."""


def weigh_routes(
    dataset: Snapshot,
    routes: Iterable[SegmentRoute],
    moved: Collection[int],
    *,
    may_defer: bool,
    written: Collection[int] = (),
) -> tuple[SegmentRoute, ...]:
    """Return the routes of the segments that a rewrite touches, the cheapest where there is a choice.

    A remap gives way to a build where deletes have left little of what the segment names; no model is learned
    for that. It gives way to the fragment reuse index, where that is allowed, when little of a large segment
    moves.

    Args:
        dataset: The version that the rewrite is planned from.
        routes: Of all segments, as `plan_routes` found them.
        moved: Ids of the fragments that are rewritten.
        may_defer: True if segments may be left to the fragment reuse index for what that saves.
        written: Those of the fragments whose rows are written again, and not copied page by page.
    """
    rewritten = frozenset(moved)
    touched = (item for item in routes if not rewritten.isdisjoint(item.segment.fragment_ids or ()))
    seen = frozenset(written)
    return tuple(_weigh(dataset, item, rewritten, seen, may_defer=may_defer) for item in touched)


def cost_of_move(dataset: Snapshot, segment: IndexMetadata, moved: Collection[int]) -> IndexCost:
    """Estimate the cost of rewriting a segment of a known kind."""
    kind = kind_of(segment)
    assert kind is not None
    return move_cost(_load(dataset, segment, kind, frozenset(moved), frozenset()))


def _weigh(
    dataset: Snapshot, item: SegmentRoute, moved: frozenset[int], seen: frozenset[int], *, may_defer: bool
) -> SegmentRoute:
    kind = kind_of(item.segment)
    # What waits is paid for when it is caught up with.
    if kind is None or item.route in (Route.KEEP, Route.LEAVE, Route.DEFER):
        return item
    load = _load(dataset, item.segment, kind, moved, seen)
    if item.route is Route.LOOK:
        return replace(item, cost=look_cost(load))
    moving = move_cost(load)
    built, deferred = build_cost(load), defer_cost(load)
    others: list[tuple[IndexCost, SegmentRoute]] = []
    limit = _CLEARLY * moving.seconds
    if built is not None and built.seconds < limit and _can_build(dataset, item.segment, kind):
        left = f"{load.live_share:.0%} of the rows that it names are left"
        reason = f"{left}: {_times(built, 'a remap', moving)}"
        others.append((built, SegmentRoute(item.segment, Route.BUILD, reason)))
    if may_defer and deferred.seconds < limit and may_be_deferred(dataset, item.segment, kind):
        reason = f"{load.moved_share:.1%} of its rows move: {_times(deferred, 'a remap', moving)}"
        others.append((deferred, SegmentRoute(item.segment, Route.DEFER, reason)))
    if others:
        cost, chosen = min(others, key=lambda other: other[0].seconds)
        return replace(chosen, cost=cost)
    reason = item.reason if built is None else f"{item.reason}: {_times(moving, 'a build', built)}"
    return replace(item, reason=reason, cost=moving)


def _times(cost: IndexCost, other: str, instead: IndexCost) -> str:
    return f"about {_seconds(cost)}, {other} {_seconds(instead)}"


def _seconds(cost: IndexCost) -> str:
    return f"{cost.seconds:.2g} s" if cost.seconds < 10 else f"{cost.seconds:,.0f} s"


def _can_build(dataset: Snapshot, segment: IndexMetadata, kind: IndexKind) -> bool:
    """Return whether a segment could be written from its column, as it was made."""
    if not kind.can_build or len(segment.fields) != 1:
        return False
    field = dataset.lance_schema.by_id(segment.fields[0])
    with contextlib.suppress(LanceOpsError):
        if field is None:
            return False
        kind.check_field(field)
        parameters = parameters_as_made(dataset, [segment])
        kind.parameters(field, parameters)
        return kind.merges_with_new(dataset, segment, parameters)
    return False


def _load(
    dataset: Snapshot,
    segment: IndexMetadata,
    kind: IndexKind,
    moved: frozenset[int],
    seen: frozenset[int],
) -> SegmentLoad:
    covered = effective_fragments(dataset.manifest, segment)
    numbers = numbers_of(dataset.fragments)
    inside = _are_in(numbers, covered)
    live = numbers.rows - numbers.deleted_rows
    field = dataset.lance_schema.by_id(segment.fields[0]) if segment.fields else None
    return SegmentLoad(
        kind=kind.name,
        named_rows=int(numbers.rows[inside].sum()),
        live_rows=int(live[inside].sum()),
        moved_rows=int(live[inside & _are_in(numbers, moved)].sum()),
        noted_rows=int(live[inside & _are_in(numbers, seen)].sum()),
        segment_bytes=segment.size_bytes,
        column_bytes=0 if field is None else _column_bytes(dataset, field, numbers, inside),
        of_one_width=field is not None and _width(value_type(field)) is not None,
    )


def _are_in(numbers: FragmentNumbers, ids: frozenset[int]) -> npt.NDArray[np.bool_]:
    return np.isin(numbers.ids, np.fromiter(ids, np.int64, len(ids)))


def _column_bytes(
    dataset: Snapshot, field: Field, numbers: FragmentNumbers, inside: npt.NDArray[np.bool_]
) -> int:
    """Estimate the bytes of a column in the data files, which are not recorded.

    Fixed-width columns are known; the others share the rest. Neither exceeds the total.
    """
    stored: int = sum(numbers.data_bytes[inside].tolist())
    rows = int(numbers.rows[inside].sum())
    widths = [_width(top.file_type) for top in dataset.lance_schema.fields]
    width = _width(field.file_type)
    if width is not None:
        return min(stored, round(width * rows))
    left = max(0, stored - round(rows * sum(known or 0 for known in widths)))
    return left // max(1, sum(known is None for known in widths))


def _width(arrow_type: pa.DataType) -> float | None:
    """Return bytes of a value, where all have the same number."""
    if pa.types.is_fixed_size_list(arrow_type):
        item = _width(arrow_type.value_type)
        return None if item is None else item * arrow_type.list_size
    try:
        return float(arrow_type.bit_width) / 8
    except ValueError:
        return None
