"""The order of an ordered index."""

import math
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.encoding.arrays import number_dtype
from lance_ops.index.order import sort_order


def ordered(values: pa.Array) -> list[object]:
    return values.take(pa.array(sort_order(values))).to_pylist()


def test_nulls_come_first_and_nan_last() -> None:
    values = pa.array([2.0, None, math.nan, -math.inf, math.inf, None, -1.0])
    result = ordered(values)
    assert result[:6] == [None, None, -math.inf, -1.0, 2.0, math.inf]
    assert math.isnan(result[6])


def test_negative_zero_comes_before_zero() -> None:
    values = pa.array([0.0, -0.0, 1.0, -1.0])
    assert [math.copysign(1, value) for value in ordered(values)] == [-1, -1, 1, 1]


@pytest.mark.parametrize("arrow_type", [pa.float16(), pa.float32(), pa.float64()])
@given(values=st.lists(st.floats(width=16), max_size=50))
def test_floats_sort_by_their_total_order(arrow_type: pa.DataType, values: list[float]) -> None:
    array = pa.array(np.array(values, dtype=number_dtype(arrow_type)), arrow_type)

    def key(value: float) -> int:
        bits = struct.unpack("<q", struct.pack("<d", value))[0]
        return bits if bits >= 0 else bits ^ 0x7FFF_FFFF_FFFF_FFFF

    expected = sorted((float(value) for value in array.to_pylist()), key=key)
    assert [struct.pack("<d", value) for value in ordered(array)] == [
        struct.pack("<d", value) for value in expected
    ]


@given(values=st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), max_size=50))
def test_integers_sort_ascending_after_nulls(values: list[int | None]) -> None:
    expected = sorted(values, key=lambda value: (value is not None, value or 0))
    assert ordered(pa.array(values, pa.int64())) == expected


@given(values=st.lists(st.one_of(st.none(), st.text(max_size=4)), max_size=50))
def test_texts_sort_by_their_bytes(values: list[str | None]) -> None:
    expected = sorted(values, key=lambda value: (value is not None, (value or "").encode()))
    assert ordered(pa.array(values, pa.string())) == expected


def test_many_equal_texts_sort_like_few() -> None:
    rng = np.random.default_rng(3)
    values = pa.array([None if n == 7 else f"\u00e4{n}" for n in rng.integers(0, 50, 100_000)])
    expected = sorted(values.to_pylist(), key=lambda value: (value is not None, (value or "").encode()))
    assert ordered(values) == expected


@pytest.mark.parametrize(
    "values",
    [
        pa.array([3, None, 1], pa.int32()).cast(pa.date32()),
        pa.array([3, None, 1], pa.int64()).cast(pa.timestamp("us", "UTC")),
        pa.array([3, None, 1], pa.int64()).cast(pa.time64("us")),
        pa.array([3, None, 1], pa.int64()).cast(pa.duration("ns")),
        pa.array([b"c", None, b"a"]),
        pa.array([b"cc", None, b"aa"], pa.binary(2)),
        pa.array([3, None, 1]).cast(pa.decimal128(30, 2)),
    ],
    ids=lambda values: str(values.type),
)
def test_other_types_sort_too(values: pa.Array) -> None:
    assert list(sort_order(values)) == [1, 2, 0]


def test_booleans_sort_false_first() -> None:
    assert ordered(pa.array([True, None, False])) == [None, False, True]


@pytest.mark.parametrize("width", [3, 15, 16, 17, 32, 33, 63])
@pytest.mark.parametrize("arrow_type", [pa.int64(), pa.uint64(), pa.int32(), pa.timestamp("us")])
def test_many_numbers_of_any_range_sort_ascending(arrow_type: pa.DataType, width: int) -> None:
    number = np.dtype(np.uint64 if arrow_type == pa.uint64() else f"i{arrow_type.bit_width // 8}")
    lowest = np.iinfo(number).min
    steps = np.random.default_rng(width).integers(0, 2 ** min(width, number.itemsize * 8 - 1), 5000)
    keys = (steps.astype(number) + lowest).astype(number)
    values = pa.array(keys).view(arrow_type)
    for some in (values, pa.concat_arrays([values, pa.nulls(2, arrow_type)])):
        assert some.take(pa.array(sort_order(some))).drop_null().view(pa.array(keys).type).to_pylist() == (
            np.sort(keys).tolist()
        )
        assert some.take(pa.array(sort_order(some)))[:2].null_count == some.null_count


def test_runs_in_order_are_merged() -> None:
    values = pa.array([None, 1.5, 2.5, 9.0, None, -1.0, 2.5])
    order = sort_order(values, in_runs=True)
    assert values.take(pa.array(order)).to_pylist() == [None, None, -1.0, 1.5, 2.5, 2.5, 9.0]
