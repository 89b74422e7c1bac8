"""The compiled loop that lists all words of a finite state transducer, in the order of their bytes.

Each step down the way to a word reads one node; what is needed of it to go on later is kept for its depth. A
node leads only to nodes before it, so that every way ends, whatever the bytes say.
"""

import numpy as np
from numba import njit, types

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)

_HEADER = 16
_INDEXED = 32
_OUTSIDE, _LEADS_OUTSIDE, _TOO_MANY, _NOWHERE, _TOO_LONG = -1, -2, -3, -4, -5
_NO_ROOM = -6
_ONE_WAY, _NEXT, _FINAL, _IN_STATE = 0x80, 0x40, 0x40, 0x3F
_FIELDS = 7
_WAYS, _WAY, _LETTERS, _DISTANCES, _OUTPUTS, _BASE, _SIZES = range(_FIELDS)
_DIRECT = -1
"""Of a node with one way: its only way is known, and stands where others have places."""


@njit(types.uint64(_BYTES, types.int64, types.int64), cache=True, nogil=True, inline="always")
def _number(data, at, size):  # type: ignore[no-untyped-def]
    found = np.uint64(0)
    for place in range(min(size, 8)):
        found |= np.uint64(data[at + place]) << np.uint64(8 * place)
    return found


@njit(
    types.int64(
        _BYTES, types.int64, types.int64, _BYTES, types.int64[:, ::1], types.uint64[:, ::1], types.int64
    ),
    cache=True,
    nogil=True,
)
def _enter(data, address, version, common, frames, outputs, depth):  # type: ignore[no-untyped-def]
    """Read a node into the places of a depth; 1 if a word ends there, 0 if not, or what is wrong.

    The outputs of a depth are that of the way to it, that of a word that ends, and that of a direct way.
    """
    frame = frames[depth]
    frame[_WAY] = 0
    outputs[depth, 1] = np.uint64(0)
    if address == 0:
        frame[_WAYS] = 0
        return 1
    if address < _HEADER or address >= len(data):
        return _OUTSIDE
    state, at = np.int64(data[address]), address
    if state & _ONE_WAY:
        frame[_WAYS], frame[_SIZES] = 1, _DIRECT
        name = state & _IN_STATE
        if name:
            frame[_LETTERS] = np.int64(common[name - 1])
        else:
            at -= 1
            if at < _HEADER:
                return _OUTSIDE
            frame[_LETTERS] = np.int64(data[at])
        outputs[depth, 2] = np.uint64(0)
        if state & _NEXT:
            frame[_BASE] = at - 1
            return _LEADS_OUTSIDE if at - 1 < _HEADER else 0
        at -= 1
        if at < _HEADER:
            return _OUTSIDE
        far, wide = np.int64(data[at]) >> 4, np.int64(data[at]) & 0x0F
        at -= far
        if far and at < _HEADER:
            return _OUTSIDE
        distance = _number(data, at, far)
        at -= wide
        if wide and at < _HEADER:
            return _OUTSIDE
        outputs[depth, 2] = _number(data, at, wide)
        if distance == 0:
            frame[_BASE] = 0
            return 0
        if distance > np.uint64(at):
            return _LEADS_OUTSIDE
        frame[_BASE] = at - np.int64(distance)
        return _LEADS_OUTSIDE if frame[_BASE] < _HEADER else 0
    count = state & _IN_STATE
    if count == 0:
        at -= 1
        if at < _HEADER:
            return _OUTSIDE
        count = np.int64(data[at])
        if count == 1:
            count = np.int64(256)
    at -= 1
    if at < _HEADER:
        return _OUTSIDE
    far, wide = np.int64(data[at]) >> 4, np.int64(data[at]) & 0x0F
    if version >= 2 and count > _INDEXED:
        at -= 256
    at -= count
    if at < _HEADER:
        return _OUTSIDE
    frame[_WAYS], frame[_SIZES], frame[_LETTERS] = count, far << 4 | wide, at
    at -= count * far
    if count * far and at < _HEADER:
        return _OUTSIDE
    frame[_DISTANCES] = at
    at -= count * wide
    if count * wide and at < _HEADER:
        return _OUTSIDE
    frame[_OUTPUTS] = at
    is_final = state & _FINAL
    if is_final:
        at -= wide
        if wide and at < _HEADER:
            return _OUTSIDE
        outputs[depth, 1] = _number(data, at, wide)
    frame[_BASE] = at
    for way in range(count):
        distance = _number(data, frame[_DISTANCES] + way * far, far)
        if distance and (distance > np.uint64(at) or at - np.int64(distance) < _HEADER):
            return _LEADS_OUTSIDE
    return 1 if is_final else 0


@njit(
    types.int64(
        _BYTES,
        types.int64,
        types.int64,
        types.int64,
        _BYTES,
        types.int64,
        types.uint8[::1],
        types.int64[::1],
        types.uint64[::1],
    ),
    cache=True,
    nogil=True,
)
def list_words(data, version, root, count, common, most, joined, offsets, numbers):  # type: ignore[no-untyped-def]
    """All words with their numbers.

    Args:
        data: The transducer.
        version: Of its layout.
        root: Place of the first node.
        count: How many words there are at most.
        common: The bytes that a node with one way can name, the first as 1.
        most: Bytes of all words at most.
        joined: Room for the words.
        offsets: Room for where each begins and the last one ends; one more than numbers.
        numbers: Room for their numbers.

    Returns:
        How many, or what is wrong, `_NO_ROOM` among it.
    """
    frames, outputs = np.zeros((32, _FIELDS), np.int64), np.zeros((32, 3), np.uint64)
    word = np.empty(32, np.uint8)
    found, used, depth, address = np.int64(0), np.int64(0), np.int64(0), root
    outputs[0, 0] = np.uint64(0)
    offsets[0] = 0
    while True:
        state = _enter(data, address, version, common, frames, outputs, depth)
        if state < 0:
            return state
        if state == 1:
            if found == count:
                return _TOO_MANY
            if used + depth > most:
                return _TOO_LONG
            if used + depth > len(joined) or found == len(numbers):
                return _NO_ROOM
            joined[used : used + depth] = word[:depth]
            used += depth
            numbers[found] = outputs[depth, 0] + outputs[depth, 1]
            found += 1
            offsets[found] = used
        elif frames[depth, _WAYS] == 0:
            return _NOWHERE
        while depth >= 0 and frames[depth, _WAY] == frames[depth, _WAYS]:
            depth -= 1
        if depth < 0:
            return found
        if depth + 1 == len(frames):
            room = 2 * depth + 2
            deeper, sums = np.zeros((room, _FIELDS), np.int64), np.zeros((room, 3), np.uint64)
            deeper[: depth + 1] = frames
            sums[: depth + 1] = outputs
            longer = np.empty(room, np.uint8)
            longer[: depth + 1] = word
            frames, outputs, word = deeper, sums, longer
        frame = frames[depth]
        way = frame[_WAY]
        frame[_WAY] = way + 1
        if frame[_SIZES] == _DIRECT:
            word[depth], address = frame[_LETTERS], frame[_BASE]
            outputs[depth + 1, 0] = outputs[depth, 0] + outputs[depth, 2]
        else:
            far, wide = frame[_SIZES] >> 4, frame[_SIZES] & 0x0F
            # Ways lie in the order of their bytes from the last to the first.
            place = frame[_WAYS] - 1 - way
            word[depth] = data[frame[_LETTERS] + place]
            distance = _number(data, frame[_DISTANCES] + place * far, far)
            address = frame[_BASE] - np.int64(distance) if distance else np.int64(0)
            outputs[depth + 1, 0] = outputs[depth, 0] + _number(data, frame[_OUTPUTS] + place * wide, wide)
        depth += 1
