import numpy as np
import pyarrow as pa
import pytest

from lance_ops.encoding.bits.bitmap import (
    align_bitmap,
    apply_validity,
    decode_bitmap,
    encode_bitmap,
    validity_bitmap,
)
from lance_ops.encoding.values.fixed_size_list import (
    contains_nested,
    decode_fixed_size_list,
    encode_fixed_size_list,
    rebase_nested,
)
from lance_ops.encoding.values.flat import align_buffer, bit_width, decode_flat, encode_flat
from lance_ops.errors import CorruptFileError
from tests.support.arrays import FLAT_TYPES, random_array


@pytest.mark.parametrize("data_type", FLAT_TYPES, ids=str)
def test_values_are_read_back(data_type: pa.DataType) -> None:
    array = random_array(data_type, 100, nulls=0)
    for start, length in [(0, 100), (3, 50), (8, 9), (99, 1), (5, 0)]:
        part = array.slice(start, length)
        data = encode_flat(part)
        assert data.size == (length * bit_width(data_type) + 7) // 8
        assert decode_flat(data, data_type, length).equals(part)


def test_decoding_does_not_copy() -> None:
    data = pa.py_buffer(np.arange(100))
    assert decode_flat(data, pa.int64(), 100).buffers()[1].address == data.address


def test_unaligned_values_are_copied() -> None:
    data = pa.py_buffer(bytes(range(33)))
    odd = data.slice(1 + (-data.address) % 16)
    assert align_buffer(odd, pa.int8()).address == odd.address
    assert align_buffer(odd, pa.binary(3)).address == odd.address
    for data_type in (pa.int16(), pa.int64(), pa.decimal128(5, 1)):
        moved = align_buffer(odd, data_type)
        assert moved.address % (data_type.bit_width // 8) == 0
        assert moved.equals(odd)


def test_too_few_bytes_are_corrupt() -> None:
    with pytest.raises(CorruptFileError, match="16 bytes"):
        decode_flat(pa.py_buffer(bytes(15)), pa.int64(), 2)
    with pytest.raises(CorruptFileError):
        decode_flat(pa.py_buffer(b"\0"), pa.bool_(), 9)


def test_empty_arrays_may_lack_a_buffer() -> None:
    assert encode_flat(pa.Array.from_buffers(pa.int32(), 0, [None, None])).size == 0


def test_bitmaps_start_at_any_bit() -> None:
    bits = np.random.default_rng(0).random(50) < 0.5
    data = encode_bitmap(bits)
    for start in range(20):
        assert decode_bitmap(align_bitmap(data, start, 30), 30).tolist() == bits[start : start + 30].tolist()
    assert align_bitmap(data, 8, 20).address == data.address + 1


@pytest.mark.parametrize(
    "data_type",
    [pa.int8(), pa.bool_(), pa.list_(pa.int8(), 2), pa.dictionary(pa.int8(), pa.string())],
    ids=str,
)
def test_validity_is_taken_off_and_put_back(data_type: pa.DataType) -> None:
    array = random_array(data_type, 30, nulls=0.4).slice(3, 20)
    plain = random_array(data_type, 20, nulls=0)
    bitmap = validity_bitmap(array)
    assert bitmap is not None
    again = apply_validity(plain, bitmap)
    assert again.is_valid().equals(array.is_valid())
    assert again.drop_null().to_pylist() == plain.filter(array.is_valid()).to_pylist()
    with pytest.raises(CorruptFileError):
        apply_validity(plain, bitmap.slice(0, 2))


def test_validity_of_arrays_without_and_of_nothing_but_nulls() -> None:
    assert validity_bitmap(pa.array([1, 2])) is None
    assert validity_bitmap(pa.array([1, 2, None]).slice(0, 2)) is None
    bitmap = validity_bitmap(pa.nulls(9))
    assert bitmap is not None
    assert bitmap.to_pybytes() == b"\0\0"
    assert apply_validity(pa.nulls(9), bitmap).null_count == 9


def test_items_of_fixed_size_lists_are_split_and_grouped() -> None:
    array = random_array(pa.list_(pa.int8(), 3), 20, nulls=0)
    items = encode_fixed_size_list(array.slice(5, 4))
    assert items.equals(array.values.slice(15, 12))
    assert decode_fixed_size_list(items, array.type).equals(array.slice(5, 4))
    with pytest.raises(CorruptFileError, match="rows of 3"):
        decode_fixed_size_list(items.slice(1), array.type)


def test_nested_fixed_size_lists_lose_their_offsets() -> None:
    nested = pa.list_(pa.list_(pa.int16(), 2), 3)
    assert contains_nested(pa.struct([("x", pa.list_(nested))]))
    assert not contains_nested(
        pa.list_(
            pa.list_(pa.int16()),
        )
    )
    array = random_array(nested, 20, nulls=0)
    part = rebase_nested(array.slice(7))
    assert part.take([0, 5]).to_pylist() == [array[7].as_py(), array[12].as_py()]
    flat = pa.array([1, 2, 3]).slice(1)
    assert rebase_nested(flat) is flat
