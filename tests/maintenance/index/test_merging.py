"""How many segments a refresh merges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.maintenance.index.merging import FACTOR, MOST_SEGMENTS, SMALL_ROWS, segments_to_merge

BIG = 100 * SMALL_ROWS


@pytest.mark.parametrize(
    ("rows", "new_rows", "merged"),
    [
        ([], 10, 0),
        ([1000], 10, 1),
        ([BIG], 10, 0),
        ([BIG], BIG // FACTOR, 1),
        ([BIG, 500, 500], 10, 2),
        ([BIG, SMALL_ROWS], SMALL_ROWS, 1),
        ([1000, 1000], None, 0),
        ([BIG] * MOST_SEGMENTS, 10, MOST_SEGMENTS),
        ([BIG] * (MOST_SEGMENTS + 2), None, 3),
        ([BIG // 10, BIG], 10, 0),
    ],
)
def test_small_segments_are_merged_and_large_ones_when_it_is_worth_it(rows, new_rows, merged):
    number, reason = segments_to_merge(rows, new_rows)
    assert number == merged
    assert bool(reason) == (new_rows is not None or merged > 0)


@given(
    st.lists(st.integers(0, 10 * SMALL_ROWS), max_size=20),
    st.none() | st.integers(0, 10 * SMALL_ROWS),
    st.integers(1, MOST_SEGMENTS),
)
def test_there_are_never_too_many_segments_afterwards(rows, new_rows, most):
    number, _ = segments_to_merge(rows, new_rows, most)
    added = new_rows is not None or number > 0
    assert 0 <= number <= len(rows)
    assert len(rows) - number + added <= most


@given(st.lists(st.integers(1, 3 * SMALL_ROWS), min_size=50, max_size=200))
def test_rows_are_written_again_a_few_times_only(appended):
    segments: list[int] = []
    written = 0
    for rows in appended:
        number, _ = segments_to_merge(segments, rows)
        kept, merged = segments[: len(segments) - number], segments[len(segments) - number :]
        segments = [*kept, rows + sum(merged)]
        written += segments[-1]
    assert sum(segments) == sum(appended)
    # A small segment is cheap however often it is written.
    assert written <= 10 * sum(appended) + len(appended) * SMALL_ROWS
