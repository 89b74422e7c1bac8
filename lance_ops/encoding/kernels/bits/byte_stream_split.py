"""Byte stream split."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers
from lance_ops.encoding.kernels.loops import loop, types

_COMPILED = {4: "<u4", 8: "<u8"}
"""Types of values with a loop, by their bytes."""
_WORDS = (types.uint32, types.uint64)

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)


@loop([types.void(_BYTES, _NUMBERS, _NUMBERS, types.Array(word, 1, "C")) for word in _WORDS])
def _join(data, starts, counts, values):
    first = 0
    for chunk in range(len(starts)):
        count = counts[chunk]
        target = values[first : first + count]
        for number in range(values.itemsize):
            stream = data[starts[chunk] + number * count : starts[chunk] + (number + 1) * count]
            shift = values.dtype.type(8 * number)
            if number == 0:
                for place in range(count):
                    target[place] = stream[place]
            else:
                for place in range(count):
                    target[place] |= values.dtype.type(stream[place]) << shift
        first += count


@loop([types.void(types.Array(word, 1, "C", readonly=True), _NUMBERS, types.uint8[::1]) for word in _WORDS])
def _split(values, counts, data):
    first = 0
    for chunk in range(len(counts)):
        count = counts[chunk]
        source = values[first : first + count]
        for number in range(values.itemsize):
            begin = first * values.itemsize + number * count
            stream = data[begin : begin + count]
            shift = values.dtype.type(8 * number)
            for place in range(count):
                stream[place] = source[place] >> shift
        first += count


def join(*, data: Bytes, starts: Integers, counts: Integers, width: int, values: Bytes) -> None:
    """Join the byte streams of values.

    Args:
        data: The streams of all chunks.
        starts: Shape (chunks,): the byte at which those of each begin; `counts * width` bytes are there.
        counts: Shape (chunks,): values of each.
        width: Bytes of a value; compiled for 4 and 8.
        values: Room for all values, shape (values * width,), aligned as values of this width are.
    """
    word = _COMPILED.get(width)
    if word is not None:
        _join(data, starts, counts, values.view(word))
        return
    sizes = counts * width
    places = np.cumsum(sizes) - sizes
    for start, size, place in zip(starts.tolist(), sizes.tolist(), places.tolist(), strict=True):
        streams = data[start : start + size].reshape(width, -1)
        values[place : place + size].reshape(-1, width)[...] = streams.T


def split(*, values: Bytes, counts: Integers, width: int, data: Bytes) -> None:
    """Split the bytes of the values of each chunk.

    Args:
        values: Of all chunks, shape (values * width,), aligned as values of this width are.
        counts: Shape (chunks,): values of each.
        width: Bytes of a value; compiled for 4 and 8.
        data: Room for the streams, as many bytes, of one chunk after the other.
    """
    word = _COMPILED.get(width)
    if word is not None:
        _split(values.view(word), counts, data)
        return
    stops = np.cumsum(counts * width)
    for start, stop in zip((stops - counts * width).tolist(), stops.tolist(), strict=True):
        data[start:stop].reshape(width, -1)[...] = values[start:stop].reshape(-1, width).T
