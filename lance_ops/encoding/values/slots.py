"""Slots: the values of a leaf without its nulls, as pages store them beside their levels.

A null keeps its slot, which is blank: zeros, or a value of no bytes. What an array holds under its nulls is
not data; blank slots compress well, and give the same bytes for equal arrays.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.bits.bitmap import (
    align_bitmap,
    apply_validity,
    decode_bitmap,
    encode_bitmap,
    validity_bitmap,
)
from lance_ops.encoding.values.binary import is_binary_like, is_large
from lance_ops.encoding.values.flat import bit_width, encode_flat
from lance_ops.errors import UnsupportedTypeError

Mask = npt.NDArray[np.bool_]


def blank_slots(array: pa.Array, null: Mask | None) -> pa.Array:
    """Return an array without validity and without offset, whose null slots are blank.

    Args:
        array: The values; may be a slice, its own validity does not count.
        null: Which slots are null, None for none.

    Returns:
        The same type and length. Fixed-size lists keep the nulls of their items except for those of null
        lists, structs keep their members as they are.

    Raises:
        UnsupportedTypeError: A type that is none of a leaf.
    """
    data_type = array.type
    if null is not None and not bool(null.any()):
        null = None
    if pa.types.is_null(data_type):
        return pa.nulls(len(array))
    if pa.types.is_struct(data_type):
        members = [rebase(array.field(number)) for number in range(data_type.num_fields)]
        return pa.Array.from_buffers(data_type, len(array), [None], null_count=0, children=members)
    if pa.types.is_dictionary(data_type):
        indices = blank_slots(array.indices, null)
        return pa.DictionaryArray.from_arrays(indices, array.dictionary, safe=False)
    if pa.types.is_fixed_size_list(data_type):
        return _blank_lists(array, null)
    if is_binary_like(data_type):
        return _blank_strings(array, null)
    if bit_width(data_type):
        return _blank_flat(array, null)
    raise UnsupportedTypeError(f"values of type {data_type} have no slots")


def rebase(array: pa.Array) -> pa.Array:
    """Return the same array with an offset of zero; values of leaves are not copied."""
    if array.offset == 0:
        return array
    data_type = array.type
    is_list = pa.types.is_fixed_size_list(data_type)
    width = bit_width(data_type)
    if not is_list and not width and not is_binary_like(data_type):
        return pa.concat_arrays([array, array.slice(0, 0)])
    validity = array.buffers()[0]
    if validity is not None:
        validity = align_bitmap(validity, array.offset, len(array))
    null_count = 0 if validity is None else -1
    if is_list:
        items = rebase(_list_items(array))
        return pa.Array.from_buffers(
            data_type, len(array), [validity], null_count=null_count, children=[items]
        )
    data = [encode_flat(array)] if width else [_offsets(array), array.buffers()[2]]
    return pa.Array.from_buffers(data_type, len(array), [validity, *data], null_count=null_count)


def _list_items(array: pa.Array) -> pa.Array:
    size = array.type.list_size
    return array.values.slice(array.offset * size, len(array) * size)


def _blank_flat(array: pa.Array, null: Mask | None) -> pa.Array:
    data_type = array.type
    data = encode_flat(array)
    if null is not None:
        data = _blank_bytes(data, bit_width(data_type), null)
    return pa.Array.from_buffers(data_type, len(array), [None, data], null_count=0)


def _blank_bytes(data: pa.Buffer, bits: int, null: Mask) -> pa.Buffer:
    if bool(null.all()):
        return pa.py_buffer(np.zeros(-(-len(null) * bits // 8), dtype=np.uint8))
    if bits == 1:
        keep = np.packbits(~null, bitorder="little")
        return pa.py_buffer(np.frombuffer(data, dtype=np.uint8)[: len(keep)] & keep)
    width = bits // 8
    word = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}.get(width)
    values = np.frombuffer(data, dtype=np.uint8, count=len(null) * width)
    if word is not None:
        return pa.py_buffer(values.view(word) * (~null).view(np.uint8))
    rows = values.reshape(len(null), width).copy()
    rows[null] = 0
    return pa.py_buffer(rows.reshape(-1))


def _blank_strings(array: pa.Array, null: Mask | None) -> pa.Array:
    data_type = array.type
    offsets = _offsets(array)
    data = array.buffers()[2] or pa.py_buffer(b"")
    plain = pa.Array.from_buffers(data_type, len(array), [None, offsets, data], null_count=0)
    if null is None:
        return plain
    ends = np.frombuffer(offsets, dtype=np.int64 if is_large(data_type) else np.int32)
    if not bool(np.diff(ends)[null].any()):
        return plain
    validity = encode_bitmap(~null)
    hidden = pa.Array.from_buffers(data_type, len(array), [validity, offsets, data])
    filled = pc.fill_null(hidden, _empty(data_type))
    return pa.Array.from_buffers(data_type, len(array), [None, *filled.buffers()[1:]], null_count=0)


def _offsets(array: pa.Array) -> pa.Buffer:
    width = 8 if is_large(array.type) else 4
    offsets = array.buffers()[1]
    if offsets is None or offsets.size == 0:
        return pa.py_buffer(bytes(width))
    return offsets.slice(array.offset * width, (len(array) + 1) * width)


def _blank_lists(array: pa.Array, null: Mask | None) -> pa.Array:
    data_type = array.type
    size = data_type.list_size
    items = rebase(_list_items(array))
    if null is not None:
        hidden = np.repeat(null, size)
        validity = validity_bitmap(items)
        shown = None if validity is None else decode_bitmap(validity, len(items)) | hidden
        blank = blank_slots(items, hidden)
        items = blank if shown is None or bool(shown.all()) else apply_validity(blank, encode_bitmap(shown))
    return pa.Array.from_buffers(data_type, len(array), [None], null_count=0, children=[items])


def _empty(data_type: pa.DataType) -> pa.Scalar:
    return pa.scalar(b"" if "binary" in str(data_type) else "", data_type)
