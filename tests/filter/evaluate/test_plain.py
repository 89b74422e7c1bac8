"""Plain conditions: columns compared with constants are told from others, and answered as the tree does."""

import random

import pyarrow as pa
import pytest

from lance_ops.filter import parse_filter, select
from lance_ops.filter.evaluate.evaluate import evaluate, select_plain
from tests.support.filters import FilterMaker, random_rows


@pytest.mark.parametrize("seed", range(20))
def test_random_filters_select_the_same_rows_either_way(seed: int) -> None:
    """Of every type, with nulls; also where the shorter way has nothing to say."""
    rng = random.Random(seed)
    rows = random_rows(rng, 50)
    maker = FilterMaker(rng)
    plain = 0
    for _ in range(60):
        expression = parse_filter(maker.condition(rng.choice([0, 1])), rows.schema)
        found = select_plain(expression, rows)
        plain += found is not None
        if found is not None:
            assert found.equals(evaluate(expression, rows).fill_null(False))
    assert plain


def test_comparisons_of_columns_with_constants_are_plain() -> None:
    """Alone and joined by AND; nulls count as no."""
    rows = pa.table({"a": [1, 2, None, 4], "s": ["x", None, "y", "z"]})
    for sql, expected in (
        ("a >= 2", [False, True, False, True]),
        ("a BETWEEN 2 AND 4 AND s <> 'z'", [False, False, False, False]),
        ("s > 'x'", [False, False, True, True]),
    ):
        found = select_plain(parse_filter(sql, rows.schema), rows)
        assert found is not None
        assert found.to_pylist() == expected


@pytest.mark.parametrize(
    "sql", ["a > 1 OR a = 0", "NOT (f < 1.5)", "f > 1.5", "a = b", "a IS NULL", "a = NULL"]
)
def test_other_conditions_are_left_to_the_tree(sql: str) -> None:
    """Floats too, whose order is not Arrow's."""
    rows = pa.table({"a": [1], "b": [2], "f": [1.0]})
    assert select_plain(parse_filter(sql, rows.schema), rows) is None


def test_columns_of_several_arrays_or_of_another_type_are_left_to_the_tree() -> None:
    """A dictionary, an array behind another one, a column that is not there."""
    expression = parse_filter("s = 'x'", pa.schema([pa.field("s", pa.string())]))
    parts = pa.table({"s": pa.chunked_array([["x"], ["y"]])})
    assert select_plain(expression, parts) is None
    assert select(expression, parts).to_pylist() == [True, False]
    encoded = pa.table({"s": pa.array(["x", "y"]).dictionary_encode()})
    assert select_plain(expression, encoded) is None
    assert select(expression, encoded).to_pylist() == [True, False]
    assert select_plain(expression, pa.table({"t": ["x"]})) is None
