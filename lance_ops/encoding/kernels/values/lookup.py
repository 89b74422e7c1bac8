"""Lookup of variable-width dictionary entries by position."""

from lance_ops.encoding.arrays import Bytes, Integers, Offsets, Words
from lance_ops.encoding.kernels.loops import loop, types
from lance_ops.encoding.kernels.words import BYTES, READONLY_BYTES, copy_bytes, load_u64, store_u64

_POSITIONS = tuple(
    types.Array(word, 1, "C", readonly=True)
    for word in (types.uint8, types.uint16, types.uint32, types.uint64)
)
_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_OFFSETS = (types.Array(types.int32, 1, "C"), types.Array(types.int64, 1, "C"))
# Bytes that the entries and the output have beyond what is in them.
SPARE = 32
"""Bytes that the entries and the output must have beyond what is in them."""
_TWO_WORDS = 16
OUTSIDE = -1


@loop([types.int64(positions, _INTEGERS, offsets) for positions in _POSITIONS for offsets in _OFFSETS])
def _measure(positions, ends, out_offsets):
    entries = len(ends) - 1
    at = 0
    for value in range(len(positions)):
        out_offsets[value] = at
        position = positions[value]
        if position >= entries:
            return OUTSIDE
        at += ends[position + 1] - ends[position]
    out_offsets[len(positions)] = at
    return at


@loop([types.void(positions, _INTEGERS, READONLY_BYTES, BYTES) for positions in _POSITIONS])
def _copy(positions, ends, data, out):
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


def measure(*, positions: Words, ends: Integers, out_offsets: Offsets) -> int:
    """Compute the offset of each value in the output.

    Args:
        positions: Shape (values,): of their entries.
        ends: Shape (entries + 1,): offsets of the entries, the first being 0, not decreasing.
        out_offsets: Shape (values + 1,): gets the offsets, which count only as far as their type does.

    Returns:
        The bytes of all values, or `OUTSIDE` when a position is not that of an entry.
    """
    return int(_measure(positions, ends, out_offsets))


def copy(*, positions: Words, ends: Integers, data: Bytes, out: Bytes) -> None:
    """Copy each value; what is in the output beyond them is undefined.

    Args:
        positions: Shape (values,): of their entries, which were measured.
        ends: Shape (entries + 1,): offsets of the entries, the first being 0.
        data: The bytes of the entries, and `SPARE` more.
        out: Room for the bytes of all values, and for `SPARE` more.
    """
    _copy(positions, ends, data, out)
