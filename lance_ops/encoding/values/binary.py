"""Binary: strings and byte strings as end offsets and one run of bytes."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.kernels.values import end_offsets_encode, utf8
from lance_ops.encoding.memory import empty
from lance_ops.encoding.values.end_offsets import Extents, encode_extents, narrow_offsets
from lance_ops.errors import CorruptFileError, InvalidArgumentError

_OFFSETS = (np.dtype(np.int32), np.dtype(np.int64))


def is_binary_like(data_type: pa.DataType) -> bool:
    """Return whether values of the type have a length of their own."""
    types = pa.types
    return bool(
        types.is_string(data_type)
        or types.is_large_string(data_type)
        or types.is_binary(data_type)
        or types.is_large_binary(data_type)
    )


def is_large(data_type: pa.DataType) -> bool:
    """Return whether arrays of the type have 64-bit offsets."""
    types = pa.types
    return bool(
        types.is_large_string(data_type) or types.is_large_binary(data_type) or types.is_large_list(data_type)
    )


def decode_binary(
    offsets: npt.NDArray[Any],
    validity: pa.Buffer | None,
    data: pa.Buffer,
    data_type: pa.DataType,
    *,
    is_ascii: bool = False,
) -> pa.Array:
    """Build a string or binary array; the bytes are not copied.

    Args:
        offsets: Shape (n + 1,), of 32 or 64 bits, not decreasing; only the differences count.
        validity: Bitmap of the n rows, None if none is null.
        data: The bytes from `offsets[0]` on.
        data_type: string, large_string, binary or large_binary.
        is_ascii: True if the bytes are known to be ASCII.

    Raises:
        CorruptFileError: The bytes end too early, or are no UTF-8 although the type is a string.
    """
    length = len(offsets) - 1
    if data.size < int(offsets[-1] - offsets[0]):
        raise CorruptFileError("the bytes of a string column end too early")
    if not is_ascii and _is_text(data_type):
        _require_text(offsets, data)
    buffers = [validity, _arrow_offsets(offsets, large=is_large(data_type)), data]
    return pa.Array.from_buffers(data_type, length, buffers, null_count=0 if validity is None else -1)


def _arrow_offsets(offsets: npt.NDArray[Any], *, large: bool) -> pa.Buffer:
    if offsets.dtype == np.int32 and not large and not offsets[0]:
        return pa.py_buffer(offsets)
    return narrow_offsets(offsets.astype(np.int64, copy=False), large=large)


def _require_text(offsets: npt.NDArray[Any], data: pa.Buffer) -> None:
    text = np.frombuffer(data, dtype=np.uint8, count=int(offsets[-1] - offsets[0]))
    if offsets.dtype not in _OFFSETS:
        offsets = offsets.astype(np.int64)
    found = utf8.check(data=text, offsets=np.ascontiguousarray(offsets))
    if found == utf8.MALFORMED:
        raise CorruptFileError("the bytes of a string column are not UTF-8")
    if found == utf8.BEGINS_WITHIN:
        raise CorruptFileError("a string begins within a UTF-8 character")


def encode_binary(array: pa.Array) -> tuple[npt.NDArray[np.uint64], int, pa.Buffer]:
    """Split a string or binary array into what a page stores.

    Args:
        array: May be a slice; bytes that lie under null rows are dropped.

    Returns:
        The stored ends, the null adjustment, and the bytes.

    Raises:
        InvalidArgumentError: The offsets of the array leave its bytes.
    """
    extents = Extents.of_array(array, large=is_large(array.type))
    ends, adjustment, total = encode_extents([extents], [extents.measure()])
    data = array.buffers()[2]
    if not total or data is None:
        return ends, adjustment, pa.py_buffer(b"")
    if total < extents.span:
        return ends, adjustment, _compact(extents, data, total)
    return ends, adjustment, data.slice(int(extents.offsets[0]), total)


def _compact(extents: Extents, data: pa.Buffer, total: int) -> pa.Buffer:
    """Only the bytes of rows that are not null."""
    assert extents.validity is not None
    out = empty(total, np.uint8)
    written = end_offsets_encode.compact(
        out=out,
        data=np.frombuffer(data, dtype=np.uint8),
        offsets=extents.offsets,
        validity=extents.validity,
        bit=extents.bit,
    )
    if written == total:
        return pa.py_buffer(out)
    raise InvalidArgumentError("a column of strings has offsets that leave its bytes")


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))
