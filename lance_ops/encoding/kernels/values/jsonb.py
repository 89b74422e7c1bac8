"""Members of JSON documents as the format keeps them; see `values.jsonb`."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers
from lance_ops.encoding.kernels.loops import inner, loop, types

MISSING = -1
DAMAGED = -2

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_OBJECT, _SCALAR, _ARRAY = 2, 1, 4
_STRING, _CONTAINER = 1, 5


@inner(types.int64(_BYTES, types.int64), inline="always")
def _word(data, at):
    return (
        (np.int64(data[at]) << 24)
        | (np.int64(data[at + 1]) << 16)
        | (np.int64(data[at + 2]) << 8)
        | np.int64(data[at + 3])
    )


@loop(types.void(_BYTES, _NUMBERS, _BYTES, _NUMBERS, types.int64[::1], types.int64[::1], types.int64[::1]))
def _find_members(data, offsets, names, ends, kinds, starts, sizes):
    for document in range(len(offsets) - 1):
        start, stop = offsets[document], offsets[document + 1]
        kinds[document] = MISSING
        first = np.int64(0)
        for level in range(len(ends)):
            if stop - start < 4:
                kinds[document] = DAMAGED
                break
            header = _word(data, start)
            shape, count = header >> 29, header & 0x1FFF_FFFF
            if shape != _OBJECT:
                kinds[document] = MISSING if shape in (_SCALAR, _ARRAY) else DAMAGED
                break
            at = start + 4 + 8 * count
            found = np.int64(-1)
            if at > stop:
                kinds[document] = DAMAGED
                break
            for member in range(count):
                entry = _word(data, start + 4 + 4 * member)
                size = entry & 0x0FFF_FFFF
                if (entry >> 28) & 7 != _STRING or at + size > stop:
                    kinds[document] = DAMAGED
                    break
                if size == ends[level] - first:
                    place = np.int64(0)
                    while place < size and data[at + place] == names[first + place]:
                        place += 1
                    if place == size:
                        found = member
                at += size
            if kinds[document] == DAMAGED or found < 0:
                break
            for member in range(found):
                at += _word(data, start + 4 + 4 * (count + member)) & 0x0FFF_FFFF
            entry = _word(data, start + 4 + 4 * (count + found))
            kind, size = (entry >> 28) & 7, entry & 0x0FFF_FFFF
            if at + size > stop:
                kinds[document] = DAMAGED
                break
            if level == len(ends) - 1:
                kinds[document], starts[document], sizes[document] = kind, at, size
            elif kind != _CONTAINER:
                break
            start, stop, first = at, at + size, ends[level]


def find_members(
    *,
    data: Bytes,
    offsets: Integers,
    names: Bytes,
    ends: Integers,
    kinds: Integers,
    starts: Integers,
    sizes: Integers,
) -> None:
    """Find the value under some names, each a member of the one before, in each document.

    Args:
        data: The documents.
        offsets: Where each begins, and where the last one ends: they never fall, and lie within the data.
        names: The names, in sequence, at least one.
        ends: Where each name ends.
        kinds: Filled: the kind of the value, `MISSING` where there is none, or `DAMAGED`.
        starts: Filled where there is one: where it lies in the data.
        sizes: Filled where there is one: its bytes.
    """
    _find_members(data, offsets, names, ends, kinds, starts, sizes)
