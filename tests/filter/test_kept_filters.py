"""Kept filters: whatever was parsed before, a text means what it means by itself."""

import random

import pyarrow as pa
import pytest

from lance_ops.errors import PredicateError
from lance_ops.filter import Expression, parse_filter
from lance_ops.filter.kept_filters import KeptFilters, join_constants, split_constants
from tests.support.filters import FilterMaker, random_rows

_NUMBERS = (0, 1, 7, 127, 128, 255, 256, 32_768, 70_000, 2**31, 2**32, 10**17)
_TEXTS = ("a", "b", "A b", "2024-01-01", "5", "1.5", "%", "_", "a(b", "--", "today", "ä", "x'y\"")


def _parsed(sql: str, schema: pa.Schema) -> Expression | str:
    try:
        return parse_filter(sql, schema)
    except PredicateError as error:
        return str(error)


def _kept(filters: KeptFilters, sql: str) -> Expression | str:
    try:
        return filters.parse(sql)
    except PredicateError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(24))
def test_texts_of_one_shape_mean_what_each_means_alone(seed: int) -> None:
    """Random filters on columns of all types, each with its constants changed again and again."""
    rng = random.Random(seed)
    schema = random_rows(rng, 1).schema
    filters, maker, shapes = KeptFilters(schema), FilterMaker(rng), 0
    for _ in range(25):
        sql = maker.condition(rng.choice([0, 1, 2]))
        plain = split_constants(sql)
        assert _kept(filters, sql) == _parsed(sql, schema)
        if plain is None:
            continue
        shape, constants = plain
        shapes += 1
        assert split_constants(join_constants(shape, constants)) == plain
        for _ in range(6):
            others = [rng.choice(_NUMBERS if isinstance(one, int) else _TEXTS) for one in constants]
            other = join_constants(shape, others)
            assert _kept(filters, other) == _parsed(other, schema), other
    assert shapes


_SCHEMA = pa.schema(
    [
        *(("i", pa.int64()), ("small", pa.int8()), ("u", pa.uint32()), ("f", pa.float64())),
        *(("s", pa.string()), ("other", pa.string()), ("tags", pa.list_(pa.string())), ("d", pa.date32())),
        ("doc", pa.json_()),
    ]
)


@pytest.mark.parametrize(
    ("shape", "rows"),
    [
        ("i BETWEEN {} AND {}", [(1, 2), (5, 4), (3, 3), (10**18, 7), (10**19, 7)]),
        ("i = {} AND s = '{}'", [(1, "a"), (2, "b"), (3, "it''s"), (4, "")]),
        ("small > {}", [(1,), (2,), (300,), (3,), (-4,), (127,), (128,)]),
        ("u = {} OR u = {}", [(1, 2), (3, 3), (4, 5), (2**32, 1), (6, 7)]),
        ("f > {}", [(1,), (2,), (3,), (2.5,)]),
        ("s = '{}' AND other = '{}'", [("a", "a"), ("b", "a"), ("a", "b"), ("c", "d")]),
        ("contains(s, '{}')", [("a",), ("b",), ("%",), ("a(",)]),
        ("array_has_all(tags, ['{}', '{}'])", [("a", "b"), ("b", "b"), ("c", "d"), ("e", "f")]),
        ("array_has(tags, '{}') AND NOT (i < {})", [("a", 1), ("b", 2), ("c", 3)]),
        (
            "json_get_int(doc, '{}') = {}",
            [("a", 1), ("a", 2), ("b", 2), ("b", 3), ("a", 4), ("c", 5), ("c", 6)],
        ),
        ("json_extract(doc, '$.{}') = '{}'", [("a", "a"), ("a", "b"), ("b", "a"), ("b", "c")]),
        ("json_get_string(doc, '{}') = '{}'", [("a", "a"), ("b", "b"), ("a", "b"), ("b", "a"), ("c", "d")]),
        ("i IN ({}, {})", [(1, 2), (3, 3), (4, 5)]),
        ("s LIKE '{}'", [("a%",), ("b",), ("_",)]),
        ("i + {} > {}", [(1, 2), (3, 4), (5, 5)]),
        ("{} < i", [(1,), (2,), (3,)]),
        ("d > '{}'", [("2024-01-01",), ("2024-01-02",), ("never",), ("2024-01-03",)]),
        ("length(s) = {}", [(1,), (2,), (3,), (10**12,)]),
        ("i = {} -- it's", [(1,), (2,), (3,)]),
        ("s = x'{}'", [("61",), ("62",), ("63",)]),
        ("i > {} AND d <= today()", [(1,), (2,), (3,)]),
    ],
)
def test_each_text_of_a_shape_means_what_it_means_alone(shape: str, rows: list[tuple[object, ...]]) -> None:
    """Numbers that another type has to hold, constants that are equal by chance, and what is no constant."""
    filters = KeptFilters(_SCHEMA)
    for row in (*rows, *reversed(rows)):
        sql = shape.format(*row)
        assert _kept(filters, sql) == _parsed(sql, _SCHEMA), sql


def test_the_same_text_gives_the_same_object() -> None:
    """Much is kept by the identity of a filter."""
    filters = KeptFilters(_SCHEMA)
    for number in range(3):
        sql = f"i = {number}"
        assert filters.parse(sql) is filters.parse(sql)
    assert filters.parse("i = 0") is not filters.parse("i = 1")


def test_what_is_kept_is_bounded() -> None:
    """By number, whatever is asked."""
    filters = KeptFilters(_SCHEMA)
    for number in range(200):
        filters.parse(f"i = {number} AND {' AND '.join(['i > 1'] * (number % 90 + 1))}")
    assert len(filters._parsed) <= 64
    assert len(filters._shapes) <= 64


@pytest.mark.parametrize(
    "sql", ["`i` = 1", 's = "a"', "s = 'it''s'", "s = x'61'", "i = 1 -- one", "s = 'open", "i = 1; i = 2"]
)
def test_texts_that_take_a_parser_have_no_shape(sql: str) -> None:
    """Other quotes, quotes inside of texts, comments."""
    assert split_constants(sql) is None
