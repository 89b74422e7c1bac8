"""The cost model of routes: what it says of each, and where it changes its mind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.index.upkeep.routes import (
    BYTES_PER_SECOND,
    IndexCost,
    SegmentLoad,
    build_cost,
    defer_cost,
    look_cost,
    move_cost,
)

KINDS = ("BTREE", "BITMAP", "NGRAM", "INVERTED", "IVF_PQ", "IVF_HNSW_SQ")


def load(kind="BTREE", *, named=10_000_000, live=None, moved=None, **more):
    live = named if live is None else live
    sizes = {"segment_bytes": 12 * named, "column_bytes": 8 * named} | more
    return SegmentLoad(
        kind=kind, named_rows=named, live_rows=live, moved_rows=live if moved is None else moved, **sizes
    )


costs = st.builds(
    IndexCost,
    read_bytes=st.integers(0, 10**12),
    written_bytes=st.integers(0, 10**12),
    cpu_seconds=st.floats(0, 1e6),
)


@given(costs, costs)
def test_costs_add_up(one, other):
    both = one + other
    assert both.seconds == pytest.approx(one.seconds + other.seconds)
    assert both.read_bytes == one.read_bytes + other.read_bytes


def test_seconds_are_computing_and_what_the_store_passes_on():
    cost = IndexCost(
        read_bytes=int(BYTES_PER_SECOND), written_bytes=2 * int(BYTES_PER_SECOND), cpu_seconds=1.5
    )
    assert cost.seconds == pytest.approx(4.5)


@pytest.mark.parametrize("kind", KINDS)
@given(named=st.integers(0, 10**9), share=st.floats(0, 1))
def test_a_move_does_not_get_dearer_by_what_is_deleted_and_a_build_gets_cheaper(kind, named, share):
    full, rest = load(kind, named=named), load(kind, named=named, live=int(named * share))
    assert move_cost(full) == move_cost(rest)
    built, built_of_rest = build_cost(full), build_cost(rest)
    assert (built is None) == kind.startswith("IVF")
    if built is not None:
        assert built_of_rest.seconds <= built.seconds


@pytest.mark.parametrize("kind", ["NGRAM", "INVERTED", "JSON", "LABEL_LIST"])
def test_kinds_whose_build_is_dear_are_moved_while_most_of_their_rows_live(kind):
    assert build_cost(load(kind, live=9_000_000)).seconds > move_cost(load(kind)).seconds


def test_values_of_many_widths_are_dearer_to_sort():
    assert build_cost(load(of_one_width=False)).cpu_seconds > 3 * build_cost(load()).cpu_seconds


@pytest.mark.parametrize("kind", KINDS)
def test_to_wait_pays_where_little_of_much_moves(kind):
    assert (
        defer_cost(load(kind, named=10**9, moved=10**6)).seconds
        < move_cost(load(kind, named=10**9)).seconds / 5
    )
    assert defer_cost(load(kind)).seconds > move_cost(load(kind)).seconds
    assert (
        defer_cost(load(kind, named=10_000, moved=10)).seconds > move_cost(load(kind, named=10_000)).seconds
    )


def test_to_look_at_rows_costs_what_the_moved_ones_are():
    few = look_cost(load("ZONEMAP", moved=1000, segment_bytes=1000))
    assert few.read_bytes < 10_000
    assert few.seconds < look_cost(load("ZONEMAP", segment_bytes=1000)).seconds / 4
