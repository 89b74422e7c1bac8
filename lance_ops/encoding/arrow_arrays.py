"""Arrow arrays of numbers from numpy and back, and scalars, without an import of pandas.

`pyarrow.array`, `pyarrow.scalar`, `Array.to_numpy`, and comparisons with plain numbers import pandas where it
is installed, to ask whether a value is one of its own. That takes longer than most operations here.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.arrays import number_dtype

_TYPES = {
    np.dtype(name): pa.type_for_alias(name)
    for name in (
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float32",
        "float64",
    )
}


def from_numpy(
    values: npt.NDArray[Any], data_type: pa.DataType | None = None, mask: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return what `pyarrow.array` does.

    Args:
        values: Shape (n,). Numbers that are contiguous and aligned are not copied, and must not change.
        data_type: Of the result; that of the values without it.
        mask: Shape (n,): true where a value is null.

    Examples:
        >>> import numpy as np
        >>> from_numpy(np.array([1, 2, 3]), mask=np.array([False, True, False])).to_pylist()
        [1, None, 3]
    """
    is_boolean = values.dtype == np.bool_
    own_type = pa.bool_() if is_boolean else _TYPES.get(values.dtype)
    if own_type is None or values.ndim != 1 or not values.dtype.isnative:
        return pa.array(values, data_type, mask=mask)
    if data_type is not None and data_type != own_type:
        return from_numpy(values, mask=mask).cast(data_type)
    data = (
        np.packbits(values, bitorder="little") if is_boolean else np.require(values, requirements=("C", "A"))
    )
    valid, nulls = None, 0
    if mask is not None and (nulls := int(np.count_nonzero(mask))):
        valid = pa.py_buffer(np.packbits(~mask, bitorder="little"))
    return pa.Array.from_buffers(own_type, len(values), [valid, pa.py_buffer(data)], null_count=nulls)


def to_numpy(array: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return what `to_numpy(zero_copy_only=False)` does; numbers without nulls are not copied.

    Args:
        array: Of any type.

    Examples:
        >>> import numpy as np
        >>> to_numpy(from_numpy(np.array([True, False])))
        array([ True, False])
    """
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks != 1:
            is_plain = array.num_chunks > 0 and _has_numbers(array)
            return np.concatenate([*map(to_numpy, array.chunks)]) if is_plain else array.to_numpy()
        array = array.chunk(0)
    if not _has_numbers(array):
        plain: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return plain
    start, stop, data = array.offset, array.offset + len(array), array.buffers()[1]
    if array.type == pa.bool_():
        if not len(array):
            return np.zeros(0, np.bool_)
        bits = np.frombuffer(data, np.uint8)
        first = start // 8
        found = np.unpackbits(bits[first : -(-stop // 8)], bitorder="little")
        return found[start - 8 * first : stop - 8 * first].view(np.bool_)
    dtype = number_dtype(array.type)
    if not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(data, dtype, count=len(array), offset=start * dtype.itemsize)


def _has_numbers(array: pa.Array | pa.ChunkedArray) -> bool:
    return array.null_count == 0 and (array.type == pa.bool_() or array.type in _TYPES.values())


def scalar(value: Any, data_type: pa.DataType) -> pa.Scalar:
    """Return what `pyarrow.scalar` does.

    Args:
        value: A bool, a number, a string, or anything else that pyarrow takes.
        data_type: Of the result.

    Examples:
        >>> import pyarrow as pa
        >>> scalar("a", pa.string()).as_py()
        'a'
    """
    if value is None:
        return pa.nulls(1, data_type)[0]
    if type(value) is str and data_type == pa.string():
        text = value.encode()
        offsets = np.array([0, len(text)], np.int32)
        return pa.Array.from_buffers(data_type, 1, [None, pa.py_buffer(offsets), pa.py_buffer(text)])[0]
    if (type(value), data_type) == (bool, pa.bool_()) or (type(value), data_type) == (float, pa.float64()):
        return from_numpy(np.array([value]))[0]
    if type(value) is int and pa.types.is_integer(data_type):
        dtype = number_dtype(data_type)
        limits = np.iinfo(dtype)
        if limits.min <= value <= limits.max:
            return from_numpy(np.array([value], dtype))[0]
    return pa.scalar(value, data_type)
