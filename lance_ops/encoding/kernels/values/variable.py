"""Chunks of values of variable width."""

import numpy as np
from numba import njit, types

from lance_ops.encoding.kernels.words import BYTES, READONLY_BYTES, copy_bytes, load_u32, load_u64

_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_OFFSETS = (types.Array(types.int32, 1, "C"), types.Array(types.int64, 1, "C"))
_MALFORMED = -1

_DECODED = (READONLY_BYTES, _INTEGERS, _INTEGERS, _INTEGERS, types.int64, BYTES)


@njit([types.int64(*_DECODED, offsets) for offsets in _OFFSETS], cache=True, nogil=True)
def decode(data, starts, sizes, counts, width, out, out_offsets):
    """Join the values of chunks that lie within the data and have room for their offsets.

    Returns:
        The bytes of all values, or -1 when offsets decrease or leave their chunk.
    """
    at = 0
    value = 0
    for chunk in range(len(counts)):
        start = starts[chunk]
        count = counts[chunk]
        head = (count + 1) * width
        before = head
        first = head
        for number in range(count + 1):
            if width == 4:
                offset = np.int64(load_u32(data, start + number * 4))
            else:
                offset = np.int64(load_u64(data, start + number * 8))
            if offset < before:
                return _MALFORMED
            if number == 0:
                first = offset
            before = offset
            out_offsets[value + number] = at + (offset - first)
        if before > sizes[chunk]:
            return _MALFORMED
        copy_bytes(out, at, data, start + first, before - first)
        at += before - first
        value += count
    out_offsets[value] = at
    return at


@njit(
    [types.void(READONLY_BYTES, _INTEGERS, _INTEGERS, BYTES, offsets) for offsets in _OFFSETS],
    cache=True,
    nogil=True,
)
def gather(data, starts, lengths, out, out_offsets):
    """Put values together that lie within the data, and for whose bytes the output has room."""
    at = 0
    for value in range(len(starts)):
        out_offsets[value] = at
        copy_bytes(out, at, data, starts[value], lengths[value])
        at += lengths[value]
    out_offsets[len(starts)] = at


@njit(
    types.int64(_INTEGERS, types.int64, types.int64, types.int64, types.Array(types.int64, 1, "C")),
    cache=True,
    nogil=True,
)
def plan(ends, width, chunk_bytes, max_count, counts):
    """Numbers of values of chunks; see `plan_chunks`. Returns how many chunks there are."""
    total = len(ends) - 1
    chunks = 0
    first = 0
    while first < total:
        rest = total - first
        count = rest
        if rest > max_count or (rest + 1) * width + ends[total] - ends[first] > chunk_bytes:
            count = 2
            most = min(rest, max_count)
            while 2 * count <= most and (
                (2 * count + 1) * width + ends[first + 2 * count] - ends[first] <= chunk_bytes
            ):
                count *= 2
            count = min(count, rest)
        counts[chunks] = count
        chunks += 1
        first += count
    return chunks


_ENCODED = (READONLY_BYTES, _INTEGERS, _INTEGERS, _INTEGERS)
_WIDTHS = (types.Array(types.uint32, 1, "C"), types.Array(types.uint64, 1, "C"))


@njit([types.void(*_ENCODED, words, BYTES) for words in _WIDTHS], cache=True, nogil=True)
def encode(data, ends, counts, starts, words, out):
    """Write chunks.

    Args:
        data: The bytes of the values.
        ends: Offsets of the values in the data, the first being 0.
        counts: Values of each chunk.
        starts: Where each chunk begins in the output, a multiple of the width of offsets.
        words: The output as words as wide as offsets.
        out: The output as bytes.
    """
    width = words.itemsize
    value = 0
    for chunk in range(len(counts)):
        count = counts[chunk]
        head = (count + 1) * width
        first = starts[chunk] // width
        low = ends[value]
        for number in range(count + 1):
            words[first + number] = head + (ends[value + number] - low)
        copy_bytes(out, starts[chunk] + head, data, low, ends[value + count] - low)
        value += count
