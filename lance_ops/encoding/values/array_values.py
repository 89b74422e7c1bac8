"""Array values: from Arrow arrays to the values that pages compress; `values.to_arrow` goes back."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.bits.bitmap import decode_bitmap, validity_bitmap
from lance_ops.encoding.values.binary import is_binary_like, is_large
from lance_ops.encoding.values.fixed_size_list import encode_fixed_size_list
from lance_ops.encoding.values.flat import bit_width, encode_flat
from lance_ops.encoding.values.values import Fixed, Lists, Nulls, Packed, Values, Variable
from lance_ops.errors import UnsupportedTypeError


def from_arrow(array: pa.Array) -> Values:
    """View an array as values; the bytes are not copied, but booleans take a byte each.

    Args:
        array: Of any type but lists, maps and dictionaries. Nulls count for nothing, except for those of the
            items of fixed-size lists.

    Raises:
        UnsupportedTypeError: Another type.
    """
    data_type = array.type
    if pa.types.is_null(data_type):
        return Nulls(len(array))
    if is_binary_like(data_type):
        return _variable(array)
    if pa.types.is_fixed_size_list(data_type):
        items = encode_fixed_size_list(array)
        validity = validity_bitmap(items)
        valid = None if validity is None else decode_bitmap(validity, len(items))
        return Lists(data_type.list_size, len(array), from_arrow(items), valid)
    if pa.types.is_struct(data_type):
        members = (array.field(number) for number in range(data_type.num_fields))
        return Packed(len(array), tuple(from_arrow(member) for member in members))
    bits = bit_width(data_type)
    if bits == 0:
        raise UnsupportedTypeError(f"values of type {data_type} cannot be stored next to each other")
    data = encode_flat(array)
    if bits == 1:
        return Fixed(1, len(array), decode_bitmap(data, len(array)))
    return Fixed(bits, len(array), np.frombuffer(data, dtype=np.uint8))


def fixed_bytes(values: Fixed) -> npt.NDArray[np.uint8]:
    """Return the bytes of values; single bits take a byte each."""
    if isinstance(values.data, np.ndarray):
        return np.ascontiguousarray(values.data).reshape(-1).view(np.uint8)
    return np.frombuffer(values.data, dtype=np.uint8)


def _variable(array: pa.Array) -> Variable:
    word = np.int64 if is_large(array.type) else np.int32
    _, starts, data = array.buffers()
    if starts is None or len(array) == 0:
        return Variable(np.zeros(len(array) + 1, dtype=np.int64), pa.py_buffer(b""))
    offsets = np.frombuffer(starts, dtype=word, count=len(array) + 1, offset=array.offset * word().itemsize)
    if data is None:
        data = pa.py_buffer(b"")
    first, last = int(offsets[0]), int(offsets[-1])
    # Compiled loops want whole words.
    return Variable(offsets if offsets.flags.aligned else offsets.copy(), data.slice(first, last - first))
