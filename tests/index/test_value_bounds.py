"""Bounds of pages and zones: integers and moments are compared as numbers, all others by Arrow."""

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.index.sargable import Interval
from lance_ops.index.value_bounds import ValueBounds, as_numbers

_TYPES = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.timestamp("us"): st.integers(-5, 5),
    pa.date32(): st.dates(dt.date(1960, 1, 1), dt.date(2030, 1, 1)),
    pa.time32("s"): st.integers(0, 86_399),
    pa.duration("ms"): st.integers(-5, 5),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text("ab", max_size=3),
    pa.decimal128(10, 2): st.decimals(-5, 5, places=2),
}


@pytest.mark.parametrize("kind", _TYPES, ids=str)
@given(st.data())
def test_a_part_is_reached_where_its_bounds_meet_the_interval(kind: pa.DataType, data: st.DataObject) -> None:
    """Whatever the type and however open the ends; a bound that is not known excludes nothing."""
    values, missing = _TYPES[kind], data.draw(st.booleans())
    parts = data.draw(st.lists(st.tuples(values, values).map(sorted), max_size=6))
    lows = [None if missing and number == 0 else low for number, (low, _) in enumerate(parts)]
    bounds = ValueBounds(pa.array(lows, kind), pa.array([high for _, high in parts], kind))
    low, high = data.draw(st.none() | values), data.draw(st.none() | values)
    interval = Interval(*(None if end is None else pa.scalar(end, kind) for end in (low, high)))
    expected = [
        (low is None or greatest >= low) and (high is None or (missing and number == 0) or least <= high)
        for number, (least, greatest) in enumerate(parts)
    ]
    assert bounds.reach(interval).tolist() == expected


def test_an_interval_of_another_type_is_brought_to_that_of_the_bounds() -> None:
    """Texts with long offsets in the filter, with short ones in the index."""
    bounds = ValueBounds(pa.array(["a", "m"]), pa.array(["k", "z"]))
    end = pa.scalar("l", pa.large_string())
    assert bounds.reach(Interval(low=end)).tolist() == [False, True]
    numbers = ValueBounds(pa.array([1, 5]), pa.array([4, 9]))
    assert numbers.reach(Interval(high=pa.scalar(4, pa.int8()))).tolist() == [True, False]


def test_only_numbers_without_gaps_are_taken_for_numbers() -> None:
    """Floats have an order of their own, and null has no number."""
    assert as_numbers(pa.array([1.0])) is None
    assert as_numbers(pa.array([1, None])) is None
    assert as_numbers(pa.array([True])) is None
    moments = as_numbers(pa.array([7], pa.timestamp("ns", "UTC")).slice(0))
    assert moments is not None
    assert moments.tolist() == [7]
