import numpy as np
import pyarrow as pa
import pytest

from lance_ops.encoding.values.binary import decode_binary, encode_binary, is_binary_like, is_large
from lance_ops.encoding.values.end_offsets import decode_end_offsets, encode_extents
from lance_ops.encoding.values.lists import decode_list, encode_list
from lance_ops.errors import CorruptFileError, InvalidArgumentError
from tests.support.arrays import VARIABLE_TYPES, random_array


@pytest.mark.parametrize("data_type", VARIABLE_TYPES, ids=str)
@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
def test_strings_are_read_back(data_type: pa.DataType, nulls: float) -> None:
    assert is_binary_like(data_type)
    array = random_array(data_type, 100, nulls=nulls)
    for start, length in [(0, 100), (13, 50), (7, 0)]:
        part = array.slice(start, length)
        ends, adjustment, data = encode_binary(part)
        assert adjustment == data.size + 1
        offsets, validity = decode_end_offsets(ends, adjustment, data.size, has_predecessor=False)
        again = decode_binary(offsets, validity, data, data_type)
        again.validate(full=True)
        assert again.equals(part)


def test_bytes_under_null_rows_are_dropped() -> None:
    offsets = pa.py_buffer(np.array([0, 2, 4, 5], dtype=np.int32))
    array = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), offsets, pa.py_buffer(b"abcde")])
    assert array.to_pylist() == ["ab", None, "e"]
    ends, adjustment, data = encode_binary(array)
    assert (ends.tolist(), adjustment, data.to_pybytes()) == ([2, 6, 3], 4, b"abe")


def test_offsets_that_leave_the_bytes_are_refused() -> None:
    # Arrow itself looks at the first and the last one.
    ends = pa.py_buffer(np.array([0, 7, 9, 5], dtype=np.int32))
    array = pa.Array.from_buffers(pa.binary(), 3, [pa.py_buffer(b"\x05"), ends, pa.py_buffer(b"abcde")])
    with pytest.raises(InvalidArgumentError, match="leave its bytes"):
        encode_binary(array)


def test_offsets_may_lie_at_any_address() -> None:
    raw = np.frombuffer(b"\0" + np.array([0, 2, 4, 5], dtype=np.int32).tobytes(), dtype=np.uint8)
    for shift in (0, 1, 2):
        moved = np.zeros(17 + shift, dtype=np.uint8)
        moved[shift : shift + 17] = raw
        ends = pa.py_buffer(moved).slice(1 + shift)
        array = pa.Array.from_buffers(pa.string(), 3, [None, ends, pa.py_buffer(b"abcde")])
        assert encode_binary(array)[0].tolist() == [2, 4, 5]


def test_items_under_null_rows_are_dropped() -> None:
    lists = pa.array([[1], [2, 3], [4], [5]])
    array = pa.Array.from_buffers(
        lists.type, 4, [pa.py_buffer(b"\x0d"), lists.buffers()[1]], children=[lists.values]
    ).slice(1)
    extents, items = encode_list(array)
    assert items.to_pylist() == [4, 5]
    ends, adjustment, total = encode_extents([extents], [len(items)])
    assert (ends.tolist(), adjustment, total) == ([3, 1, 2], 3, 2)


def test_damaged_strings_are_corrupt() -> None:
    offsets = np.array([0, 1, 3], dtype=np.int64)
    with pytest.raises(CorruptFileError, match="too early"):
        decode_binary(offsets, None, pa.py_buffer(b"ab"), pa.string())
    with pytest.raises(CorruptFileError, match="UTF-8"):
        decode_binary(offsets, None, pa.py_buffer(b"a\xff\xff"), pa.string())
    assert decode_binary(offsets, None, pa.py_buffer(b"a\xff\xff"), pa.binary())[1].as_py() == b"\xff\xff"


@pytest.mark.parametrize("data_type", [pa.list_(pa.int8()), pa.large_list(pa.string())], ids=str)
@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
def test_lists_are_split_and_joined(data_type: pa.DataType, nulls: float) -> None:
    array = random_array(data_type, 60, nulls=nulls)
    for start, length in [(0, 60), (13, 40), (59, 1), (7, 0)]:
        part = array.slice(start, length)
        extents, items = encode_list(part)
        ends, adjustment, total = encode_extents([extents], [len(items)])
        offsets, bitmap = decode_end_offsets(ends, adjustment, total, has_predecessor=False)
        again = decode_list(offsets, bitmap, items, data_type)
        again.validate(full=True)
        assert again.equals(part)
    assert is_large(pa.large_list(pa.int8()))
    assert not is_large(pa.list_(pa.int8()))


def test_lists_with_a_wrong_number_of_items_are_corrupt() -> None:
    with pytest.raises(CorruptFileError, match="2 items, not 3"):
        decode_list(np.array([0, 3]), None, pa.array([1, 2]), pa.list_(pa.int64()))


def test_text_is_checked_as_a_whole_and_at_the_start_of_each_string() -> None:
    data = pa.py_buffer("aébç".encode())
    assert decode_binary(np.array([0, 1, 3, 4, 6, 6]), None, data, pa.string()).to_pylist() == [
        "a",
        "é",
        "b",
        "ç",
        "",
    ]
    with pytest.raises(CorruptFileError, match="within a UTF-8 character"):
        decode_binary(np.array([0, 2, 6]), None, data, pa.string())
    with pytest.raises(CorruptFileError, match="not UTF-8"):
        decode_binary(np.array([0, 5]), None, data, pa.string())
    # What lies behind the last string does not count.
    assert decode_binary(np.array([7, 8]), None, pa.py_buffer(b"a\xff"), pa.string()).to_pylist() == ["a"]
    assert decode_binary(np.array([0, 2]), None, data, pa.binary()).to_pylist() == [b"a\xc3"]


@pytest.mark.parametrize("data_type", VARIABLE_TYPES, ids=str)
def test_offsets_of_either_width_will_do(data_type: pa.DataType) -> None:
    for word in (np.int32, np.int64):
        for first in (0, 5):
            array = decode_binary(
                np.array([0, 1, 3], word) + word(first), None, pa.py_buffer(b"abc"), data_type
            )
            array.validate(full=True)
            assert array.cast(pa.binary()).to_pylist() == [b"a", b"bc"]
