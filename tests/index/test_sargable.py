"""What an index understands of a filter."""

import pyarrow as pa
import pytest

from lance_ops.filter import parse_filter
from lance_ops.index.column_query import ColumnQuery, column_queries
from lance_ops.index.sargable import Interval

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("s", pa.string()),
        ("f", pa.float64()),
        ("st", pa.struct([("a", pa.int64())])),
    ]
)


def understood(sql: str) -> tuple[ColumnQuery, ...]:
    return tuple(query for query in column_queries(parse_filter(sql, SCHEMA)) if query.ranges is not None)


def bounds(interval: Interval) -> tuple[object, object]:
    return (
        None if interval.low is None else interval.low.as_py(),
        None if interval.high is None else interval.high.as_py(),
    )


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("i = 3", [(3, 3)]),
        ("3 = i", [(3, 3)]),
        ("i < 3", [(None, 3)]),
        ("3 < i", [(3, None)]),
        ("i >= 3", [(3, None)]),
        ("i IN (1, 2)", [(1, 1), (2, 2)]),
        ("i IS NOT NULL", [(None, None)]),
        ("s LIKE 'ab%'", [("ab", "ac")]),
        ("s LIKE 'a\\%b%'", [("a%b", "a%c")]),
        ("starts_with(s, 'ab')", [("ab", "ac")]),
        ("i = 3 OR i = 5", [(3, 3), (5, 5)]),
        ("st.a = 4", [(4, 4)]),
    ],
)
def test_conditions_on_one_column_become_intervals(sql: str, expected: list[tuple[object, object]]) -> None:
    (found,) = understood(sql)
    (values,) = found.ranges
    assert [bounds(interval) for interval in values.intervals] == expected
    assert not values.nulls


def test_is_null_asks_for_nulls() -> None:
    (found,) = understood("i IS NULL")
    assert found.ranges[0].nulls
    assert found.ranges[0].intervals == ()


def test_conditions_on_one_column_are_searched_together() -> None:
    (found,) = understood("i > 3 AND i < 9 AND f * 2 > 1")
    assert found.path == ("i",)
    assert [bounds(values.intervals[0]) for values in found.ranges] == [(3, None), (None, 9)]
    assert found.conjuncts == 2


def test_a_long_list_is_one_interval() -> None:
    (found,) = understood(f"i IN ({', '.join(str(value) for value in range(0, 1000, 2))})")
    assert [bounds(interval) for interval in found.ranges[0].intervals] == [(0, 998)]


def test_a_long_list_with_nan_has_no_ends() -> None:
    values = ", ".join(f"{value}.0" for value in range(100))
    (found,) = understood(f"f IN (5.0, CAST('NaN' AS DOUBLE), {values})")
    assert [bounds(interval) for interval in found.ranges[0].intervals] == [(None, None)]


@pytest.mark.parametrize("sql", ["i <> 3", "3 <> i", "NOT (i IN (1, 2))", "i IS NOT NULL", "s NOT LIKE 'a%'"])
def test_what_a_value_is_not_is_some_value(sql: str) -> None:
    (found,) = understood(sql)
    (values,) = found.ranges
    assert [bounds(interval) for interval in values.intervals] == [(None, None)]
    assert not values.nulls


@pytest.mark.parametrize(
    "sql",
    [
        "i + 1 = 3",
        "i IS DISTINCT FROM 3",
        "i = 3 OR s = 'a'",
        "s LIKE '%a'",
        "NOT (f + 1 = 2)",
        "s ILIKE 'a%'",
    ],
)
def test_the_rest_is_left_to_the_scan(sql: str) -> None:
    assert understood(sql) == ()


def test_the_condition_itself_decides_about_values() -> None:
    (found,) = understood("i > 3")
    values = pa.chunked_array([pa.array([3, 4, None], pa.int32())])
    assert found.matches(values).to_pylist() == [False, True, False]


def test_the_condition_on_a_nested_field_decides_about_values() -> None:
    (found,) = understood("st.a = 4")
    values = pa.chunked_array([pa.array([3, 4, None], pa.int64())])
    assert found.matches(values).to_pylist() == [False, True, False]


def test_a_prefix_at_the_end_of_unicode_has_no_upper_bound() -> None:
    (found,) = understood("starts_with(s, '\U0010ffff')")
    assert bounds(found.ranges[0].intervals[0]) == ("\U0010ffff", None)
