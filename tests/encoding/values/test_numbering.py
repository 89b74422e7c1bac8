import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_ops.encoding.values.array_values import from_arrow
from lance_ops.encoding.values.numbering import number_distinct, pick_values
from lance_ops.encoding.values.values import Fixed, Variable, to_arrow

MANY = 1 << 30


def number(
    array: pa.Array, limit: int = MANY, max_bytes: int = MANY
) -> tuple[list[int], list[object]] | None:
    values = from_arrow(array)
    assert isinstance(values, Fixed | Variable)
    found = number_distinct(values, limit, max_bytes)
    if found is None:
        return None
    return found[0].tolist(), to_arrow(found[1], array.type).to_pylist()


def expected(values: list[object]) -> tuple[list[int], list[object]]:
    numbers: dict[object, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values], list(numbers)


short = st.sampled_from([b"", b"\0", b"a", b"a\0", b"b" * 8, b"b" * 9, b"b" * 8 + b"c", b"d" * 16, b"d" * 17])


@given(st.lists(short | st.binary(max_size=40), min_size=1))
def test_strings_are_numbered_as_they_come(values: list[bytes]) -> None:
    assert number(pa.array(values, pa.large_binary())) == expected(list(values))


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3), min_size=1))
def test_numbers_are_numbered_as_they_come(values: list[int]) -> None:
    assert number(pa.array(values, pa.int64())) == expected(list(values))


@given(
    st.lists(st.binary(min_size=16, max_size=16) | st.sampled_from([b"x" * 16, b"x" * 15 + b"y"]), min_size=1)
)
def test_wide_values_are_numbered_as_they_come(values: list[bytes]) -> None:
    assert number(pa.array(values, pa.binary(16))) == expected(list(values))


@pytest.mark.parametrize("distinct", [511, 512, 513, 2048, 2049, 70_000])
def test_as_many_distinct_values_as_there_are(distinct: int) -> None:
    order = np.random.default_rng(3).permutation(np.arange(2 * distinct) % distinct)
    for array in (pa.array(order), pa.array([f"a name before {value}" for value in order])):
        assert number(array) == expected(array.to_pylist())


def test_strings_of_a_slice() -> None:
    array = pa.array(["zzz", "a", "b", "a", "yyy"]).slice(1, 3)
    assert number(array) == ([0, 1, 0], ["a", "b"])


@pytest.mark.parametrize("array", [pa.array([5, 6, 5, 7]), pa.array(["five", "six", "five", "seven"])])
def test_too_many_distinct_values_are_not_numbered(array: pa.Array) -> None:
    assert number(array, limit=3) == expected(array.to_pylist())
    assert number(array, limit=2) is None
    assert number(array, limit=0) is None


def test_too_many_bytes_are_not_numbered() -> None:
    strings, numbers = pa.array(["abc", "de", "abc", "f"]), pa.array([1, 2, 1, 3])
    assert number(strings, max_bytes=6) == expected(strings.to_pylist())
    assert number(strings, max_bytes=5) is None
    assert number(numbers, max_bytes=24) == expected(numbers.to_pylist())
    assert number(numbers, max_bytes=23) is None


def test_values_at_positions() -> None:
    chosen = np.array([3, 0, 3])
    for array in (pa.array(["ab", "", "c", "def"]), pa.array([1, 2, 3, 4])):
        values = from_arrow(array)
        assert isinstance(values, Fixed | Variable)
        assert to_arrow(pick_values(values, chosen), array.type) == array.take(pa.array(chosen))
