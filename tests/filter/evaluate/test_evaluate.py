"""Three-valued logic, and everything that evaluation owes to the shape of the data."""

import itertools
import math
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.errors import PredicateError
from lance_ops.filter import evaluate, evaluate_values, parse_filter, select

TRUTHS = [True, False, None]


def run(sql, **columns):
    """Values of a filter on named columns."""
    batch = pa.record_batch(
        {
            name: pa.array(*value) if isinstance(value, tuple) else pa.array(value)
            for name, value in columns.items()
        }
    )
    return evaluate(parse_filter(sql, batch.schema), batch).to_pylist()


def both(a, b):
    return False if False in (a, b) else None if None in (a, b) else True


def either(a, b):
    return True if True in (a, b) else None if None in (a, b) else False


class TestLogic:
    def test_and_or_not_follow_the_truth_tables(self):
        pairs = list(itertools.product(TRUTHS, TRUTHS))
        a, b = [x for x, _ in pairs], [y for _, y in pairs]
        assert run("a AND b", a=a, b=b) == [both(x, y) for x, y in pairs]
        assert run("a OR b", a=a, b=b) == [either(x, y) for x, y in pairs]
        assert run("NOT a", a=TRUTHS) == [False, True, None]
        assert run("NOT (a AND b)", a=a, b=b) == [
            None if both(x, y) is None else not both(x, y) for x, y in pairs
        ]

    def test_is_answers_with_true_or_false(self):
        assert run("a IS TRUE", a=TRUTHS) == [True, False, False]
        assert run("a IS NOT TRUE", a=TRUTHS) == [False, True, True]
        assert run("a IS FALSE", a=TRUTHS) == [False, True, False]
        assert run("a IS NOT FALSE", a=TRUTHS) == [True, False, True]
        assert run("a IS NULL", a=TRUTHS) == [False, False, True]
        assert run("a IS NOT DISTINCT FROM NULL", a=TRUTHS) == [False, False, True]

    def test_comparisons_with_null_are_unknown(self):
        assert run("x = 1", x=[1, 2, None]) == [True, False, None]
        assert run("x = NULL", x=[1, None]) == [None, None]
        assert run("x IN (1, NULL)", x=[1, 2, None]) == [True, None, None]
        assert run("x NOT IN (1, NULL)", x=[1, 2, None]) == [False, None, None]
        assert run("x IN (NULL)", x=[1, None]) == [None, None]
        assert run("x BETWEEN 2 AND NULL", x=[1, 3, None]) == [False, None, None]
        assert run("x IS DISTINCT FROM 1", x=[1, 2, None]) == [False, True, True]

    def test_select_takes_unknown_for_false(self):
        batch = pa.record_batch({"x": pa.array([1, 2, None])})
        mask = select(parse_filter("x <> 1", batch.schema), batch)
        assert mask.to_pylist() == [False, True, False]
        assert mask.null_count == 0

    @given(st.lists(st.tuples(st.sampled_from(TRUTHS), st.sampled_from(TRUTHS), st.sampled_from(TRUTHS))))
    def test_laws_of_logic_hold(self, rows):
        batch = pa.table(
            [pa.array([row[i] for row in rows], pa.bool_()) for i in range(3)], names=["a", "b", "c"]
        )
        for left, right in (
            ("a AND (b OR c)", "(a AND b) OR (a AND c)"),
            ("NOT (a OR b)", "NOT a AND NOT b"),
            ("NOT (a AND b OR c)", "(NOT a OR NOT b) AND NOT c"),
            ("a = b", "(a AND b) OR (NOT a AND NOT b)"),
            ("NOT (a = b)", "a <> b"),
        ):
            first, second = (evaluate(parse_filter(sql, batch.schema), batch) for sql in (left, right))
            assert first.to_pylist() == second.to_pylist()


class TestErrorsOnlyWhereTheyMatter:
    def test_a_guard_protects_whatever_the_order(self):
        assert run("x <> 0 AND 10 / x > 1", x=[0, 5, 20, None]) == [False, True, False, None]
        assert run("10 / x > 1 AND x <> 0", x=[0, 5, 20, None]) == [False, True, False, None]
        assert run("x = 0 OR 10 / x > 1", x=[0, 5, 20, None]) == [True, True, False, None]
        assert run("NOT (x <> 0 AND 10 % x = 0)", x=[0, 5, 20]) == [True, False, True]

    def test_branches_that_are_not_taken_cannot_fail(self):
        assert run("CASE WHEN x = 0 THEN false ELSE 10 / x > 1 END", x=[0, 5, 20]) == [False, True, False]
        assert run("CASE x WHEN 0 THEN 0 WHEN 5 THEN 10 / x END = 2", x=[0, 5, 20]) == [False, True, None]
        assert run("coalesce(y, 10 / x) = 2", x=[0, 5, 0], y=[2, None, 3]) == [True, True, False]

    @pytest.mark.parametrize(
        ("sql", "message"),
        [
            ("1 / x > 0", "division by zero"),
            ("1 % x > 0", "division by zero"),
            ("CAST(s AS INT) > 0", "'a' does not read as int32"),
            ("CAST(big AS TINYINT) > 0", "does not fit int8"),
            ("CAST(f AS INT) > 0", "does not fit int32"),
            ("abs(low) > 0", "overflow"),
            ("split_part(s, 'a', x) = ''", "counts parts from 1"),
            ("make_date(2020, big, 1) > DATE '2020-01-01'", "is not a valid date"),
            ("repeat(s, 1000000000) = s", "the maximum"),
        ],
    )
    def test_a_value_that_cannot_be_computed_names_the_expression(self, sql, message):
        batch = pa.record_batch(
            {
                "x": pa.array([0, 1]),
                "s": pa.array(["a", "1"]),
                "big": pa.array([1000, 1]),
                "f": pa.array([math.nan, 1.0]),
                "low": pa.array([-128, 1], pa.int8()),
            }
        )
        with pytest.raises(PredicateError, match=message) as caught:
            evaluate(parse_filter(sql, batch.schema), batch)
        assert caught.value.field is not None

    def test_try_cast_gives_null_instead(self):
        assert run("TRY_CAST(s AS INT) = 1", s=["1", "a", None, "99999999999", "+1"]) == [
            True,
            None,
            None,
            None,
            True,
        ]
        assert run("TRY_CAST(f AS TINYINT) = 1", f=[1.9, 300.0, math.nan, -0.5]) == [True, None, None, False]


class TestData:
    def test_a_table_of_many_chunks_gives_one_array(self):
        table = pa.concat_tables(
            [pa.table({"x": [1, 2]}), pa.table({"x": [3]}), pa.table({"x": pa.array([], pa.int64())})]
        )
        result = evaluate(parse_filter("x > 1", table.schema), table)
        assert isinstance(result, pa.BooleanArray)
        assert result.to_pylist() == [False, True, True]

    def test_no_rows_and_no_columns_are_fine(self):
        schema = pa.schema([("x", pa.int64())])
        assert len(evaluate(parse_filter("x > 1 AND 1 / x = 2", schema), schema.empty_table())) == 0
        assert evaluate(parse_filter("true", schema), pa.table({"y": [1, 2]})).to_pylist() == [True, True]
        assert evaluate(parse_filter("1 = 2", schema), pa.record_batch({"y": [1, 2]})).to_pylist() == [
            False,
            False,
        ]
        assert select(parse_filter("NULL", schema), pa.table({"x": [1]})).to_pylist() == [False]

    def test_only_the_columns_named_have_to_be_there(self):
        schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
        expression = parse_filter("x > 1", schema)
        assert evaluate(expression, pa.table({"x": [1, 2]})).to_pylist() == [False, True]
        with pytest.raises(PredicateError, match="no such column"):
            evaluate(expression, pa.table({"y": [1, 2]}))
        with pytest.raises(PredicateError, match="was parsed for a column of type int64"):
            evaluate(expression, pa.table({"x": ["a"]}))

    @pytest.mark.parametrize(
        "array",
        [
            pa.array(["a", "b", None, "a"]).dictionary_encode(),
            pa.array(["a", "b", None, "a"], pa.large_utf8()),
            pa.array(["a", "b", None, "a"], pa.string_view()),
            pa.RunEndEncodedArray.from_arrays([1, 2, 3, 4], pa.array(["a", "b", None, "a"])),
            pa.chunked_array([["a"], ["b", None, "a"]]).combine_chunks(),
            pa.array(["z", "a", "b", None, "a"]).slice(1),
            pa.array(["z", "a", "b", None, "a"]).dictionary_encode().slice(1),
        ],
        ids=lambda array: str(array.type),
    )
    def test_encodings_of_a_column_do_not_show(self, array):
        batch = pa.record_batch({"s": array})
        for sql in ("s = 'a'", "s IN ('a', 'c')", "s LIKE 'a%'", "lower(s) = 'a'", "starts_with(s, 'a')"):
            assert evaluate(parse_filter(sql, batch.schema), batch).to_pylist() == [
                True,
                False,
                None,
                True,
            ], sql
        assert evaluate(parse_filter("s IS NULL", batch.schema), batch).to_pylist() == [
            False,
            False,
            True,
            False,
        ]

    def test_fields_of_a_null_struct_are_null(self):
        inner = pa.array([{"x": 1}, None, {"x": None}], pa.struct([("x", pa.int64())]))
        batch = pa.record_batch({"st": inner})
        assert evaluate(parse_filter("st.x = 1", batch.schema), batch).to_pylist() == [True, None, None]
        assert evaluate(parse_filter("st IS NULL", batch.schema), batch).to_pylist() == [False, True, False]

    def test_half_floats_are_compared_as_halves(self):
        halves = pa.array(np.array([0.1, 0.2, 65504], np.float16))
        batch = pa.record_batch({"h": halves})
        assert evaluate(parse_filter("h = 0.1", batch.schema), batch).to_pylist() == [True, False, False]
        assert evaluate(parse_filter("h + h = CAST('inf' AS DOUBLE)", batch.schema), batch).to_pylist() == [
            False,
            False,
            True,
        ]

    def test_extension_types_are_seen_as_their_storage(self):
        array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16, None], pa.binary(16)))
        batch = pa.record_batch({"u": array})
        sql = f"u = x'{'61' * 16}'"
        assert evaluate(parse_filter(sql, batch.schema), batch).to_pylist() == [True, None]

    def test_any_expression_can_be_evaluated(self):
        batch = pa.record_batch({"x": [1, 2, None]})
        left = parse_filter("x * 2 > 3", batch.schema).left
        assert evaluate_values(left, batch).to_pylist() == [2, 4, None]

    def test_trees_travel_to_other_processes(self):
        batch = pa.record_batch({"x": [1, 2, None], "s": ["a", "b", None]})
        sql = "x IN (1, 5) AND lower(s) LIKE 'a%' OR CASE WHEN x > 1 THEN 10 / x ELSE 0 END = 5"
        expression = parse_filter(sql, batch.schema)
        copy = pickle.loads(pickle.dumps(expression))
        assert copy == expression
        assert evaluate(copy, batch).equals(evaluate(expression, batch))


class TestNumbers:
    def test_integers_wrap_around_and_divide_towards_zero(self):
        x = pa.array([127, -128, 7, -7], pa.int8())
        assert run("x + x = -2", x=x) == [True, False, False, False]
        assert run("- x = x", x=x) == [False, True, False, False]
        assert run("x / 2 = -3", x=x) == [False, False, False, True]
        assert run("x % 2 = -1", x=x) == [False, False, False, True]
        assert run("u - 1 < 0", u=pa.array([0, 1], pa.uint8())) == [True, False]
        assert run("- u < 0", u=pa.array([0, 1], pa.uint8())) == [False, True]

    def test_floats_divide_by_zero_and_nan_has_its_place(self):
        f = [0.0, 1.0, -1.0, math.nan, None]
        assert run("f / 0 > 1000", f=f)[1:] == [True, False, True, None]
        assert run("f = f", f=f) == [True, True, True, True, None]
        assert run("f > CAST('inf' AS DOUBLE)", f=f) == [False, False, False, True, None]
        assert run("NOT (f > 0)", f=f) == [True, False, True, False, None]
        assert run("f = -0.0", f=[0.0, -0.0]) == [True, True]
        assert run("f IN (0)", f=[0.0, -0.0]) == [True, True]

    def test_decimals_keep_their_digits(self):
        d = pa.array(["1.10", "-2.25", None]).cast(pa.decimal128(10, 2))
        assert run("d = 1.1", d=d) == [True, False, None]
        assert run("d * d = 5.0625", d=d) == [False, True, None]
        assert run("d / 3 = -0.75", d=d) == [False, True, None]
        assert run("d % 2 = -0.25", d=d) == [False, True, None]
        assert run("d > 1.095", d=d) == [True, False, None]
        assert run("round(d, 1) = -2.3", d=d) == [False, True, None]

    def test_unsigned_and_signed_sixty_four_bits_meet_without_loss(self):
        u, i = pa.array([2**64 - 1, 5], pa.uint64()), pa.array([-1, 5])
        assert run("u = i", u=u, i=i) == [False, True]
        assert run("u > i", u=u, i=i) == [True, False]
        assert run("u > -1", u=u) == [True, True]
        assert run("u = 18446744073709551615", u=u) == [True, False]
