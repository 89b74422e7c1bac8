"""Numbering distinct values in the order in which they first occur, by what Arrow has for dictionaries."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.arrays import Bytes, Integers, Offsets, Words64
from tests.encoding.kernels.oracles.values.variable import gather

TOO_MANY = -1


def number_strings(
    *,
    data: Bytes,
    offsets: Offsets,
    limit: int,
    max_bytes: int,
    positions: npt.NDArray[np.uint32],
    items: Bytes,
    item_offsets: Integers,
) -> int:
    """Number strings; how many distinct ones there are, or `TOO_MANY`."""
    ends = offsets.astype(np.int64) - int(offsets[0])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    firsts = _number(pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, buffers), positions)
    lengths = np.diff(ends)[firsts]
    if len(firsts) > limit or int(lengths.sum()) > max_bytes:
        return TOO_MANY
    rows = item_offsets[: len(firsts) + 1]
    gather(data=data, starts=ends[firsts], lengths=lengths, out=items, out_offsets=rows)
    return len(firsts)


def number_words(
    *, words: Words64, width: int, limit: int, positions: npt.NDArray[np.uint32], firsts: Integers
) -> int:
    """Number values of a fixed number of words; how many distinct ones there are, or `TOO_MANY`."""
    values = pa.Array.from_buffers(
        pa.binary(8 * width), len(words) // width, [None, pa.py_buffer(np.ascontiguousarray(words))]
    )
    found = _number(values, positions)
    if len(found) > limit:
        return TOO_MANY
    firsts[: len(found)] = found
    return len(found)


def _number(values: pa.Array, positions: npt.NDArray[np.uint32]) -> Integers:
    encoded = values.dictionary_encode().indices.to_numpy(zero_copy_only=True)
    positions[:] = encoded
    firsts: Integers = np.unique(encoded, return_index=True)[1].astype(np.int64)
    return firsts
