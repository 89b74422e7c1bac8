"""Finite state transducers: ordered words with numbers, in the layout of the Rust crate `fst`, version 3.

Words share what they begin with, and nodes that lead to the same end are written once as far as a table of
recent ones remembers them. Of two words that part, each keeps what is left of its number: a word's number is
the sum of the outputs on its way. The layout is that of the Rust crate `fst`, version 3.
"""

import struct

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers
from lance_ops.encoding.kernels.loops import inner, loop, types

_REMEMBERED = 1 << 22
_ROOM_OF_BYTE, _MORE_ROOM = 32, 80

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_HEADER = 16
_INDEXED = 32
_ONE_WAY, _NEXT, _FINAL = 0x80, 0x40, 0x40
_IN_STATE = 63
_LOOKED_AT = 16
"""Places of the table that a node may be in; then it takes the place of another one."""
_PRIME = 1099511628211


@inner(types.int64(types.int64), inline="always")
def _width(value):
    width = np.int64(1)
    while value > 255:
        value >>= 8
        width += 1
    return width


@inner(types.int64(types.uint8[::1], types.int64, types.int64, types.int64), inline="always")
def _put(out, at, value, width):
    for place in range(width):
        out[at + place] = (value >> (8 * place)) & 0xFF
    return at + width


@inner(
    types.int64(
        types.uint8[::1],
        types.int64,
        _BYTES,
        types.boolean,
        types.int64,
        types.uint8[::1],
        types.int64[::1],
        types.int64[::1],
    )
)
def _write_node(out, start, common, is_final, final_output, letters, outputs, targets):
    """Write a node with these ways, and return the place behind it."""
    count, at = len(letters), start
    if count == 1 and not is_final:
        letter = common[letters[0]]
        state = _ONE_WAY | letter
        if targets[0] == start - 1 and outputs[0] == 0:
            state |= _NEXT
        else:
            distance = start - targets[0] if targets[0] else 0
            wide, far = (_width(outputs[0]) if outputs[0] else 0), _width(distance)
            at = _put(out, at, outputs[0], wide)
            at = _put(out, at, distance, far)
            at = _put(out, at, (far << 4) | wide, 1)
        if letter == 0:
            at = _put(out, at, np.int64(letters[0]), 1)
        return _put(out, at, np.int64(state), 1)
    wide, far = _width(final_output), np.int64(0)
    has_outputs = final_output != 0
    for way in range(count):
        has_outputs |= outputs[way] != 0
        wide = max(wide, _width(outputs[way]))
        far = max(far, _width(start - targets[way] if targets[way] else 0))
    if not has_outputs:
        wide = np.int64(0)
    else:
        if is_final:
            at = _put(out, at, final_output, wide)
        for way in range(count - 1, -1, -1):
            at = _put(out, at, outputs[way], wide)
    for way in range(count - 1, -1, -1):
        at = _put(out, at, start - targets[way] if targets[way] else 0, far)
    for way in range(count - 1, -1, -1):
        at = _put(out, at, np.int64(letters[way]), 1)
    if count > _INDEXED:
        out[at : at + 256] = 255
        for way in range(count):
            out[at + letters[way]] = way
        at += 256
    at = _put(out, at, (far << 4) | wide, 1)
    state = _FINAL if is_final else 0
    if 0 < count <= _IN_STATE:
        state |= count
    else:
        at = _put(out, at, 1 if count == 256 else count, 1)
    return _put(out, at, np.int64(state), 1)


@loop(types.int64(_BYTES, _NUMBERS, _NUMBERS, _BYTES, types.int32[::1], types.uint8[::1], types.int64[::1]))
def _build(data, offsets, values, common, table, out, root):
    total, deepest = len(data), np.int64(0)
    for word in range(len(offsets) - 1):
        size = offsets[word + 1] - offsets[word]
        if size > deepest:
            deepest = size
    final, final_out = np.zeros(deepest + 1, np.bool_), np.zeros(deepest + 1, np.int64)
    last, last_out = np.zeros(deepest + 1, np.uint8), np.zeros(deepest + 1, np.int64)
    # Ways of unfinished nodes lie on a stack; those of the node at depth d from first[d] to first[d + 1].
    first = np.zeros(deepest + 2, np.int64)
    room = 256 * (deepest + 1) + 1
    if room > total:
        room = total + 1
    letters, outputs, targets = np.empty(room, np.uint8), np.empty(room, np.int64), np.empty(room, np.int64)
    # What was written, to be compared with.
    known_at, known_final = np.empty(total + 2, np.int32), np.empty(total + 2, np.bool_)
    known_out, known_first = np.empty(total + 2, np.int32), np.empty(total + 3, np.int32)
    of_letters, of_outputs = np.empty(total + 1, np.uint8), np.empty(total + 1, np.int32)
    of_targets = np.empty(total + 1, np.int32)
    known, known_first[0] = np.int64(0), 0
    at, depth, mask = np.int64(_HEADER), np.int64(0), np.uint64(len(table) - 1)

    for word in range(len(offsets)):
        is_end = word == len(offsets) - 1
        start = offsets[word]
        length = np.int64(0) if is_end else offsets[word + 1] - start
        rest, shared = np.int64(0) if is_end else values[word], np.int64(0)
        while shared < min(depth, length) and last[shared] == data[start + shared]:
            both = min(last_out[shared], rest)
            pushed = last_out[shared] - both
            rest -= both
            last_out[shared] = both
            shared += 1
            if pushed:
                if final[shared]:
                    final_out[shared] += pushed
                for way in range(first[shared], first[shared + 1]):
                    outputs[way] += pushed
                if shared < depth:
                    last_out[shared] += pushed
        # What is deeper than the new word shares will not change any more; at the end all of it.
        stop = np.int64(-1) if is_end else shared
        while depth > stop:
            begin, end = first[depth], first[depth + 1]
            if begin == end and final[depth] and final_out[depth] == 0 and depth:
                address = np.int64(0)
            else:
                mixed = np.uint64(final_out[depth]) * np.uint64(2) + np.uint64(final[depth])
                for way in range(begin, end):
                    mixed = (mixed ^ np.uint64(letters[way])) * np.uint64(_PRIME)
                    mixed = (mixed ^ np.uint64(outputs[way])) * np.uint64(_PRIME)
                    mixed = (mixed ^ np.uint64(targets[way])) * np.uint64(_PRIME)
                place = (mixed ^ (mixed >> np.uint64(29))) & mask
                same, seen = False, np.int64(-1)
                for _ in range(_LOOKED_AT):
                    seen = np.int64(table[place])
                    if seen < 0:
                        break
                    same = (
                        known_final[seen] == final[depth]
                        and known_out[seen] == final_out[depth]
                        and known_first[seen + 1] - known_first[seen] == end - begin
                    )
                    if same:
                        for way in range(end - begin):
                            other = known_first[seen] + way
                            if (
                                of_letters[other] != letters[begin + way]
                                or of_outputs[other] != outputs[begin + way]
                                or of_targets[other] != targets[begin + way]
                            ):
                                same = False
                                break
                    if same:
                        break
                    place = (place + np.uint64(1)) & mask
                if same:
                    address = np.int64(known_at[seen])
                else:
                    at = _write_node(
                        out,
                        at,
                        common,
                        final[depth],
                        final_out[depth],
                        letters[begin:end],
                        outputs[begin:end],
                        targets[begin:end],
                    )
                    address = at - 1
                    known_at[known], known_final[known] = address, final[depth]
                    known_out[known] = final_out[depth]
                    other = np.int64(known_first[known])
                    for way in range(begin, end):
                        of_letters[other], of_outputs[other] = letters[way], outputs[way]
                        of_targets[other] = targets[way]
                        other += 1
                    table[place] = known
                    known += 1
                    known_first[known] = other
            if depth == 0:
                root[0] = address
            else:
                letters[begin], outputs[begin] = last[depth - 1], last_out[depth - 1]
                targets[begin] = address
                first[depth] = begin + 1
            depth -= 1
        if is_end:
            break
        if length == 0:
            final[0], final_out[0] = True, rest
        top = first[shared + 1]
        for place_of in range(shared, length):
            last[place_of], last_out[place_of] = data[start + place_of], rest
            rest = np.int64(0)
            final[place_of + 1], final_out[place_of + 1] = False, 0
            first[place_of + 1] = top
            first[place_of + 2] = top
        if length:
            final[length] = True
        depth = length
    return at


@loop(types.uint32(_BYTES))
def _checksum(data):
    remainders = np.empty(256, np.uint32)
    for byte in range(256):
        value = np.uint32(byte)
        for _ in range(8):
            polynomial = np.uint32(0x82F63B78) if value & np.uint32(1) else np.uint32(0)
            value = (value >> np.uint32(1)) ^ polynomial
        remainders[byte] = value
    found = np.uint32(0xFFFFFFFF)
    for byte in data:
        found = remainders[(found ^ np.uint32(byte)) & np.uint32(0xFF)] ^ (found >> np.uint32(8))
    found ^= np.uint32(0xFFFFFFFF)
    turned = (found >> np.uint32(15)) | (found << np.uint32(17))
    return np.uint32(turned + np.uint32(0xA282EAD8))


def build(*, data: Bytes, offsets: Integers, values: Integers, common: bytes) -> bytes:
    """Make a transducer.

    Args:
        data: The words, in sequence, in the order of their bytes and each once; up to 64 MB.
        offsets: Shape (words + 1,): where each begins in `data`, and where the last one ends.
        values: Shape (words,): the number of each, 0 or more and below 2**31.
        common: The bytes that a node with one way can name in its state, the first as 1.

    Returns:
        Its bytes.
    """
    names = np.zeros(256, np.uint8)
    names[np.frombuffer(common, np.uint8)] = np.arange(1, len(common) + 1)
    places = 1 << min(_REMEMBERED, 4 * len(data) + 16).bit_length()
    table, found = np.full(places, -1, np.int32), np.zeros(1, np.int64)
    out = np.empty(_ROOM_OF_BYTE * len(data) + _MORE_ROOM, np.uint8)
    used = int(_build(data, offsets, values, names, table, out, found))
    out[:16] = np.frombuffer(struct.pack("<QQ", 3, 0), np.uint8)
    body = out[:used].tobytes() + struct.pack("<QQ", len(values), int(found[0]))
    return body + struct.pack("<I", int(_checksum(np.frombuffer(body, np.uint8))))
