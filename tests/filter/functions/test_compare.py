"""Comparisons, above all of floating-point numbers."""

import itertools
import math
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.filter.functions.compare import compare, is_in, order_keys
from lance_ops.filter.predicates import OPPOSITES

NEGATIVE_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8 << 48))[0]
IN_ORDER = [NEGATIVE_NAN, -math.inf, -1.5, -0.0, 0.0, 5e-324, 1.0, math.inf, math.nan]


@pytest.mark.parametrize("data_type", [pa.float32(), pa.float64()])
def test_floats_stand_in_total_order(data_type):
    values = pa.array([value for value in IN_ORDER if value != 5e-324], data_type)
    keys = order_keys(values).to_pylist()
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">="])
def test_half_floats_compare_as_single_ones_do(op):
    pairs = list(itertools.product([*IN_ORDER, None], [*IN_ORDER, None]))
    half = [pa.array([pair[side] for pair in pairs], pa.float16()) for side in (0, 1)]
    single = [values.cast(pa.float32()) for values in half]
    assert compare(op, *half).to_pylist() == compare(op, *single).to_pylist()
    constants = (pa.scalar(-0.0, pa.float16()), pa.scalar(math.nan, pa.float16()))
    for constant in constants:
        expected = compare(op, single[0], constant.cast(pa.float32()))
        assert compare(op, half[0], constant).to_pylist() == expected.to_pylist()


@given(st.lists(st.tuples(st.floats(), st.floats())))
def test_every_pair_of_floats_is_below_equal_or_above(pairs):
    left, right = (pa.array([pair[side] for pair in pairs], pa.float64()) for side in (0, 1))
    results = [compare(op, left, right).to_pylist() for op in ("<", "=", ">")]
    assert all(sum(row) == 1 for row in zip(*results, strict=True))


@pytest.mark.parametrize("op", OPPOSITES)
def test_each_operator_is_the_negation_of_its_opposite(op):
    pairs = list(itertools.product([*IN_ORDER, None], [*IN_ORDER, None]))
    left, right = (pa.array([pair[side] for pair in pairs], pa.float64()) for side in (0, 1))
    found, opposite = compare(op, left, right), compare(OPPOSITES[op], left, right)
    assert [None if value is None else not value for value in found.to_pylist()] == opposite.to_pylist()


def test_the_constant_zero_means_both_zeros():
    values = pa.array([-1.0, -0.0, 0.0, 1.0, None])
    for zero in (pa.scalar(0.0), pa.scalar(-0.0)):
        assert compare("=", values, zero).to_pylist() == [False, True, True, False, None]
        assert compare("<", values, zero).to_pylist() == [True, False, False, False, None]
        assert compare("<=", zero, values).to_pylist() == [False, True, True, True, None]
    assert is_in(values, (0.0,), pa.float64(), has_null=False).to_pylist() == [False, True, True, False, None]
    assert compare("=", pa.array([0.0]), pa.array([-0.0])).to_pylist() == [False]


@given(
    st.lists(st.one_of(st.none(), st.floats())),
    st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
    st.floats(),
)
def test_a_constant_compares_like_a_column_of_it_except_zero(values, op, constant):
    array = pa.array(values, pa.float64())
    column = pa.array([constant] * len(values), pa.float64())
    if constant != 0:
        assert compare(op, array, pa.scalar(constant)).equals(compare(op, array, column))


def test_null_is_equal_to_null_only_when_asked_for_distinctness():
    left, right = pa.array([1, 1, None, None]), pa.array([1, 2, 1, None])
    assert compare("IS DISTINCT FROM", left, right).to_pylist() == [False, True, True, False]
    assert compare("=", left, right).to_pylist() == [True, False, None, None]
    assert compare("=", pa.nulls(2), pa.nulls(2)).to_pylist() == [None, None]


def test_in_with_null_is_never_false():
    values = pa.array([1, 2, None])
    assert is_in(values, (1,), pa.int64(), has_null=False).to_pylist() == [True, False, None]
    assert is_in(values, (1,), pa.int64(), has_null=True).to_pylist() == [True, None, None]
    assert is_in(values, (), pa.int64(), has_null=False).to_pylist() == [False, False, None]
