"""Looking up values of variable width: entries of a dictionary by position, in sequence."""

from numba import njit, types

from lance_ops.encoding.kernels.words import BYTES, READONLY_BYTES, copy_bytes, load_u64, store_u64

_POSITIONS = tuple(
    types.Array(word, 1, "C", readonly=True)
    for word in (types.uint8, types.uint16, types.uint32, types.uint64)
)
_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_OFFSETS = (types.Array(types.int32, 1, "C"), types.Array(types.int64, 1, "C"))

# Bytes that the entries and the output have beyond what is in them.
SPARE = 32
_TWO_WORDS = 16

_OUTSIDE = -1


@njit(
    [types.int64(positions, _INTEGERS, offsets) for positions in _POSITIONS for offsets in _OFFSETS],
    cache=True,
    nogil=True,
)
def measure(positions, ends, out_offsets):
    """Offsets of the values; the bytes of all of them, or -1 when a position is outside of the dictionary."""
    entries = len(ends) - 1
    at = 0
    for value in range(len(positions)):
        out_offsets[value] = at
        position = positions[value]
        if position >= entries:
            return _OUTSIDE
        at += ends[position + 1] - ends[position]
    out_offsets[len(positions)] = at
    return at


@njit(
    [types.void(positions, _INTEGERS, READONLY_BYTES, BYTES) for positions in _POSITIONS],
    cache=True,
    nogil=True,
)
def copy(positions, ends, data, out):
    """Put values in sequence; the positions were measured, and both arrays have bytes to spare.

    Most entries are short: whole words are copied of each, and the next one covers what is too much.
    """
    at = 0
    for value in range(len(positions)):
        position = positions[value]
        start = ends[position]
        size = ends[position + 1] - start
        if size <= SPARE:
            store_u64(out, at, load_u64(data, start))
            store_u64(out, at + 8, load_u64(data, start + 8))
            if size > _TWO_WORDS:
                store_u64(out, at + 16, load_u64(data, start + 16))
                store_u64(out, at + 24, load_u64(data, start + 24))
        else:
            copy_bytes(out, at, data, start, size)
        at += size
