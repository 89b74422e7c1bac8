"""End offsets of rows, and the bytes of the rows that are not null."""

from numba import njit, types

from lance_ops.encoding.kernels.words import BYTES, READONLY_BYTES, copy_bytes

_OFFSETS = (
    types.Array(types.int32, 1, "C", readonly=True),
    types.Array(types.int64, 1, "C", readonly=True),
)
_ENDS = types.Array(types.uint64, 1, "C")


@njit(
    [types.int64(offsets, READONLY_BYTES, types.int64) for offsets in _OFFSETS],
    cache=True,
    nogil=True,
)
def measure(offsets, validity, bit):
    """The length of all rows that are not null; the bitmap covers all rows."""
    total = types.int64(0)
    for row in range(len(offsets) - 1):
        place = bit + row
        valid = types.int64((validity[place >> 3] >> (place & 7)) & 1)
        total += (types.int64(offsets[row + 1]) - types.int64(offsets[row])) & -valid
    return total


@njit(
    [
        types.void(offsets, READONLY_BYTES, types.int64, types.int64, types.int64, _ENDS)
        for offsets in _OFFSETS
    ],
    cache=True,
    nogil=True,
)
def encode(offsets, validity, bit, base, adjustment, ends):
    """Write an end for each row; null rows have no length, whatever the offsets say.

    Args:
        offsets: One more than there are rows.
        validity: Bitmap of all rows, or nothing when no row is null.
        bit: Of the first row in the bitmap.
        base: What the ends are counted from.
        adjustment: Added to the ends of null rows.
        ends: Room for all rows.
    """
    rows = len(offsets) - 1
    if len(validity) == 0:
        move = base - types.int64(offsets[0])
        for row in range(rows):
            ends[row] = types.int64(offsets[row + 1]) + move
        return
    # Eight rows at a time, whose bits lie in two bytes; the last ones may have no second byte.
    first, shift = bit >> 3, bit & 7
    groups = max(rows - 8, 0) // 8
    at = base
    for group in range(groups):
        low, high = types.int64(validity[first + group]), types.int64(validity[first + group + 1])
        bits = (low | high << 8) >> shift
        for row in range(group * 8, group * 8 + 8):
            valid = bits & 1
            bits >>= 1
            at += (types.int64(offsets[row + 1]) - types.int64(offsets[row])) & -valid
            ends[row] = at + (adjustment & (valid - 1))
    for row in range(groups * 8, rows):
        place = bit + row
        valid = types.int64((validity[place >> 3] >> (place & 7)) & 1)
        at += (types.int64(offsets[row + 1]) - types.int64(offsets[row])) & -valid
        ends[row] = at + (adjustment & (valid - 1))


@njit(
    [types.int64(BYTES, READONLY_BYTES, offsets, READONLY_BYTES, types.int64) for offsets in _OFFSETS],
    cache=True,
    nogil=True,
)
def compact(out, data, offsets, validity, bit):
    """Put the bytes of the rows that are not null together; the bitmap covers all rows.

    Returns:
        How many they are, or -1 when the offsets leave the bytes that there are.
    """
    rows = len(offsets) - 1
    at = 0
    row = 0
    while row < rows:
        first = row
        while row < rows and (validity[(bit + row) >> 3] >> ((bit + row) & 7)) & 1:
            row += 1
        start = types.int64(offsets[first])
        size = types.int64(offsets[row]) - start
        if start < 0 or size < 0 or start + size > len(data) or at + size > len(out):
            return -1
        copy_bytes(out, at, data, start, size)
        at += size
        row += 1
    return at
