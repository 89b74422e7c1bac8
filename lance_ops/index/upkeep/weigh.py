"""Choice of a route by cost: segments that can follow a rewrite in several ways take the cheapest."""

import contextlib
from collections.abc import Collection, Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import LanceOpsError
from lance_ops.file.schema.model import Field
from lance_ops.index.column import value_type
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import IndexKind
from lance_ops.index.registry import kind_of, parameters_as_made
from lance_ops.index.upkeep.cost import (
    IndexCost,
    SegmentLoad,
    build_cost,
    defer_cost,
    look_cost,
    move_cost,
)
from lance_ops.index.upkeep.routes import Route, SegmentRoute, may_be_deferred
from lance_ops.table.manifest.fragments.numbers import FragmentNumbers, numbers_of
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.snapshot import Snapshot

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
