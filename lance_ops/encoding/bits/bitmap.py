"""Bitmaps: one bit a row, least significant bit first, 1 for valid (or true)."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError


def align_bitmap(data: pa.Buffer, offset: int, length: int) -> pa.Buffer:
    """Bits `offset` to `offset + length` as a bitmap that starts at bit 0; zero-copy at byte boundaries."""
    if offset % 8 == 0:
        return data.slice(offset // 8, (length + 7) // 8)
    first = offset // 8
    last = (offset + length + 7) // 8
    bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8)[first:last], bitorder="little")
    return encode_bitmap(bits[offset % 8 : offset % 8 + length].view(np.bool_))


def encode_bitmap(mask: npt.NDArray[np.bool_] | npt.NDArray[np.uint8]) -> pa.Buffer:
    """Pack booleans, or numbers of which all but zero are true, into bits."""
    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def decode_bitmap(data: pa.Buffer, length: int) -> npt.NDArray[np.bool_]:
    """Unpack the first `length` bits into booleans."""
    return np.unpackbits(np.frombuffer(data, dtype=np.uint8), count=length, bitorder="little").view(np.bool_)


def validity_bitmap(array: pa.Array) -> pa.Buffer | None:
    """Validity of an array's own rows as a bitmap that starts at bit 0, None when no row is null."""
    if array.null_count == 0:
        return None
    data = array.buffers()[0]
    if data is None:
        # Arrays of the null type have no bitmap.
        return pa.py_buffer(bytes((len(array) + 7) // 8))
    return align_bitmap(data, array.offset, len(array))


def apply_validity(array: pa.Array, validity: pa.Buffer) -> pa.Array:
    """Apply a validity bitmap to an array without nulls and offset.

    Raises:
        CorruptFileError: The bitmap has fewer bits than the array has rows.
    """
    if validity.size * 8 < len(array):
        raise CorruptFileError(f"a validity bitmap of {validity.size} bytes cannot cover {len(array)} rows")
    if pa.types.is_null(array.type):
        return array
    if pa.types.is_fixed_size_list(array.type):
        return pa.Array.from_buffers(array.type, len(array), [validity], children=[array.values])
    if pa.types.is_dictionary(array.type):
        indices = apply_validity(array.indices, validity)
        return pa.DictionaryArray.from_arrays(indices, array.dictionary)
    if pa.types.is_struct(array.type):
        members = [array.field(number) for number in range(array.type.num_fields)]
        return pa.Array.from_buffers(array.type, len(array), [validity], children=members)
    return pa.Array.from_buffers(array.type, len(array), [validity, *array.buffers()[1:]])
