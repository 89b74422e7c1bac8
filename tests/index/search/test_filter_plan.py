"""What of a filter the indices are asked."""

import pyarrow as pa
import pytest

from lance_ops.filter import parse_filter
from lance_ops.filter.expression import Column, Literal
from lance_ops.filter.predicates import Comparison, IsTruth, Not, Or
from lance_ops.index.search.filter_plan import AllOf, AnyOf, Ask, plan_filter

SCHEMA = pa.schema({"a": pa.int64(), "b": pa.int64(), "s": pa.string(), "free": pa.int64()})


def shape(plan):
    """A plan as nested tuples, with questions as SQL."""
    if plan is None:
        return None
    if isinstance(plan, Ask):
        return plan.query.condition.to_sql()
    parts = tuple(shape(part) for part in plan.parts)
    if isinstance(plan, AnyOf):
        return ("any", *parts)
    return ("all" if plan.complete else "all and more", *parts)


def planned(condition):
    expression = parse_filter(condition, SCHEMA) if isinstance(condition, str) else condition
    return plan_filter(expression, lambda path: path != ("free",))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a = 1", "a = 1"),
        ("free = 1", None),
        ("a = 1 AND free = 2", ("all and more", "a = 1")),
        ("a > 1 AND b = 2 AND a < 9", ("all", "a > 1 AND a < 9", "b = 2")),
        ("a = 1 OR b = 2", ("any", "a = 1", "b = 2")),
        ("a = 1 OR free = 2", None),
        ("NOT (a = 1 AND b = 2)", ("any", "a <> 1", "b <> 2")),
        ("NOT (a = 1 OR b = 2)", ("all", "a <> 1", "b <> 2")),
        ("(a = 1 OR b = 2) AND s = 'x'", ("all", "s = 'x'", ("any", "a = 1", "b = 2"))),
        ("(a = 1 OR free = 2) AND s = 'x'", ("all and more", "s = 'x'")),
        ("a = 1 OR (b = 2 AND free = 3)", ("any", "a = 1", ("all and more", "b = 2"))),
        ("(a = 1 OR b = 2) IS TRUE", ("any", "a = 1", "b = 2")),
        ("(a = 1 AND b = 2) IS FALSE", ("any", "a <> 1", "b <> 2")),
        ("(a = 1 AND b = 2) IS NOT TRUE", None),
        ("a = b", None),
    ],
)
def test_what_is_asked_and_how_it_goes_together(sql, expected):
    assert shape(planned(sql)) == expected


def test_parts_are_asked_where_no_index_answers_the_whole():
    either = planned("s = 'x' OR contains(s, 'abc')")
    assert shape(either) == "s = 'x' OR contains(s, 'abc')"
    assert shape(either.otherwise) == ("any", "s = 'x'", "contains(s, 'abc')")
    both = planned("a > 1 AND a < 9 AND b = 2").parts[0]
    assert shape(both.otherwise) == ("all", "a > 1", "a < 9")
    assert isinstance(both.otherwise, AllOf)


def test_a_negation_that_no_parser_would_leave_standing_is_pushed_down():
    first = Comparison("=", Column(("a",), pa.int64()), Literal(1, pa.int64()))
    second = Comparison("<", Column(("b",), pa.int64()), Literal(2, pa.int64()))
    assert shape(planned(Not(Or((first, second))))) == ("all", "a <> 1", "b >= 2")
    assert shape(planned(IsTruth(Or((first, second)), False))) == ("all", "a <> 1", "b >= 2")
