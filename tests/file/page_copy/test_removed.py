"""Ranges of removed rows say the same as a mask."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.file.page_copy.removed import NOTHING, Removed


@given(st.data())
def test_removed_rows_by_number_and_by_mask(data):
    count = data.draw(st.integers(0, 80))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), dtype=bool)
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, count))
    width = data.draw(st.integers(1, 3))
    wide = np.repeat(mask, width)
    for rows in (mask, np.flatnonzero(mask)):
        removed = Removed.of_rows(rows, count, "a")
        assert len(removed) == mask.sum()
        assert removed.count_before(start) == mask[:start].sum()
        assert removed.kept(start, stop).tolist() == (~mask[start:stop]).tolist()
        begins, ends = removed.kept_ranges(start, stop)
        kept = [row for low, high in zip(begins, ends, strict=True) for row in range(low, high)]
        assert kept == np.flatnonzero(~mask[start:stop]).tolist()
        spread = removed.spread(width)
        assert spread.kept(0, count * width).tolist() == (~wide).tolist()
        assert spread.count_before(start * width) == wide[: start * width].sum()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=20))
def test_ranges_that_touch_become_one(pieces):
    starts, stops, position = [], [], 0
    for gap, length in pieces:
        starts.append(position + gap)
        stops.append(position + gap + length)
        position += gap + length
    removed = Removed.of_ranges(np.array(starts, dtype=np.int64), np.array(stops, dtype=np.int64))
    expected = np.ones(position, dtype=bool)
    for start, stop in zip(starts, stops, strict=True):
        expected[start:stop] = False
    assert removed.kept(0, position).tolist() == expected.tolist()
    assert (removed.starts[1:] > removed.stops[:-1]).all()


def test_nothing_is_removed_by_default():
    assert Removed.of_rows(None, 5, "a") is NOTHING
    assert NOTHING.kept(2, 5).tolist() == [True] * 3
    assert NOTHING.count_before(4) == 0
    assert [bound.tolist() for bound in NOTHING.kept_ranges(2, 5)] == [[0], [3]]
