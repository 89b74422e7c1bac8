"""Compiled loops of split streams."""

from numba import njit, types

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_WORDS = (types.uint32, types.uint64)


@njit(
    [types.void(_BYTES, _NUMBERS, _NUMBERS, types.Array(word, 1, "C")) for word in _WORDS],
    cache=True,
    nogil=True,
)
def join(data, starts, counts, values):  # type: ignore[no-untyped-def]
    """Put the bytes of each value together.

    Args:
        data: The streams of all chunks.
        starts: Where those of each begin.
        counts: Values of each.
        values: Room for all values.
    """
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


@njit(
    [types.void(types.Array(word, 1, "C", readonly=True), _NUMBERS, types.uint8[::1]) for word in _WORDS],
    cache=True,
    nogil=True,
)
def split(values, counts, data):  # type: ignore[no-untyped-def]
    """Split the bytes of the values of each chunk.

    Args:
        values: Of all chunks.
        counts: Values of each.
        data: Room for all of them.
    """
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
