"""Values, decoded, before they become Arrow arrays: what is left of a page without its compressions."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.bits.bitmap import apply_validity, decode_bitmap, encode_bitmap
from lance_ops.encoding.values.binary import decode_binary, is_binary_like
from lance_ops.encoding.values.fixed_size_list import decode_fixed_size_list
from lance_ops.encoding.values.flat import bit_width, decode_flat
from lance_ops.errors import CorruptFileError

_MAX_LENGTH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Fixed:
    """Values of one width.

    Attributes:
        bits: Of a value.
        length: Number of values.
        data: Their bytes; of single bits, a bitmap if it is a buffer, else one boolean each.
    """

    bits: int
    length: int
    data: npt.NDArray[Any] | pa.Buffer


@dataclass(frozen=True, slots=True)
class Variable:
    """Values with a length of their own.

    Attributes:
        offsets: Shape (n + 1,), of 32 or 64 bits, not decreasing; only the differences count.
        data: The bytes from `offsets[0]` on.
        is_ascii: True if all bytes are known to be ASCII, and need not be looked at for that.
    """

    offsets: npt.NDArray[Any]
    data: pa.Buffer
    is_ascii: bool = False

    @property
    def length(self) -> int:
        """Number of values."""
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class Lists:
    """Fixed-size lists.

    Attributes:
        size: Items of each.
        length: Number of lists.
        items: Their items.
        valid: Which items are not null, None when all are.
    """

    size: int
    length: int
    items: "Values"
    valid: npt.NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True)
class Packed:
    """Structs.

    Attributes:
        length: Number of structs.
        members: Values of each member.
    """

    length: int
    members: "tuple[Values, ...]"


@dataclass(frozen=True, slots=True)
class Nulls:
    """Nothing but nulls.

    Attributes:
        length: How many.
    """

    length: int


Values: TypeAlias = Fixed | Variable | Lists | Packed | Nulls


def as_bytes(values: Fixed) -> npt.NDArray[np.uint8]:
    """Return the bytes of values of whole bytes, no more than they take.

    Raises:
        CorruptFileError: There are too few.
    """
    if isinstance(values.data, pa.Buffer):
        data = np.frombuffer(values.data, dtype=np.uint8)
    else:
        data = np.ascontiguousarray(values.data).reshape(-1).view(np.uint8)
    size = values.length * values.bits // 8
    if len(data) < size:
        raise CorruptFileError(f"{values.length} values of {values.bits} bits in {len(data)} bytes")
    return data[:size]


def as_words(values: Fixed) -> npt.NDArray[Any]:
    """Return values of 8, 16, 32 or 64 bits as unsigned integers."""
    words = as_bytes(values).view(f"<u{values.bits // 8}")
    return words if words.flags.aligned else words.copy()


def as_bits(values: Fixed) -> npt.NDArray[np.uint8]:
    """Return values of single bits as the bytes of a bitmap."""
    if isinstance(values.data, pa.Buffer):
        return np.frombuffer(values.data, dtype=np.uint8)[: (values.length + 7) // 8]
    return np.packbits(values.data, bitorder="little")


def as_flags(values: Fixed) -> npt.NDArray[np.bool_]:
    """Return values of single bits as one boolean each."""
    if isinstance(values.data, pa.Buffer):
        return decode_bitmap(values.data, values.length)
    return np.asarray(values.data, dtype=np.bool_)


def to_arrow(values: Values, data_type: pa.DataType) -> pa.Array:
    """Build an array.

    Args:
        values: Of any kind.
        data_type: Storage type.

    Raises:
        CorruptFileError: The values cannot be of that type.
    """
    if values.length > _MAX_LENGTH:
        raise CorruptFileError(f"{values.length} values are too many for one array")
    if isinstance(values, Nulls):
        return null_array(data_type, values.length)
    if isinstance(values, Variable):
        if not is_binary_like(data_type):
            raise CorruptFileError(f"values of variable length cannot be of type {data_type}")
        return decode_binary(values.offsets, None, values.data, data_type, is_ascii=values.is_ascii)
    if isinstance(values, Lists):
        if not pa.types.is_fixed_size_list(data_type) or data_type.list_size != values.size:
            raise CorruptFileError(f"lists of {values.size} items cannot be of type {data_type}")
        items = to_arrow(values.items, data_type.value_type)
        if values.valid is not None:
            items = apply_validity(items, encode_bitmap(values.valid))
        return decode_fixed_size_list(items, data_type)
    if isinstance(values, Packed):
        if not pa.types.is_struct(data_type) or data_type.num_fields != len(values.members):
            raise CorruptFileError(f"structs of {len(values.members)} members cannot be of type {data_type}")
        members = [to_arrow(member, data_type[n].type) for n, member in enumerate(values.members)]
        return pa.Array.from_buffers(data_type, values.length, [None], null_count=0, children=members)
    return _fixed_to_arrow(values, data_type)


def _fixed_to_arrow(values: Fixed, data_type: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(data_type) and values.bits == 8:
        # Where bits cannot be addressed, a boolean takes a byte.
        flags = values.data if isinstance(values.data, np.ndarray) else np.frombuffer(values.data, np.uint8)
        return to_arrow(Fixed(1, values.length, flags.reshape(-1)[: values.length] != 0), data_type)
    if values.bits != bit_width(data_type):
        raise CorruptFileError(f"values of {values.bits} bits cannot be of type {data_type}")
    if pa.types.is_fixed_size_list(data_type):
        size = data_type.list_size
        items = Fixed(values.bits // size, values.length * size, values.data)
        return decode_fixed_size_list(to_arrow(items, data_type.value_type), data_type)
    if isinstance(values.data, pa.Buffer):
        data = values.data
    elif values.bits == 1:
        data = encode_bitmap(values.data)
    else:
        data = pa.py_buffer(np.ascontiguousarray(values.data))
    return decode_flat(data, data_type, values.length)


def add_validity(array: pa.Array, valid: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Apply a null mask to an array without nulls and offset."""
    if valid is None:
        return array
    if pa.types.is_struct(array.type):
        members = [array.field(number) for number in range(array.type.num_fields)]
        return pa.Array.from_buffers(array.type, len(array), [encode_bitmap(valid)], children=members)
    return apply_validity(array, encode_bitmap(valid))


def null_array(data_type: pa.DataType, length: int) -> pa.Array:
    """Return an array of nulls.

    Zeros come from fresh pages of the operating system, which cost nothing until they are used: a
    page that claims to have billions of nulls takes no memory.
    """
    validity = _zeros(length)
    if pa.types.is_fixed_size_list(data_type):
        items = null_array(data_type.value_type, length * data_type.list_size)
        return pa.Array.from_buffers(data_type, length, [validity], null_count=length, children=[items])
    if is_binary_like(data_type):
        large = pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type)
        offsets = _zeros((length + 1) * (64 if large else 32))
        return pa.Array.from_buffers(
            data_type, length, [validity, offsets, pa.py_buffer(b"")], null_count=length
        )
    bits = bit_width(data_type)
    if bits == 0:
        return pa.nulls(length, data_type)
    return pa.Array.from_buffers(data_type, length, [validity, _zeros(length * bits)], null_count=length)


def _zeros(bits: int) -> pa.Buffer:
    return pa.py_buffer(np.zeros((bits + 7) // 8, dtype=np.uint8))
