"""Numbering distinct values in the order in which they first occur.

A table of slots, at most half full, has the number of a value at the hash of its bytes or behind it. It is
small at first, so that few distinct values stay in the nearest cache.
"""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Integers, Offsets, Words64
from lance_ops.encoding.kernels.loops import inner, loop, types
from lance_ops.encoding.kernels.words import BYTES, READONLY_BYTES, copy_bytes, peek_u8, peek_u64

SPARE_BYTES = 8
"""Bytes behind the items of strings, which may be read and written."""

_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_WORDS = types.Array(types.uint64, 1, "C", readonly=True, aligned=False)
_INTEGERS = types.Array(types.int64, 1, "C")
_HASHES = types.Array(types.uint64, 1, "C")
_POSITIONS = types.Array(types.uint32, 1, "C")
_OFFSETS = (types.Array(types.int32, 1, "C", readonly=True), _NUMBERS)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_EIGHT = np.uint64(8)
_HALF = np.uint64(32)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_FREE = np.uint32(0xFFFFFFFF)
_FIRST_SLOTS = 1 << 10
_FIRST_SHIFT = np.uint64(64 - 10)
TOO_MANY = -1


@inner(inline="always")
def _mix(hashed, word):
    hashed = (hashed ^ word) * _FACTOR
    return hashed ^ (hashed >> _HALF)


@inner(inline="always")
def _slot(hashed, shift):
    # Whatever differs gets to the highest bits.
    return (hashed * _FACTOR) >> shift


@inner
def _load(address, size, room):
    """Up to eight bytes, and zeros behind them; as many bytes as there is room can be read."""
    if size == _ZERO:
        return _ZERO
    if room >= _EIGHT:
        return peek_u64(address) & (_ALL >> (_EIGHT * (_EIGHT - size)))
    word = _ZERO
    for byte in range(size):
        word |= np.uint64(peek_u8(address + byte)) << (_EIGHT * byte)
    return word


@inner
def _hash_rest(hashed, address, size):
    """All but the first eight bytes, of which there are more; the last ones may count twice."""
    done = _EIGHT
    while done + _EIGHT < size:
        hashed = _mix(hashed, peek_u64(address + done))
        done += _EIGHT
    return _mix(hashed, peek_u64(address + size - _EIGHT))


@inner
def _are_equal(one, other, size):
    """Return whether strings of more than eight bytes are equal."""
    done = _ZERO
    while done + _EIGHT < size:
        if peek_u64(one + done) != peek_u64(other + done):
            return False
        done += _EIGHT
    return peek_u64(one + size - _EIGHT) == peek_u64(other + size - _EIGHT)


@inner
def _grow(slots, shift, hashes, count):
    grown = np.full(4 * len(slots), _FREE, dtype=np.uint32)
    last, shift = np.uint64(len(grown) - 1), shift - _TWO
    for number in range(count):
        slot = _slot(hashes[number], shift)
        while grown[slot] != _FREE:
            slot = (slot + _ONE) & last
        grown[slot] = number
    return grown, last, shift


@loop(
    [
        types.int64(READONLY_BYTES, offsets, types.int64, types.int64, _POSITIONS, BYTES, _INTEGERS, _HASHES)
        for offsets in _OFFSETS
    ]
)
def _number_strings(data, offsets, limit, max_bytes, positions, items, item_offsets, hashes):
    slots = np.full(_FIRST_SLOTS, _FREE, dtype=np.uint32)
    last, shift = np.uint64(len(slots) - 1), _FIRST_SHIFT
    count = 0
    item_offsets[0] = 0
    base = np.int64(offsets[0])
    end = np.int64(0)
    in_data, in_items = np.uint64(data.ctypes.data), np.uint64(items.ctypes.data)
    for string in range(len(offsets) - 1):
        start = end
        end = np.int64(offsets[string + 1]) - base
        address, size = in_data + np.uint64(start), np.uint64(end - start)
        word = _load(address, min(size, _EIGHT), np.uint64(len(data) - start))
        hashed = _mix(_mix(_FACTOR, size), word)
        if size > _EIGHT:
            hashed = _hash_rest(hashed, address, size)
        slot = _slot(hashed, shift)
        while True:
            number = slots[slot]
            if number == _FREE:
                before = item_offsets[count]
                after = before + (end - start)
                if count == limit or after > max_bytes:
                    return TOO_MANY
                number = np.uint32(count)
                slots[slot] = number
                hashes[count] = hashed
                copy_bytes(items, before, data, start, end - start)
                count += 1
                item_offsets[count] = after
                if 2 * count > len(slots):
                    slots, last, shift = _grow(slots, shift, hashes, count)
                break
            if hashes[number] == hashed:
                item = in_items + np.uint64(item_offsets[number])
                if np.uint64(item_offsets[number + 1] - item_offsets[number]) == size:
                    if size <= _EIGHT:
                        if _load(item, size, _EIGHT) == word:
                            break
                    elif _are_equal(address, item, size):
                        break
            slot = (slot + _ONE) & last
        positions[string] = number
    return count


@loop(types.int64(_WORDS, types.int64, types.int64, _POSITIONS, _INTEGERS, _HASHES))
def _number_words(words, width, limit, positions, firsts, hashes):
    slots = np.full(_FIRST_SLOTS, _FREE, dtype=np.uint32)
    last, shift = np.uint64(len(slots) - 1), _FIRST_SHIFT
    count = 0
    in_words, width_bytes = np.uint64(words.ctypes.data), np.uint64(8 * width)
    address = in_words
    for value in range(len(words) // width):
        after = address + width_bytes
        hashed = _mix(_FACTOR, peek_u64(address))
        if width > 1:
            hashed = _hash_rest(hashed, address, width_bytes)
        slot = _slot(hashed, shift)
        while True:
            number = slots[slot]
            if number == _FREE:
                if count == limit:
                    return TOO_MANY
                number = np.uint32(count)
                slots[slot] = number
                hashes[count] = hashed
                firsts[count] = value
                count += 1
                if 2 * count > len(slots):
                    slots, last, shift = _grow(slots, shift, hashes, count)
                break
            if hashes[number] == hashed:
                # The hash of a single word is never that of another one.
                first = in_words + np.uint64(firsts[number]) * width_bytes
                if width == 1 or _are_equal(address, first, width_bytes):
                    break
            slot = (slot + _ONE) & last
        positions[value] = number
        address = after
    return count


def number_strings(
    *,
    data: Bytes,
    offsets: Offsets,
    limit: int,
    max_bytes: int,
    positions: npt.NDArray[np.uint32],
    items: Bytes,
    item_offsets: Integers,
    hashes: Words64,
) -> int:
    """Number strings.

    Args:
        data: The bytes from the first offset on, as many as the offsets say.
        offsets: Shape (strings + 1,), not decreasing.
        limit: How many distinct ones there may be.
        max_bytes: How many bytes these may have.
        positions: Shape (strings,): gets the number of each string.
        items: Room for the bytes of the distinct strings, as many as there may be, and `SPARE_BYTES` more.
        item_offsets: Shape (limit + 1,): gets their offsets.
        hashes: Shape (limit,), for the loop to keep hashes in.

    Returns:
        How many distinct strings there are, or `TOO_MANY`.
    """
    return int(_number_strings(data, offsets, limit, max_bytes, positions, items, item_offsets, hashes))


def number_words(
    *,
    words: Words64,
    width: int,
    limit: int,
    positions: npt.NDArray[np.uint32],
    firsts: Integers,
    hashes: Words64,
) -> int:
    """Number values of a fixed number of words.

    Args:
        words: Shape (values * width,): of the values; need not be aligned.
        width: Words of a value, at least 1.
        limit: How many distinct ones there may be.
        positions: Shape (values,): gets the number of each value.
        firsts: Shape (limit,): gets the position at which each distinct value first occurs.
        hashes: Shape (limit,), for the loop to keep hashes in.

    Returns:
        How many distinct values there are, or `TOO_MANY`.
    """
    return int(_number_words(words, width, limit, positions, firsts, hashes))
