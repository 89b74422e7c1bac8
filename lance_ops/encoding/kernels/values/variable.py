"""Chunks of values of variable width."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Offsets, Words
from lance_ops.encoding.kernels.loops import loop, types
from lance_ops.encoding.kernels.words import BYTES, READONLY_BYTES, copy_bytes, load_u32, load_u64

_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_OFFSETS = (types.Array(types.int32, 1, "C"), types.Array(types.int64, 1, "C"))
MALFORMED = -1
_DECODED = (READONLY_BYTES, _INTEGERS, _INTEGERS, _INTEGERS, types.int64, BYTES)


@loop([types.int64(*_DECODED, offsets) for offsets in _OFFSETS])
def _decode(data, starts, sizes, counts, width, out, out_offsets):
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
                return MALFORMED
            if number == 0:
                first = offset
            before = offset
            out_offsets[value + number] = at + (offset - first)
        if before > sizes[chunk]:
            return MALFORMED
        copy_bytes(out, at, data, start + first, before - first)
        at += before - first
        value += count
    out_offsets[value] = at
    return at


@loop([types.void(READONLY_BYTES, _INTEGERS, _INTEGERS, BYTES, offsets) for offsets in _OFFSETS])
def _gather(data, starts, lengths, out, out_offsets):
    at = 0
    for value in range(len(starts)):
        out_offsets[value] = at
        copy_bytes(out, at, data, starts[value], lengths[value])
        at += lengths[value]
    out_offsets[len(starts)] = at


@loop(types.int64(_INTEGERS, types.int64, types.int64, types.int64, types.Array(types.int64, 1, "C")))
def _plan(ends, width, chunk_bytes, max_count, counts):
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


@loop([types.void(*_ENCODED, words, BYTES) for words in _WIDTHS])
def _encode(data, ends, counts, starts, words, out):
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


def decode(
    *,
    data: Bytes,
    starts: Integers,
    sizes: Integers,
    counts: Integers,
    width: int,
    out: Bytes,
    out_offsets: Offsets,
) -> int:
    """Join the values of chunks.

    Args:
        data: The bytes of all chunks.
        starts: Shape (chunks,): first byte of each.
        sizes: Shape (chunks,): bytes of each, all within the data, with room for its offsets.
        counts: Shape (chunks,): values of each.
        width: Bytes of an offset: 4 or 8.
        out: Room for the bytes of all chunks but their offsets.
        out_offsets: Room for one more than there are values, of a type that counts as far.

    Returns:
        The bytes of all values, or `MALFORMED` when offsets decrease or leave their chunk.
    """
    return int(_decode(data, starts, sizes, counts, width, out, out_offsets))


def gather(*, data: Bytes, starts: Integers, lengths: Integers, out: Bytes, out_offsets: Offsets) -> None:
    """Concatenate values.

    Args:
        data: Bytes that hold them.
        starts: Shape (values,): first byte of each, within the data.
        lengths: Shape (values,): bytes of each, within the data.
        out: Room for all of them.
        out_offsets: Shape (values + 1,): gets their offsets, of a type that counts as far.
    """
    _gather(data, starts, lengths, out, out_offsets)


def plan(*, ends: Integers, width: int, chunk_bytes: int, max_count: int, counts: Integers) -> int:
    """Cut values into chunks: powers of two, at least two, of them in each but the last.

    Args:
        ends: Shape (values + 1,): offsets of the values, the first being 0, not decreasing.
        width: Bytes of an offset: 4 or 8.
        chunk_bytes: What a chunk holds at most, if it is not of two values only.
        max_count: Values that a chunk holds at most.
        counts: Room for half as many as there are values, rounded up; gets the values of each chunk.

    Returns:
        How many chunks there are.
    """
    return int(_plan(ends, width, chunk_bytes, max_count, counts))


def encode(
    *, data: Bytes, ends: Integers, counts: Integers, starts: Integers, words: Words, out: Bytes
) -> None:
    """Write chunks.

    Args:
        data: The bytes of the values.
        ends: Shape (values + 1,): offsets of the values in the data, the first being 0.
        counts: Shape (chunks,): values of each chunk.
        starts: Shape (chunks,): the byte at which each begins in the output, a multiple of the width of
            offsets, with room for its offsets and bytes.
        words: The output as words of 32 or 64 bits, as wide as offsets.
        out: The output as bytes.
    """
    _encode(data, ends, counts, starts, words, out)
