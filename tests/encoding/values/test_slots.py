import numpy as np
import pyarrow as pa
import pytest

from lance_ops.encoding.values.slots import blank_slots, rebase
from lance_ops.errors import UnsupportedTypeError
from tests.support.arrays import (
    DICTIONARY_TYPES,
    FIXED_SIZE_LIST_TYPES,
    FLAT_TYPES,
    VARIABLE_TYPES,
    random_array,
)

LEAVES = [*FLAT_TYPES, *VARIABLE_TYPES, *FIXED_SIZE_LIST_TYPES]


@pytest.mark.parametrize("data_type", LEAVES, ids=str)
@pytest.mark.parametrize("start", [0, 3, 8])
def test_values_stay_and_nulls_are_blank(data_type: pa.DataType, start: int) -> None:
    array = random_array(data_type, 50, nulls=0.0, seed=4).slice(start)
    null = np.arange(len(array)) % 3 == 1
    blank = blank_slots(array, null)
    assert (blank.type, blank.offset, blank.null_count) == (data_type, 0, 0)
    pairs = list(zip(blank, array, null, strict=True))
    assert all(value.equals(other) for value, other, is_null in pairs if not is_null)
    blanks = [value for value, _, is_null in pairs if is_null]
    assert all(value.equals(blanks[0]) for value in blanks)


@pytest.mark.parametrize("data_type", LEAVES, ids=str)
def test_without_nulls_nothing_is_copied(data_type: pa.DataType) -> None:
    array = random_array(data_type, 64, nulls=0.0, seed=1)
    before = pa.total_allocated_bytes()
    blank = blank_slots(array.slice(8), np.zeros(56, dtype=np.bool_))
    assert blank.equals(array.slice(8))
    assert pa.total_allocated_bytes() == before


@pytest.mark.parametrize("data_type", DICTIONARY_TYPES, ids=str)
def test_dictionaries_keep_their_values(data_type: pa.DataType) -> None:
    array = random_array(data_type, 20, nulls=0.5, seed=3)
    blank = blank_slots(array, np.asarray(array.is_null()))
    assert blank.dictionary.equals(array.dictionary)
    assert blank.indices.null_count == 0


def test_what_lies_under_nulls_does_not_show() -> None:
    hidden = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"ab")]
    )
    blank = blank_slots(hidden, np.array([False, True]))
    assert blank.to_pylist() == ["a", ""]
    assert blank.buffers()[2].to_pybytes()[:2] == b"a"


def test_members_of_structs_stay_as_they_are() -> None:
    array = pa.StructArray.from_arrays([pa.array([1, None, 3])], ["a"], mask=pa.array([False, False, True]))
    assert blank_slots(array[1:], np.array([False, True])).to_pylist() == [{"a": None}, {"a": 3}]


@pytest.mark.parametrize("data_type", [*LEAVES, pa.list_(pa.int8()), pa.struct([("a", pa.int8())])], ids=str)
def test_arrays_can_begin_at_zero(data_type: pa.DataType) -> None:
    array = random_array(data_type, 40, nulls=0.3, seed=9).slice(5, 30)
    moved = rebase(array)
    assert moved.offset == 0
    assert moved.equals(array)


def test_types_that_are_no_leaf_are_refused() -> None:
    with pytest.raises(UnsupportedTypeError, match="no slots"):
        blank_slots(pa.array([[1]]), None)
