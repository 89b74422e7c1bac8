"""Numbering: numbers for the distinct values of a page, in the order in which they first occur."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding import kernels
from lance_ops.encoding.memory import empty
from lance_ops.encoding.values.values import Fixed, Variable, as_bytes, to_arrow
from lance_ops.encoding.values.variable import gather_values

_KERNEL = "numbering"
_WORD_BITS = 64
_SPARE_BYTES = 8


def number_distinct(
    values: Fixed | Variable, limit: int, max_bytes: int
) -> tuple[npt.NDArray[np.uint32], Fixed | Variable] | None:
    """Number the distinct values.

    Args:
        values: Strings, or numbers of 64 or 128 bits.
        limit: How many distinct ones there may be.
        max_bytes: How many bytes the distinct ones may have.

    Returns:
        The number of each value, and the distinct values; None if there are too many of them.
    """
    if limit < 1:
        return None
    kernel = kernels.load(_KERNEL)
    if kernel is None:
        return _number_slowly(values, limit, max_bytes)
    positions = empty(values.length, np.uint32)
    if isinstance(values, Fixed):
        limit = min(limit, max_bytes // (values.bits // 8), values.length)
        firsts, hashes = np.empty(limit, dtype=np.int64), np.empty(limit, dtype=np.uint64)
        words = as_bytes(values).view(np.uint64)
        count = kernel.number_words(words, values.bits // _WORD_BITS, limit, positions, firsts, hashes)
        return None if count == kernel.TOO_MANY else (positions, pick_values(values, firsts[:count]))
    limit = min(limit, values.length)
    data, offsets = np.frombuffer(values.data, dtype=np.uint8), np.ascontiguousarray(values.offsets)
    items = np.empty(min(max_bytes, len(data)) + _SPARE_BYTES, dtype=np.uint8)
    ends, hashes = np.empty(limit + 1, dtype=np.int64), np.empty(limit, dtype=np.uint64)
    count = kernel.number_strings(data, offsets, limit, max_bytes, positions, items, ends, hashes)
    if count == kernel.TOO_MANY:
        return None
    return positions, Variable(ends[: count + 1], pa.py_buffer(items[: ends[count]]))


def pick_values(values: Fixed | Variable, chosen: npt.NDArray[np.int64]) -> Fixed | Variable:
    """Some of the values.

    Args:
        values: Strings, or values of whole bytes.
        chosen: Their positions.
    """
    if isinstance(values, Fixed):
        rows = as_bytes(values).view(np.dtype((np.void, values.bits // 8)))
        return Fixed(values.bits, len(chosen), rows[chosen].view(np.uint8))
    first = int(values.offsets[0])
    starts = values.offsets[chosen].astype(np.int64) - first
    ends = values.offsets[chosen + 1].astype(np.int64) - first
    return gather_values(np.frombuffer(values.data, dtype=np.uint8), starts, ends - starts)


def _number_slowly(
    values: Fixed | Variable, limit: int, max_bytes: int
) -> tuple[npt.NDArray[np.uint32], Fixed | Variable] | None:
    encoded = _plain_array(values).dictionary_encode()
    if len(encoded.dictionary) > limit:
        return None
    numbers: npt.NDArray[Any] = encoded.indices.to_numpy(zero_copy_only=True)
    distinct = pick_values(values, np.unique(numbers, return_index=True)[1])
    size = len(as_bytes(distinct)) if isinstance(distinct, Fixed) else distinct.data.size
    return None if size > max_bytes else (numbers.astype(np.uint32), distinct)


def _plain_array(values: Fixed | Variable) -> pa.Array:
    # Arrow numbers the distinct bytes of any type, but knows some of the types better than others.
    if isinstance(values, Variable):
        return to_arrow(values, pa.large_binary())
    return to_arrow(values, pa.int64() if values.bits == _WORD_BITS else pa.binary(values.bits // 8))
