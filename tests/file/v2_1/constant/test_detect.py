import numpy as np
import pyarrow as pa
import pytest

from lance_ops.encoding.pages.ravel import ravel
from lance_ops.encoding.values.array_values import from_arrow
from lance_ops.encoding.values.flat import encode_flat
from lance_ops.encoding.values.values import Fixed
from lance_ops.file.v2_1.constant.detect import find_constant


def is_constant(array: pa.Array) -> bool:
    raveled = ravel(array, (0,) if pa.types.is_list(array.type) else ())
    return find_constant(raveled, from_arrow(raveled.values), 32) is not None


SAME = [
    pa.array([7] * 1000),
    pa.array([None, 7] * 500),
    pa.array([None] * 200 + [7] * 3),
    pa.array([7]),
    pa.array(["abc"] * 1000).slice(3, 500),
    pa.array(["abc", None] * 500),
    pa.array([""] * 300),
    pa.array(["", None] * 300),
    pa.array([b"0123456789"] * 100, pa.binary(10)),
    pa.array([float("nan")] * 100),
    pa.array([True] * 1003),
    pa.array([False] * 1000),
    pa.array([False, None] * 1000),
    pa.array([[True, True], None, [], [True]] * 100),
    pa.array([["x"], None, [], ["x", None]] * 100),
]
DIFFERENT = [
    pa.array([7] * 999 + [8]),
    pa.array([7, None] * 500 + [8]),
    pa.array(["abc"] * 999 + ["abd"]),
    pa.array(["aa", "a"] * 100),
    pa.array(["a", "aa", ""] * 100),
    pa.array(["", "a"] * 100),
    pa.array(["ab", None] * 200 + ["ba"]),
    pa.array([b"0123456789"] * 100 + [b"0123456780"], pa.binary(10)),
    pa.array([0.0] * 99 + [-0.0]),
    pa.array([True] * 1000 + [False]),
    pa.array([True] * 1001 + [False] + [True] * 6),
    pa.array([False] * 1000 + [True] * 8),
    pa.array([False, True] * 100),
    pa.array([[True, False], None] * 100),
    pa.nulls(10, pa.int8()),
    pa.array([], pa.int8()),
]


@pytest.mark.parametrize("array", SAME, ids=lambda array: f"{array.type}-{array[0]}")
def test_equal_values_are_found(array: pa.Array) -> None:
    assert is_constant(array)


@pytest.mark.parametrize("array", DIFFERENT, ids=lambda array: f"{array.type}-{len(array)}")
def test_a_single_other_value_is_noticed(array: pa.Array) -> None:
    assert not is_constant(array)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 64, 65, 1000])
def test_bitmaps_are_looked_at_up_to_their_length(length: int) -> None:
    for value in (True, False):
        array = pa.array([value] * length + [not value] * 3).slice(0, length)
        raveled = ravel(array, ())
        found = find_constant(raveled, Fixed(1, length, encode_flat(array)), 32)
        assert found is not None
        assert found.parts == (bytes([value]),)
        other = pa.array([value] * length + [not value])
        assert find_constant(ravel(other, ()), Fixed(1, length + 1, encode_flat(other)), 32) is None


def test_nulls_take_the_value_of_the_others() -> None:
    for array in (
        pa.array([None, 7, 7]),
        pa.array([None, True, True]),
        pa.array([b"ab", None], pa.binary(2)),
    ):
        raveled = ravel(array, ())
        values = from_arrow(raveled.values)
        found = find_constant(raveled, values, 32)
        assert found is not None
        assert isinstance(values, Fixed)
        filled = found.repeat(values)
        rows = np.asarray(filled.data).reshape(len(array), -1)
        assert (rows == rows[0]).all()
