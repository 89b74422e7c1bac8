"""Arrays and scalars are those that pyarrow makes, and no import of pandas is needed for them."""

import datetime as dt
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.encoding.arrow_arrays import from_numpy, scalar, to_numpy

NUMBERS = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)] + ["float32", "float64"]


@st.composite
def arrays(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray | None]:
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    size, step = draw(st.integers(0, 40)), draw(st.sampled_from([1, 1, 2]))
    values = rng.integers(0, 100, size * step).astype(
        draw(st.sampled_from([*NUMBERS, "bool", ">i4", "M8[us]"]))
    )
    mask = rng.random(size) < draw(st.sampled_from([0, 0.3, 1]))
    return values[::step], mask if draw(st.booleans()) else None


@given(arrays())
def test_arrays_are_those_of_pyarrow(given_arrays: tuple[np.ndarray, np.ndarray | None]) -> None:
    values, mask = given_arrays
    if not values.dtype.isnative:
        with pytest.raises(pa.ArrowNotImplementedError):
            from_numpy(values, mask=mask)
        return
    found, expected = from_numpy(values, mask=mask), pa.array(values, mask=mask)
    found.validate(full=True)
    assert found.equals(expected)
    assert found.null_count == expected.null_count


@given(arrays(), st.integers(0, 9), st.booleans())
def test_numbers_are_those_of_pyarrow(
    given_arrays: tuple[np.ndarray, np.ndarray | None], start: int, in_chunks: bool
) -> None:
    values, mask = given_arrays
    if not values.dtype.isnative:
        return
    array = pa.array(values, mask=mask)[start:]
    if in_chunks:
        array = pa.chunked_array([array[:3], array[3:]])
        expected = array.to_numpy()
    else:
        expected = array.to_numpy(zero_copy_only=False)
    found = to_numpy(array)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_no_chunks_are_no_numbers() -> None:
    found = to_numpy(pa.chunked_array([], pa.int32()))
    assert (found.dtype, found.shape) == (np.dtype(np.int32), (0,))


def test_a_type_is_cast_to_or_refused() -> None:
    assert from_numpy(np.array([1, 2]), pa.uint8()).equals(pa.array([1, 2], pa.uint8()))
    with pytest.raises(pa.ArrowInvalid):
        from_numpy(np.array([-1]), pa.uint8())


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        (None, pa.int64()),
        (None, pa.string()),
        (5, pa.int8()),
        (2**64 - 1, pa.uint64()),
        (5, pa.float64()),
        (2.5, pa.float64()),
        (2.5, pa.float32()),
        (float("nan"), pa.float64()),
        (True, pa.bool_()),
        ("", pa.string()),
        ("größe", pa.string()),
        ("a", pa.large_string()),
        (b"a", pa.binary()),
        (dt.date(2020, 1, 1), pa.date32()),
        (7, pa.timestamp("us")),
        ([1, 2], pa.list_(pa.int64())),
    ],
)
def test_scalars_are_those_of_pyarrow(value: object, data_type: pa.DataType) -> None:
    found, expected = scalar(value, data_type), pa.scalar(value, data_type)
    assert found.type == expected.type
    assert str(found) == str(expected)


@pytest.mark.parametrize(("value", "data_type"), [(300, pa.int8()), (-1, pa.uint64()), ("a", pa.int64())])
def test_values_that_do_not_fit_are_refused_as_by_pyarrow(value: object, data_type: pa.DataType) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 - whatever pyarrow raises
        pa.scalar(value, data_type)
    with pytest.raises(expected.type, match=None):
        scalar(value, data_type)


def test_pandas_is_not_imported() -> None:
    code = """
        import sys
        import numpy as np, pyarrow as pa
        from lance_ops.encoding.arrow_arrays import from_numpy, scalar, to_numpy
        for values in (np.arange(3), np.array([True, False])):
            to_numpy(from_numpy(values))
            from_numpy(values, pa.uint8(), values > 0)
        for value, data_type in ((1, pa.int64()), ("a", pa.string()), (True, pa.bool_()), (None, pa.int8())):
            scalar(value, data_type)
        assert "pandas" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
