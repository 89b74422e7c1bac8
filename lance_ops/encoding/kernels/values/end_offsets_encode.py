"""Arrow's offsets and validity into end offsets of 2.0."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Offsets, Words64
from lance_ops.encoding.kernels.loops import loop, types
from lance_ops.encoding.kernels.words import BYTES, READONLY_BYTES, copy_bytes

MALFORMED = -1

_OFFSETS = (
    types.Array(types.int32, 1, "C", readonly=True),
    types.Array(types.int64, 1, "C", readonly=True),
)
_ENDS = types.Array(types.uint64, 1, "C")


@loop([types.int64(offsets, READONLY_BYTES, types.int64) for offsets in _OFFSETS])
def _measure(offsets, validity, bit):
    total = np.int64(0)
    for row in range(len(offsets) - 1):
        place = bit + row
        valid = np.int64((validity[place >> 3] >> (place & 7)) & 1)
        total += (np.int64(offsets[row + 1]) - np.int64(offsets[row])) & -valid
    return total


@loop(
    [
        types.void(offsets, READONLY_BYTES, types.int64, types.int64, types.int64, _ENDS)
        for offsets in _OFFSETS
    ]
)
def _encode(offsets, validity, bit, base, adjustment, ends):
    rows = len(offsets) - 1
    if len(validity) == 0:
        move = base - np.int64(offsets[0])
        for row in range(rows):
            ends[row] = np.int64(offsets[row + 1]) + move
        return
    # Eight rows at a time, whose bits lie in two bytes; the last ones may have no second byte.
    first, shift = bit >> 3, bit & 7
    groups = max(rows - 8, 0) // 8
    at = base
    for group in range(groups):
        low, high = np.int64(validity[first + group]), np.int64(validity[first + group + 1])
        bits = (low | high << 8) >> shift
        for row in range(group * 8, group * 8 + 8):
            valid = bits & 1
            bits >>= 1
            at += (np.int64(offsets[row + 1]) - np.int64(offsets[row])) & -valid
            ends[row] = at + (adjustment & (valid - 1))
    for row in range(groups * 8, rows):
        place = bit + row
        valid = np.int64((validity[place >> 3] >> (place & 7)) & 1)
        at += (np.int64(offsets[row + 1]) - np.int64(offsets[row])) & -valid
        ends[row] = at + (adjustment & (valid - 1))


@loop([types.int64(BYTES, READONLY_BYTES, offsets, READONLY_BYTES, types.int64) for offsets in _OFFSETS])
def _compact(out, data, offsets, validity, bit):
    rows = len(offsets) - 1
    at = 0
    row = 0
    while row < rows:
        first = row
        while row < rows and (validity[(bit + row) >> 3] >> ((bit + row) & 7)) & 1:
            row += 1
        start = np.int64(offsets[first])
        size = np.int64(offsets[row]) - start
        if start < 0 or size < 0 or start + size > len(data) or at + size > len(out):
            return -1
        copy_bytes(out, at, data, start, size)
        at += size
        row += 1
    return at


def measure(*, offsets: Offsets, validity: Bytes, bit: int) -> int:
    """Return bytes of all rows that are not null.

    Args:
        offsets: Shape (rows + 1,).
        validity: Bitmap of all rows, least significant bit first.
        bit: Of the first row in the bitmap.
    """
    return int(_measure(offsets, validity, bit))


def encode(*, offsets: Offsets, validity: Bytes, bit: int, base: int, adjustment: int, ends: Words64) -> None:
    """Write an end for each row; null rows have no length, whatever the offsets say.

    Args:
        offsets: Shape (rows + 1,).
        validity: Bitmap of all rows, or nothing when no row is null.
        bit: Of the first row in the bitmap.
        base: What the ends are counted from.
        adjustment: Added to the ends of null rows.
        ends: Shape (rows,): gets the ends.
    """
    _encode(offsets, validity, bit, base, adjustment, ends)


def compact(*, out: Bytes, data: Bytes, offsets: Offsets, validity: Bytes, bit: int) -> int:
    """Concatenate the bytes of non-null rows.

    Args:
        out: Room for these bytes.
        data: The bytes that offsets point into; positions in it are checked.
        offsets: Shape (rows + 1,).
        validity: Bitmap of all rows.
        bit: Of the first row in the bitmap.

    Returns:
        How many bytes they are, or `MALFORMED` when offsets leave the data or its room. What offsets between
        rows that follow each other say is not looked at where none of these is null.
    """
    return int(_compact(out, data, offsets, validity, bit))
