"""Lookup of dictionary entries by position, or of one repeatedly."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.arrow_arrays import from_numpy
from lance_ops.encoding.kernels.values import lookup
from lance_ops.encoding.memory import empty
from lance_ops.encoding.values.binary import is_binary_like, is_large
from lance_ops.errors import CorruptFileError

# Where there are few values, and where a dictionary has more bytes than they, Arrow is as fast.
_FEW = 256
_MAX_OFFSET = 2**31 - 1


def look_up_entries(positions: npt.NDArray[Any], entries: pa.Array) -> pa.Array:
    """Return values by their positions.

    Args:
        positions: Shape (values,), unsigned integers.
        entries: The dictionary, of any type.

    Raises:
        CorruptFileError: A position lies outside of the dictionary.
    """
    if len(positions) >= _FEW and is_binary_like(entries.type) and not entries.null_count:
        found = _look_up_strings(positions, entries)
        if found is not None:
            return found
    require_inside(positions, len(entries))
    return pc.take(entries, from_numpy(positions), boundscheck=False)


def repeat_entry(entry: pa.Array, count: int) -> pa.Array:
    """One value, so many times.

    Args:
        entry: Shape (1,), not null.
        count: Length of the result.
    """
    data_type = entry.type
    if count >= _FEW and is_binary_like(data_type):
        word = np.dtype(np.int64 if is_large(data_type) else np.int32)
        _, offsets, data = entry.buffers()
        first, last = np.frombuffer(offsets, dtype=word)[entry.offset : entry.offset + 2].tolist()
        if word.itemsize > 4 or (last - first) * count <= _MAX_OFFSET:
            ends = pa.py_buffer(np.arange(count + 1, dtype=word) * word.type(last - first))
            values = _repeat_bytes(data, first, last, count)
            return pa.Array.from_buffers(data_type, count, [None, ends, values], null_count=0)
    if count >= _FEW and pa.types.is_primitive(data_type) and not data_type.bit_width % 8:
        width = data_type.bit_width // 8
        values = _repeat_bytes(entry.buffers()[1], entry.offset * width, (entry.offset + 1) * width, count)
        return pa.Array.from_buffers(data_type, count, [None, values], null_count=0)
    return pc.take(entry, from_numpy(np.zeros(count, dtype=np.int8)), boundscheck=False)


def _repeat_bytes(data: pa.Buffer, start: int, stop: int, count: int) -> pa.Buffer:
    size = stop - start
    out = empty(size * count, np.uint8)
    if len(out):
        out[:size] = np.frombuffer(data, dtype=np.uint8)[start:stop]
    while 0 < size < len(out):
        more = min(size, len(out) - size)
        out[size : size + more] = out[:more]
        size += more
    return pa.py_buffer(out)


def require_inside(positions: npt.NDArray[Any], entries: int) -> None:
    """Check that positions are those of entries.

    Raises:
        CorruptFileError: One is not.
    """
    if len(positions) and int(positions.max()) >= entries:
        raise CorruptFileError(f"a value points outside of its dictionary of {entries} entries")


def _look_up_strings(positions: npt.NDArray[Any], entries: pa.Array) -> pa.Array | None:
    """Return the same of strings; None where there are too many bytes for one array, or it does not pay."""
    large = is_large(entries.type)
    _, offsets, data = entries.buffers()
    word = np.dtype(np.int64 if large else np.int32)
    ends = np.frombuffer(offsets, dtype=word)[entries.offset : entries.offset + len(entries) + 1]
    first = int(ends[0])
    ends = ends.astype(np.int64) - first
    size = int(ends[-1])
    if size > len(positions) * word.itemsize:
        return None
    # Entries are read word by word, beyond their ends.
    padded = np.zeros(size + lookup.SPARE, dtype=np.uint8)
    if size:
        padded[:size] = np.frombuffer(data, dtype=np.uint8)[first : first + size]
    out_offsets = empty(len(positions) + 1, word)
    total = lookup.measure(positions=positions, ends=ends, out_offsets=out_offsets)
    if total == lookup.OUTSIDE:
        require_inside(positions, len(entries))
    if total > _MAX_OFFSET and not large:
        return None
    out = empty(total + lookup.SPARE, np.uint8)
    lookup.copy(positions=positions, ends=ends, data=padded, out=out)
    buffers = [None, pa.py_buffer(out_offsets), pa.py_buffer(out).slice(0, total)]
    return pa.Array.from_buffers(entries.type, len(positions), buffers, null_count=0)
