"""Rank order: the k-th live row of the old fragments is the k-th live row of the new ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.errors import InvalidArgumentError
from lance_ops.table.commit.rebase.rank_order import RankedRows, have_one_order, move_rows
from lance_ops.table.manifest.deletion_vector import DeletionVector


def vector(offsets) -> DeletionVector:
    return DeletionVector.from_offsets(list(offsets))


@st.composite
def rewrites(draw):
    """Names of rows by place on both sides of a rewrite; None where one was deleted. And some live names."""
    flags = st.lists(st.booleans(), min_size=1, max_size=12)
    sides = draw(st.lists(flags, min_size=1, max_size=4))
    names = iter(range(100))
    old = [[next(names) if live else None for live in side] for side in sides]
    live = [name for side in old for name in side if name is not None]
    # The new side may have deleted rows of its own between them: what others deleted before.
    new, rest = [[]], list(live)
    while rest:
        step = draw(st.sampled_from(["row", "row", "gone", "cut"]))
        if step == "cut":
            new.append([])
        else:
            new[-1].append(rest.pop(0) if step == "row" else None)
    return old, new, draw(st.sets(st.sampled_from(live))) if live else set()


def ranked(side) -> RankedRows:
    return RankedRows(len(side), vector(place for place, name in enumerate(side) if name is None))


@given(rewrites())
def test_rows_are_found_by_their_rank(rewrite):
    old, new, wanted = rewrite
    rows = {
        number: vector(place for place, name in enumerate(side) if name in wanted)
        for number, side in enumerate(old)
    }
    moved = move_rows([ranked(side) for side in old], [ranked(side) for side in new], rows)
    found = {side[place] for side, gone in zip(new, moved, strict=True) for place in gone.offsets()}
    assert found == wanted
    assert sum(len(gone) for gone in moved) == len(wanted)


def test_other_numbers_of_live_rows_have_no_common_order():
    assert not have_one_order([RankedRows(3)], [RankedRows(2)])
    with pytest.raises(InvalidArgumentError, match="from 3 to 2"):
        move_rows([RankedRows(3)], [RankedRows(2)], {})


def test_a_deleted_row_has_no_rank():
    with pytest.raises(InvalidArgumentError, match="deleted row"):
        move_rows([RankedRows(3, vector([1]))], [RankedRows(2)], {0: vector([1])})
