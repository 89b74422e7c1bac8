"""All words of finite state transducers in the layout of the Rust crate `fst`, versions 1 to 3.

Each step down the way to a word reads one node; what is needed of it to go on later is kept for its depth. A
node leads only to nodes before it, so that every way ends, whatever the bytes say.
"""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels.loops import inner, loop, types

_NO_ROOM = -6
_MOST_BYTES = 1 << 31
"""Of all words together."""
_FIRST_LETTERS, _FIRST_WORDS, _GROWTH = 1024, 128, 4
"""Room for words to begin with; a list that needs more is started again with so many times the room."""

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_HEADER = 16
_INDEXED = 32
OUTSIDE, LEADS_OUTSIDE, TOO_MANY, NOWHERE, TOO_LONG = -1, -2, -3, -4, -5
_ONE_WAY, _NEXT, _FINAL, _IN_STATE = 0x80, 0x40, 0x40, 0x3F
_FIELDS = 7
_WAYS, _WAY, _LETTERS, _DISTANCES, _OUTPUTS, _BASE, _SIZES = range(_FIELDS)
_DIRECT = -1
"""Of a node with one way: its only way is known, and stands where others have places."""


@inner(types.uint64(_BYTES, types.int64, types.int64), inline="always")
def _number(data, at, size):
    found = np.uint64(0)
    for place in range(min(size, 8)):
        found |= np.uint64(data[at + place]) << np.uint64(8 * place)
    return found


@inner(
    types.int64(
        _BYTES, types.int64, types.int64, _BYTES, types.int64[:, ::1], types.uint64[:, ::1], types.int64
    )
)
def _enter(data, address, version, common, frames, outputs, depth):
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
        return OUTSIDE
    state, at = np.int64(data[address]), address
    if state & _ONE_WAY:
        frame[_WAYS], frame[_SIZES] = 1, _DIRECT
        name = state & _IN_STATE
        if name:
            frame[_LETTERS] = np.int64(common[name - 1])
        else:
            at -= 1
            if at < _HEADER:
                return OUTSIDE
            frame[_LETTERS] = np.int64(data[at])
        outputs[depth, 2] = np.uint64(0)
        if state & _NEXT:
            frame[_BASE] = at - 1
            return LEADS_OUTSIDE if at - 1 < _HEADER else 0
        at -= 1
        if at < _HEADER:
            return OUTSIDE
        far, wide = np.int64(data[at]) >> 4, np.int64(data[at]) & 0x0F
        at -= far
        if far and at < _HEADER:
            return OUTSIDE
        distance = _number(data, at, far)
        at -= wide
        if wide and at < _HEADER:
            return OUTSIDE
        outputs[depth, 2] = _number(data, at, wide)
        if distance == 0:
            frame[_BASE] = 0
            return 0
        if distance > np.uint64(at):
            return LEADS_OUTSIDE
        frame[_BASE] = at - np.int64(distance)
        return LEADS_OUTSIDE if frame[_BASE] < _HEADER else 0
    count = state & _IN_STATE
    if count == 0:
        at -= 1
        if at < _HEADER:
            return OUTSIDE
        count = np.int64(data[at])
        if count == 1:
            count = np.int64(256)
    at -= 1
    if at < _HEADER:
        return OUTSIDE
    far, wide = np.int64(data[at]) >> 4, np.int64(data[at]) & 0x0F
    if version >= 2 and count > _INDEXED:
        at -= 256
    at -= count
    if at < _HEADER:
        return OUTSIDE
    frame[_WAYS], frame[_SIZES], frame[_LETTERS] = count, far << 4 | wide, at
    at -= count * far
    if count * far and at < _HEADER:
        return OUTSIDE
    frame[_DISTANCES] = at
    at -= count * wide
    if count * wide and at < _HEADER:
        return OUTSIDE
    frame[_OUTPUTS] = at
    is_final = state & _FINAL
    if is_final:
        at -= wide
        if wide and at < _HEADER:
            return OUTSIDE
        outputs[depth, 1] = _number(data, at, wide)
    frame[_BASE] = at
    for way in range(count):
        distance = _number(data, frame[_DISTANCES] + way * far, far)
        if distance and (distance > np.uint64(at) or at - np.int64(distance) < _HEADER):
            return LEADS_OUTSIDE
    return 1 if is_final else 0


@loop(
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
    )
)
def _list_words(data, version, root, count, common, most, joined, offsets, numbers):
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
                return TOO_MANY
            if used + depth > most:
                return TOO_LONG
            if used + depth > len(joined) or found == len(numbers):
                return _NO_ROOM
            joined[used : used + depth] = word[:depth]
            used += depth
            numbers[found] = outputs[depth, 0] + outputs[depth, 1]
            found += 1
            offsets[found] = used
        elif frames[depth, _WAYS] == 0:
            return NOWHERE
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


def list_words(
    *, data: Bytes, version: int, root: int, count: int, common: bytes
) -> tuple[int, Bytes, Integers, Words64]:
    """List all words.

    Args:
        data: The transducer, all of it.
        version: Of its layout, 1 to 3.
        root: Place of the first node.
        count: How many words there may be.
        common: The bytes that a node with one way can name in its state, the first as 1; 63 of them.

    Returns:
        (how many there are; the words in sequence, in the order of their bytes; int64, shape
        (words + 1,): where each begins and the last one ends; uint64, shape (words,): their numbers). Instead
        of how many a negative number where something is wrong, and no words: a node lies outside (`OUTSIDE`),
        or leads there (`LEADS_OUTSIDE`), there are more words (`TOO_MANY`), a way ends without a word
        (`NOWHERE`), or all words have more than 2 GiB (`TOO_LONG`).
    """
    names = np.frombuffer(common, np.uint8)
    root, count = min(root, len(data)), min(count, len(data) << 32)
    letters, words = _FIRST_LETTERS, _FIRST_WORDS
    while True:
        joined, offsets = np.empty(letters, np.uint8), np.empty(words + 1, np.int64)
        numbers = np.empty(words, np.uint64)
        found = int(_list_words(data, version, root, count, names, _MOST_BYTES, joined, offsets, numbers))
        if found != _NO_ROOM:
            break
        letters, words = min(_GROWTH * letters, _MOST_BYTES), _GROWTH * words
    kept = max(found, 0)
    used = int(offsets[kept]) if kept else 0
    return found, joined[:used].copy(), offsets[: kept + 1].copy(), numbers[:kept].copy()
