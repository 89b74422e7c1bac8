"""Numbering: numbers for the distinct values of a page, in the order in which they first occur."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.kernels.values import numbering as loops
from lance_ops.encoding.memory import empty
from lance_ops.encoding.values.values import Fixed, Variable, as_bytes
from lance_ops.encoding.values.variable import gather_values

_WORD_BITS = 64


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
    positions = empty(values.length, np.uint32)
    if isinstance(values, Fixed):
        limit = min(limit, max_bytes // (values.bits // 8), values.length)
        firsts, hashes = np.empty(limit, dtype=np.int64), np.empty(limit, dtype=np.uint64)
        words = as_bytes(values).view(np.uint64)
        count = loops.number_words(
            words=words,
            width=values.bits // _WORD_BITS,
            limit=limit,
            positions=positions,
            firsts=firsts,
            hashes=hashes,
        )
        return None if count == loops.TOO_MANY else (positions, pick_values(values, firsts[:count]))
    limit = min(limit, values.length)
    data, offsets = np.frombuffer(values.data, dtype=np.uint8), np.ascontiguousarray(values.offsets)
    items = np.empty(min(max_bytes, len(data)) + loops.SPARE_BYTES, dtype=np.uint8)
    ends, hashes = np.empty(limit + 1, dtype=np.int64), np.empty(limit, dtype=np.uint64)
    count = loops.number_strings(
        data=data,
        offsets=offsets,
        limit=limit,
        max_bytes=max_bytes,
        positions=positions,
        items=items,
        item_offsets=ends,
        hashes=hashes,
    )
    if count == loops.TOO_MANY:
        return None
    return positions, Variable(ends[: count + 1], pa.py_buffer(items[: ends[count]]))


def pick_values(values: Fixed | Variable, chosen: npt.NDArray[np.int64]) -> Fixed | Variable:
    """Return some of the values.

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
