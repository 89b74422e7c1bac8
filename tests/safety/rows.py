"""Rows that tell themselves apart, and predicates that Python and SQL both understand.

A row follows from its id and a pattern, so a test that fails can be shrunk to a few small numbers. Nulls,
NaN, infinities, both zeros and many duplicates are among the values.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int32()), ("v", pa.float64()), ("s", pa.string())])

NAN = float("nan")
"""The one NaN of these tests: a tuple that holds it equals another that holds it."""

KEYS = (0, 1, None, 2, -3, 1, 2**31 - 1)
FLOATS = (None, 0.5, NAN, -0.0, 1.5, float("inf"), 0.0, -7.25, NAN, 1.5, float("-inf"))
TEXTS = ("a", None, "ab", "", "b%_", "ä", "a", "zz" * 40)


class Row(NamedTuple):
    id: int
    k: int | None
    v: float | None
    s: str | None


def row(number: int, pattern: int = 0) -> Row:
    return Row(
        number,
        KEYS[(number * (pattern + 1) + pattern) % len(KEYS)],
        FLOATS[(number * (pattern % 5 + 1) + pattern) % len(FLOATS)],
        TEXTS[(number + pattern * 3) % len(TEXTS)],
    )


def make_rows(first: int, count: int, pattern: int = 0) -> list[Row]:
    return [row(number, pattern) for number in range(first, first + count)]


def to_arrow(rows: Sequence[Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((),) * len(SCHEMA)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA
    )


def from_arrow(table: pa.Table) -> list[Row]:
    columns = [table[name].to_pylist() for name in SCHEMA.names]
    return [Row(a, b, NAN if c is not None and c != c else c, d) for a, b, c, d in zip(*columns, strict=True)]


@dataclass(frozen=True)
class Predicate:
    """A condition as SQL, and as a function that gives True, False, or None for unknown."""

    sql: str
    test: Callable[[Row], bool | None]

    def __repr__(self) -> str:
        return self.sql

    def select(self, rows: Sequence[Row]) -> list[Row]:
        return [item for item in rows if self.test(item)]


def _order(value: object) -> tuple[bool, object]:
    """NaN is equal to itself and greater than every other number."""
    return (True, 0) if value != value else (False, value)


_OPERATORS: dict[str, Callable[[object, object], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def literal(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return f"cast('{value}' as double)"
        return repr(value)
    return str(value)


def compare(column: str, operator: str, value: object) -> Predicate:
    holds = _OPERATORS[operator]

    def test(item: Row) -> bool | None:
        found = getattr(item, column)
        return None if found is None else holds(_order(found), _order(value))

    return Predicate(f"{column} {operator} {literal(value)}", test)


def is_null(column: str, *, negated: bool = False) -> Predicate:
    sql = f"{column} IS {'NOT ' if negated else ''}NULL"
    return Predicate(sql, lambda item: (getattr(item, column) is None) is not negated)


def is_in(column: str, values: Sequence[object]) -> Predicate:
    wanted = {_order(value) for value in values}

    def test(item: Row) -> bool | None:
        found = getattr(item, column)
        return None if found is None else _order(found) in wanted

    return Predicate(f"{column} IN ({', '.join(map(literal, values))})", test)


def between(column: str, low: object, high: object) -> Predicate:
    test = both(compare(column, ">=", low), compare(column, "<=", high)).test
    return Predicate(f"{column} BETWEEN {literal(low)} AND {literal(high)}", test)


def remainder(divisor: int, value: int) -> Predicate:
    return Predicate(f"id % {divisor} = {value}", lambda item: item.id % divisor == value)


def starts_with(prefix: str) -> Predicate:
    return Predicate(
        f"s LIKE '{prefix}%'", lambda item: None if item.s is None else item.s.startswith(prefix)
    )


def negation(inner: Predicate) -> Predicate:
    def test(item: Row) -> bool | None:
        found = inner.test(item)
        return None if found is None else not found

    return Predicate(f"NOT ({inner.sql})", test)


def both(one: Predicate, other: Predicate) -> Predicate:
    def test(item: Row) -> bool | None:
        found = {one.test(item), other.test(item)}
        return False if False in found else None if None in found else True

    return Predicate(f"({one.sql}) AND ({other.sql})", test)


def either(one: Predicate, other: Predicate) -> Predicate:
    def test(item: Row) -> bool | None:
        found = {one.test(item), other.test(item)}
        return True if True in found else None if None in found else False

    return Predicate(f"({one.sql}) OR ({other.sql})", test)


EVERYTHING = Predicate("true", lambda item: True)

PROBES: dict[str, tuple[Predicate, ...]] = {
    "id": (
        compare("id", ">=", 7),
        between("id", 3, 11),
        is_in("id", [0, 5, 8, 10**6]),
    ),
    "k": (
        compare("k", "=", 1),
        is_null("k"),
        negation(is_in("k", [1, 2])),
    ),
    "v": (
        compare("v", "=", NAN),
        compare("v", ">", 1.0),
        compare("v", "=", 0.0),
        is_null("v"),
        both(is_in("v", [1.5, NAN]), remainder(2, 1)),
    ),
    "s": (
        compare("s", "=", "a"),
        starts_with("a"),
        is_null("s"),
        is_in("s", ["", "ä"]),
    ),
}
"""Questions to ask a table, by the column whose index can answer them."""


def _simple() -> st.SearchStrategy[Predicate]:
    operators = st.sampled_from(sorted(_OPERATORS))
    ids = st.integers(0, 60)
    keys = st.sampled_from([key for key in KEYS if key is not None])
    floats = st.sampled_from([value for value in FLOATS if value is not None])
    texts = st.sampled_from(["a", "ab", "", "b", "zz"])
    return st.one_of(
        st.builds(between, st.just("id"), ids, ids),
        st.builds(remainder, st.integers(2, 5), st.integers(0, 4)),
        st.builds(is_in, st.just("id"), st.lists(ids, min_size=1, max_size=5)),
        st.builds(compare, st.just("id"), operators, ids),
        st.builds(compare, st.just("k"), operators, keys),
        st.builds(compare, st.just("v"), operators, floats),
        st.builds(compare, st.just("s"), operators, texts),
        st.builds(is_in, st.just("v"), st.lists(floats, min_size=1, max_size=3)),
        st.builds(is_null, st.sampled_from(["k", "v", "s"]), negated=st.booleans()),
        st.builds(starts_with, st.sampled_from(["a", "zz"])),
    )


PREDICATES = st.recursive(
    _simple(),
    lambda inner: st.one_of(
        st.builds(negation, inner), st.builds(both, inner, inner), st.builds(either, inner, inner)
    ),
    max_leaves=3,
)
