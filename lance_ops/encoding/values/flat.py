"""Flat: fixed-width little-endian values in sequence, which is also how Arrow keeps them in memory.

Decoding is zero-copy: the array views the bytes that were read. Booleans are a bitmap, least significant bit
first.
"""

import numpy as np
import pyarrow as pa

from lance_ops.encoding.bits.bitmap import align_bitmap
from lance_ops.errors import CorruptFileError

# Arrow's own kernels cope with unaligned values, but other Arrow libraries refuse them when arrays change
# hands.
_MAX_ALIGNMENT = 16


def bit_width(data_type: pa.DataType) -> int:
    """Return bits of one value of a fixed-width type, 0 for any other type.

    Args:
        data_type: Any Arrow type but an extension type; a fixed-size list counts all its items.
    """
    types = pa.types
    if types.is_fixed_size_list(data_type):
        return bit_width(data_type.value_type) * int(data_type.list_size)
    if types.is_boolean(data_type):
        return 1
    if types.is_fixed_size_binary(data_type):
        return int(data_type.byte_width) * 8
    if types.is_primitive(data_type) or types.is_decimal(data_type):
        return int(data_type.bit_width)
    return 0


def decode_flat(data: pa.Buffer, data_type: pa.DataType, length: int) -> pa.Array:
    """View bytes as an array without nulls.

    Args:
        data: At least `length` values.
        data_type: A fixed-width type other than a fixed-size list.
        length: Number of values.

    Raises:
        CorruptFileError: There are too few bytes, or the type has other parts than one buffer.
    """
    if pa.types.is_dictionary(data_type):
        # Arrow ends the process when the values are missing.
        raise CorruptFileError(f"plain values cannot be of type {data_type}")
    needed = (length * bit_width(data_type) + 7) // 8
    if data.size < needed:
        raise CorruptFileError(
            f"{length} values of {data_type} need {needed} bytes, but there are {data.size}"
        )
    return pa.Array.from_buffers(data_type, length, [None, align_buffer(data, data_type)], null_count=0)


def encode_flat(array: pa.Array) -> pa.Buffer:
    """Return the value bytes of an array, in its order, nulls included with whatever they hold.

    Args:
        array: Of a fixed-width type other than a fixed-size list; may be a slice.
    """
    bits = bit_width(array.type)
    data = array.buffers()[1]
    if data is None:
        # Arrow allows empty arrays to lack their buffers.
        return pa.py_buffer(bytes((len(array) * bits + 7) // 8))
    if bits == 1:
        return align_bitmap(data, array.offset, len(array))
    width = bits // 8
    return data.slice(array.offset * width, len(array) * width)


def align_buffer(data: pa.Buffer, data_type: pa.DataType) -> pa.Buffer:
    """Return the bytes at an address that suits the type, copied if they are not."""
    width = bit_width(data_type) // 8
    alignment = min(width & -width, _MAX_ALIGNMENT)
    if pa.types.is_fixed_size_binary(data_type) or alignment <= 1 or data.address % alignment == 0:
        return data
    return pa.py_buffer(np.frombuffer(data, dtype=np.uint8).copy())
