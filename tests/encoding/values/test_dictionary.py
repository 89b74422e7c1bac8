import numpy as np
import pyarrow as pa
import pytest

from lance_ops.encoding.values.dictionary import (
    compact_dictionary,
    decode_dictionary,
    decode_string_dictionary,
    encode_dictionary,
    encode_string_dictionary,
)
from lance_ops.errors import CorruptFileError


def test_few_distinct_strings_are_numbered_from_one() -> None:
    array = pa.array(["x", None, "y", "x"] * 30)
    encoded = encode_string_dictionary(array)
    assert encoded is not None
    numbers, items = encoded
    assert (numbers.type, numbers.slice(0, 4).to_pylist()) == (pa.uint8(), [1, 0, 2, 1])
    assert items.to_pylist() == ["x", "y"]
    assert decode_string_dictionary(numbers, items).equals(array)


@pytest.mark.parametrize(
    ("array", "worth_it"),
    [
        (pa.array(["x"] * 99), False),
        (pa.array(["x"] * 100), True),
        (pa.array([str(n % 99) for n in range(5000)]), True),
        (pa.array([str(n % 100) for n in range(5000)]), False),
        (pa.array([str(n // 2000) + "-" + str(n % 60) for n in range(8000)]), False),
        (pa.nulls(500, pa.string()), False),
    ],
)
def test_a_dictionary_needs_many_rows_and_few_values(array: pa.Array, worth_it: bool) -> None:
    assert (encode_string_dictionary(array) is not None) == worth_it


@pytest.mark.parametrize("index_type", [pa.int8(), pa.uint8(), pa.int32(), pa.uint64()], ids=str)
def test_arrow_dictionaries_are_read_back(index_type: pa.DataType) -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, None, 2, 1], index_type), pa.array(["a", "b", "c"]))
    encoded = encode_dictionary(array)
    assert encoded is not None
    numbers, items = encoded
    assert (numbers.null_count, items.to_pylist()) == (0, ["a", "b", "c", None])
    again = decode_dictionary(numbers, items, array.type)
    assert again.equals(array)
    assert again.type == array.type


def test_nulls_in_the_dictionary_become_null_rows() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["a", None, "c"]))
    for items in (array, decode_dictionary(pa.array([0, 1, 2]), array.dictionary, array.type)):
        encoded = encode_dictionary(items)
        assert encoded is not None
        found = decode_dictionary(*encoded, array.type)
        assert (found.null_count, found.to_pylist()) == (1, ["a", None, "c"])


def test_dictionaries_of_nothing_but_nulls() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int16()), pa.array(["a"]))
    encoded = encode_dictionary(array)
    assert encoded is not None
    assert decode_dictionary(*encoded, array.type).to_pylist() == [None, None]


def test_many_unused_entries_are_dropped_and_few_are_kept() -> None:
    few = pa.DictionaryArray.from_arrays(pa.array([2]), pa.array(["low", "middle", "high"]))
    kept = encode_dictionary(few)
    assert kept is not None
    assert kept[1].to_pylist() == ["low", "middle", "high"]
    array = pa.DictionaryArray.from_arrays(pa.array([500, 7]), pa.array([str(n) for n in range(2000)]))
    encoded = encode_dictionary(array)
    assert encoded is not None
    assert encoded[1].to_pylist() == ["7", "500"]
    assert compact_dictionary(array).to_pylist() == array.to_pylist()


def test_a_full_dictionary_with_nulls_does_not_fit() -> None:
    values = pa.array([str(n) for n in range(128)])
    full = pa.DictionaryArray.from_arrays(pa.array([*range(128), None], pa.int8()), values)
    assert encode_dictionary(full) is None
    sparse = pa.DictionaryArray.from_arrays(pa.array([*range(100), *range(50), None], pa.int8()), values)
    encoded = encode_dictionary(sparse)
    assert encoded is not None
    assert decode_dictionary(*encoded, sparse.type).to_pylist() == sparse.to_pylist()


def test_numbers_outside_of_the_dictionary_are_corrupt() -> None:
    items = pa.array(["a", "b"])
    data_type = pa.dictionary(pa.int8(), pa.string())
    for number in (-1, 2):
        with pytest.raises(CorruptFileError, match="outside"):
            decode_dictionary(pa.array([0, number], pa.int8()), items, data_type)
    with pytest.raises(CorruptFileError, match="outside"):
        decode_string_dictionary(pa.array([3], pa.uint8()), items)
    assert decode_string_dictionary(pa.array(np.array([], np.uint8)), items).to_pylist() == []
