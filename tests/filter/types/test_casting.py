"""Casts: rounding, range, formats and time zones."""

import math

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import PredicateError
from lance_ops.filter.types.casting import can_cast, cast_can_fail, cast_values

DECIMAL = pa.decimal128(5, 1)
PARIS = pa.timestamp("s", "Europe/Paris")


def cast(values, source, target, *, lenient=False):
    array = pa.array(values, pa.float32() if source == pa.float16() else source)
    return cast_values(array, source, target, lenient=lenient).to_pylist()


@pytest.mark.parametrize(
    ("values", "source", "target", "expected"),
    [
        ([1.9, -1.9, None], pa.float64(), pa.int8(), [1, -1, None]),
        ([True, None], pa.bool_(), pa.float32(), [1.0, None]),
        ([0.0, -0.0, 0.5, math.nan], pa.float64(), pa.bool_(), [False, False, True, True]),
        ([2**53 + 1], pa.int64(), pa.float64(), [float(2**53)]),
        (["1.25", "-1.25"], pa.utf8(), DECIMAL, ["1.3", "-1.3"]),
        ([1.25, -0.15], pa.float64(), DECIMAL, ["1.3", "-0.2"]),
        ([3, None], pa.int64(), DECIMAL, ["3.0", None]),
        ([" yes ", "OFF", "1", None], pa.utf8(), pa.bool_(), [True, False, True, None]),
        (["+5", "-5"], pa.utf8(), pa.int16(), [5, -5]),
        ([".5", "5.", "+inf", "1E2"], pa.utf8(), pa.float64(), [0.5, 5.0, math.inf, 100.0]),
        (
            [1.0, 0.1, 1e16, 1e-5, 1e-6, -0.0],
            pa.float64(),
            pa.utf8(),
            ["1.0", "0.1", "1e16", "0.00001", "1e-6", "-0.0"],
        ),
        ([0.1, 1e13, 1e-7], pa.float32(), pa.utf8(), ["0.1", "1e13", "1e-7"]),
        ([1.0, float(np.float16(0.1))], pa.float16(), pa.utf8(), ["1", "0.099975586"]),
        ([math.nan, math.inf, -math.inf], pa.float64(), pa.utf8(), ["NaN", "inf", "-inf"]),
        ([0, 1_500_000, -1], pa.timestamp("us"), pa.timestamp("s"), [0, 1, 0]),
        ([-1, 86_400_000_000], pa.timestamp("us"), pa.date32(), [-1, 1]),
        (
            [0, 1, 1000, 123_456_000],
            pa.timestamp("ns"),
            pa.utf8(),
            [
                "1970-01-01T00:00:00",
                "1970-01-01T00:00:00.000000001",
                "1970-01-01T00:00:00.000001",
                "1970-01-01T00:00:00.123456",
            ],
        ),
        ([0], PARIS, pa.utf8(), ["1970-01-01T01:00:00+01:00"]),
        ([0], pa.timestamp("s", "UTC"), pa.utf8(), ["1970-01-01T00:00:00Z"]),
        ([0], pa.timestamp("s", "-09:30"), pa.utf8(), ["1969-12-31T14:30:00-09:30"]),
        ([3600], pa.timestamp("s"), PARIS, [0]),
        ([0], PARIS, pa.timestamp("s"), [0]),
        ([82_800], PARIS, pa.date32(), [1]),
        ([0], pa.timestamp("s"), pa.timestamp("s", "+05:30"), [-19_800]),
        (["2020-1-2", "20200102", "2020-01-02T10:00:00"], pa.utf8(), pa.date32(), [18263] * 3),
        (
            ["1970-01-01T00:00:01Z", "1970-01-01 01:00:01+01:00", "1970-01-01 00:00:01"],
            pa.utf8(),
            pa.timestamp("s"),
            [1, 1, 1],
        ),
        (["1970-01-01 01:00:01", "1970-01-01T00:00:01Z"], pa.utf8(), PARIS, [1, 1]),
        (["01:02:03.25"], pa.utf8(), pa.time32("ms"), [3_723_250]),
        ([3_723_250_000], pa.time64("us"), pa.utf8(), ["01:02:03.250"]),
        ([b"ab", None], pa.binary(2), pa.utf8(), ["ab", None]),
        ([5], pa.int64(), pa.date32(), [5]),
        ([5], pa.date32(), pa.date64(), [5 * 86_400_000]),
        ([None], pa.null(), pa.int8(), [None]),
    ],
)
def test_values(values, source, target, expected):
    if source == pa.utf8() and target == DECIMAL:
        found = [str(value) for value in cast(values, source, target)]
    else:
        array = pa.array(values, pa.float32() if source == pa.float16() else source)
        result = cast_values(array, source, target)
        if pa.types.is_temporal(target):
            width = pa.int32() if target.bit_width == 32 else pa.int64()
            found = result.cast(width).to_pylist()
        else:
            found = result.to_pylist()
        if target == DECIMAL:
            found = [None if value is None else str(value) for value in found]
    assert found == expected


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [
        (300, pa.int64(), pa.int8()),
        (-1, pa.int8(), pa.uint64()),
        (math.nan, pa.float64(), pa.int64()),
        (math.inf, pa.float32(), pa.int8()),
        (9.3e18, pa.float64(), pa.int64()),
        (12345.6, pa.float64(), DECIMAL),
        (math.nan, pa.float64(), DECIMAL),
        ("12345.6", pa.utf8(), DECIMAL),
        ("0x10", pa.utf8(), pa.int32()),
        (" 1", pa.utf8(), pa.int32()),
        ("99999999999", pa.utf8(), pa.int32()),
        ("1,5", pa.utf8(), pa.float64()),
        ("maybe", pa.utf8(), pa.bool_()),
        ("2020-02-30", pa.utf8(), pa.date32()),
        ("2020-02-03 25:00:00", pa.utf8(), pa.timestamp("us")),
        ("2020-02-03 05:00:00 Mars/Olympus", pa.utf8(), pa.timestamp("us")),
        ("24:00", pa.utf8(), pa.time64("us")),
        (b"\xff", pa.binary(), pa.utf8()),
        (2**31 - 1, pa.date32(), pa.timestamp("us")),
        (2**62, pa.timestamp("s"), pa.timestamp("ns")),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_or_null(value, source, target):
    good = cast([None], source, target)
    array = [None, value, None]
    assert cast_can_fail(source, target)
    with pytest.raises(PredicateError, match="does not fit"):
        cast(array, source, target)
    assert cast(array, source, target, lenient=True) == good * 3


def test_lenient_casts_keep_every_good_value():
    texts = [str(number) if number % 7 else "x" for number in range(1000)]
    expected = [number if number % 7 else None for number in range(1000)]
    assert cast(texts, pa.utf8(), pa.int32(), lenient=True) == expected


def test_there_is_no_cast_between_strangers():
    assert not can_cast(pa.list_(pa.int8()), pa.utf8())
    assert not can_cast(pa.bool_(), pa.date32())
    with pytest.raises(PredicateError, match="cannot be cast"):
        cast([True], pa.bool_(), pa.date32())


def test_of_two_readings_of_a_wall_clock_time_the_earlier_is_taken():
    # 2020-10-25 02:30 comes twice in Paris, 2020-03-29 02:30 never.
    twice, never = 1603593000, 1585449000
    assert cast_values(pa.array([twice, never], pa.timestamp("s")), pa.timestamp("s"), PARIS).cast(
        pa.int64()
    ).to_pylist() == [twice - 7200, 1585443599]
