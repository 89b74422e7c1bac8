"""FSST encoding: strings into codes of a table of symbols.

A code takes some fifty instructions that wait for each other, among which the loads from the tables. Two
halves of the strings are compressed in turns, so that one can go on while the other waits; more than two do
not fit into the registers. The end of a string is no branch, which nothing could predict.

Numba counts references of arrays around every branch in a function that is inlined, which costs more than the
rest: the functions of the inner loop are given addresses instead, and what they would share is written twice.
"""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Levels, Offsets, Words64
from lance_ops.encoding.kernels.fsst.places import (
    FACTOR,
    KEYS,
    LAST_KEY,
    PLACES,
    SHIFT,
    TABLES,
    find_place,
    mask,
)
from lance_ops.encoding.kernels.loops import inner, loop, types
from lance_ops.encoding.kernels.words import (
    BYTES,
    READONLY_BYTES,
    load_u64,
    peek_u16,
    peek_u64,
    poke_u8,
    poke_u64,
)

ALL_PLACES = 3 << 10
"""Of the three tables of symbols of three bytes or more."""
ALL_PAIRS = (1 << 16) + 256
"""All pairs of two bytes, and then all single bytes."""
_Codes = Levels

_INTEGERS = types.Array(types.int64, 1, "C")
_READONLY_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_OFFSETS = (types.Array(types.int32, 1, "C", readonly=True), _READONLY_INTEGERS)
_WORDS = types.Array(types.uint64, 1, "C", readonly=True)
_FOUND_WORDS = types.Array(types.uint64, 1, "C")
_FOUND_CODES = types.Array(types.uint16, 1, "C")
# What is found: the bits of the symbol in the lowest seven bits, then the code, and in the highest bit if
# it is an escape.
_BITS = np.uint64(127)
_BYTES_SHIFT = np.uint64(3)
_CODE_SHIFT = np.uint64(7)
_ESCAPE_SHIFT = np.uint64(15)
_ESCAPED = 8 | 255 << 7 | 1 << 15
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_WORD_SHIFT = np.uint64(3)
_WORD_BYTES = 8
_WORD_BITS = np.uint64(64)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_BYTE = np.uint64(255)
_PAIR = np.uint64(0xFFFF)
_SINGLES = np.uint64(1 << 16)
_SECOND = np.uint64(PLACES)
_THIRD = np.uint64(2 * PLACES)
_THIRD_MASK = np.uint64((1 << 8 * LAST_KEY) - 1)


@inner
def _place(words, lengths, first_key, second_key, found_words, found_codes):
    found_codes[:] = 0
    placed = 0
    for symbol in range(len(words)):
        length = lengths[symbol]
        if length < LAST_KEY:
            continue
        place = find_place(words[symbol], length, first_key, second_key, found_codes)
        if place >= 0:
            found_words[place] = words[symbol]
            found_codes[place] = np.uint16(8 * length | symbol << 7)
            placed += length
    for place in range(TABLES * PLACES):
        if found_codes[place] == 0:
            # Zeros belong to place 0 of a table, and the word 1 does not: nothing that gets here is equal.
            found_words[place] = 0 if place % PLACES else 1
            found_codes[place] = 64
    return placed


@loop(types.UniTuple(types.int64, 2)(_WORDS, _READONLY_INTEGERS, _FOUND_WORDS, _FOUND_CODES, _FOUND_CODES))
def _prepare(words, lengths, found_words, found_codes, pair_codes):
    best, best_bytes = 0, 0
    for choice in range(len(KEYS)):
        placed = _place(words, lengths, KEYS[choice, 0], KEYS[choice, 1], found_words, found_codes)
        if placed > best_bytes:
            best, best_bytes = choice, placed
    first_key, second_key = KEYS[best, 0], KEYS[best, 1]
    if best_bytes == 0:
        first_key = 0
    _place(words, lengths, KEYS[best, 0], second_key, found_words, found_codes)
    pair_codes[:] = _ESCAPED
    for symbol in range(len(words)):
        if lengths[symbol] == 1:
            byte = np.intp(words[symbol])
            code = np.uint16(8 | symbol << 7)
            pair_codes[(1 << 16) + byte] = code
            for second in range(256):
                pair_codes[byte | second << 8] = code
    for symbol in range(len(words)):
        if lengths[symbol] == 2:
            pair_codes[np.intp(words[symbol])] = np.uint16(16 | symbol << 7)
    return first_key, second_key


@loop([types.int64(offsets, _INTEGERS) for offsets in _OFFSETS])
def _find_ends(offsets, ends):
    count = 0
    for string in range(len(offsets) - 1):
        ends[count] = offsets[string + 1] - offsets[0]
        count += offsets[string + 1] != offsets[string]
    return count


@loop([types.void(offsets, _READONLY_INTEGERS, _INTEGERS) for offsets in _OFFSETS])
def _fill_offsets(offsets, ends, out_offsets):
    string = 0
    at = np.int64(0)
    out_offsets[0] = 0
    for number in range(len(offsets) - 1):
        if offsets[number + 1] != offsets[number]:
            at = ends[string]
            string += 1
        out_offsets[number + 1] = at


@inner(inline="always")
def _prefer(word, place, first, words, codes, otherwise):
    found = np.uint64(peek_u16(codes + (place << _ONE) + (first << _ONE)))
    used = word & (_ALL >> (_WORD_BITS - (found & _BITS)))
    return found if used == peek_u64(words + (place << _WORD_SHIFT) + (first << _WORD_SHIFT)) else otherwise


@inner(inline="always")
def _find(word, found, first_mask, second_mask, words, codes):
    third = ((word & _THIRD_MASK) * FACTOR) >> SHIFT
    second = ((word & second_mask) * FACTOR) >> SHIFT
    first = ((word & first_mask) * FACTOR) >> SHIFT
    found = _prefer(word, third, _THIRD, words, codes, found)
    found = _prefer(word, second, _SECOND, words, codes, found)
    return _prefer(word, first, _ZERO, words, codes, found)


@inner
def _find_shorter(word, rest, words, codes, pairs):
    """What to take when the best symbol reaches into the next string."""
    if rest >= np.uint64(LAST_KEY):
        place = ((word & _THIRD_MASK) * FACTOR) >> SHIFT
        found = _prefer(word, place, _THIRD, words, codes, _ALL)
        if found != _ALL and (found & _BITS) >> _BYTES_SHIFT <= rest:
            return found
    if rest >= _TWO:
        return np.uint64(peek_u16(pairs + ((word & _PAIR) << _ONE)))
    return np.uint64(peek_u16(pairs + (((word & _BYTE) + _SINGLES) << _ONE)))


@inner(inline="always")
def _put(target, word, found):
    # An escape is followed by the byte itself; what follows another code is overwritten.
    poke_u8(target, np.uint8(found >> _CODE_SHIFT))
    poke_u8(target + _ONE, np.uint8(word))


@loop(
    types.UniTuple(types.int64, 2)(
        READONLY_BYTES,
        READONLY_BYTES,
        _READONLY_INTEGERS,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        _FOUND_WORDS,
        _FOUND_CODES,
        _FOUND_CODES,
        BYTES,
        types.int64,
        _INTEGERS,
    )
)
def _encode(
    data, ending, ends, count, half, first_key, second_key, words, codes, pairs, out, middle, out_ends
):
    first_mask, second_mask = mask(max(first_key, 1)), mask(second_key)
    # Without symbols of three bytes or more, pairs say it all.
    has_long = first_key > 0
    # In front of here, eight bytes can be loaded anywhere in a string.
    safe = len(data) - (_WORD_BYTES - 1)
    limits = np.array([half, count])
    for which in range(2):
        while limits[which] > 0 and ends[limits[which] - 1] > safe:
            limits[which] -= 1
    from_data, from_ends = np.uint64(data.ctypes.data), np.uint64(ends.ctypes.data)
    to_out, to_ends = np.uint64(out.ctypes.data), np.uint64(out_ends.ctypes.data)
    in_words, in_codes = np.uint64(words.ctypes.data), np.uint64(codes.ctypes.data)
    in_pairs = np.uint64(pairs.ctypes.data)
    one_value, other_value = _ZERO, np.uint64(half)
    one_limit, other_limit = np.uint64(limits[0]), np.uint64(max(limits[1], half))
    one, other = _ZERO, np.uint64(ends[half - 1] if half else 0)
    one_at, other_at = _ZERO, np.uint64(middle)
    one_end, other_end = np.uint64(ends[0]), np.uint64(ends[half])
    while one_value < one_limit and other_value < other_limit:
        word = peek_u64(from_data + one)
        found = np.uint64(peek_u16(in_pairs + ((word & _PAIR) << _ONE)))
        if has_long:
            found = _find(word, found, first_mask, second_mask, in_words, in_codes)
        rest = one_end - one
        length = (found & _BITS) >> _BYTES_SHIFT
        if length > rest:
            found = _find_shorter(word, rest, in_words, in_codes, in_pairs)
            length = (found & _BITS) >> _BYTES_SHIFT
        _put(to_out + one_at, word, found)
        one += length
        one_at += _ONE + (found >> _ESCAPE_SHIFT)
        poke_u64(to_ends + (one_value << _WORD_SHIFT), one_at)
        one_value += np.uint64(length == rest)
        one_end = peek_u64(from_ends + (one_value << _WORD_SHIFT))
        word = peek_u64(from_data + other)
        found = np.uint64(peek_u16(in_pairs + ((word & _PAIR) << _ONE)))
        if has_long:
            found = _find(word, found, first_mask, second_mask, in_words, in_codes)
        rest = other_end - other
        length = (found & _BITS) >> _BYTES_SHIFT
        if length > rest:
            found = _find_shorter(word, rest, in_words, in_codes, in_pairs)
            length = (found & _BITS) >> _BYTES_SHIFT
        _put(to_out + other_at, word, found)
        other += length
        other_at += _ONE + (found >> _ESCAPE_SHIFT)
        poke_u64(to_ends + (other_value << _WORD_SHIFT), other_at)
        other_value += np.uint64(length == rest)
        other_end = peek_u64(from_ends + (other_value << _WORD_SHIFT))
    # One half has strings left, or both have some at the end of the data.
    positions = np.array([one, other]).astype(np.int64)
    ats = np.array([one_at, other_at]).astype(np.int64)
    values = np.array([one_value, other_value]).astype(np.int64)
    limits[0], limits[1] = half, count
    tail = max(len(data) - _WORD_BYTES, 0)
    for which in range(2):
        position, at = positions[which], ats[which]
        for value in range(values[which], limits[which]):
            end = ends[value]
            while position < end:
                word = load_u64(data, position) if position < safe else load_u64(ending, position - tail)
                found = np.uint64(peek_u16(in_pairs + ((word & _PAIR) << _ONE)))
                if has_long:
                    found = _find(word, found, first_mask, second_mask, in_words, in_codes)
                rest = np.uint64(end - position)
                if (found & _BITS) >> _BYTES_SHIFT > rest:
                    found = _find_shorter(word, rest, in_words, in_codes, in_pairs)
                _put(to_out + np.uint64(at), word, found)
                position += np.intp((found & _BITS) >> _BYTES_SHIFT)
                at += 1 + np.intp(found >> _ESCAPE_SHIFT)
            out_ends[value] = at
        ats[which] = at
    return ats[0], ats[1]


def prepare(
    *,
    words: Words64,
    lengths: Integers,
    found_words: Words64,
    found_codes: _Codes,
    pair_codes: _Codes,
) -> tuple[int, int]:
    """Fill in the tables of an encoder.

    Args:
        words: Shape (symbols,), at most 255: their bytes, the first one lowest.
        lengths: Shape (symbols,): how many these are, from 1 to 8.
        found_words: Shape (ALL_PLACES,): gets the symbol of each place.
        found_codes: Shape (ALL_PLACES,): gets the code of each place, and its length.
        pair_codes: Shape (ALL_PAIRS,): gets the code of each pair and of each byte, and its length.

    Returns:
        The bytes of the keys of the first two tables, the first being 0 if all tables are empty.
    """
    first_key, second_key = _prepare(words, lengths, found_words, found_codes, pair_codes)
    return first_key, second_key


def encode(
    *,
    data: Bytes,
    ending: Bytes,
    ends: Integers,
    count: int,
    half: int,
    keys: tuple[int, int],
    words: Words64,
    codes: _Codes,
    pairs: _Codes,
    out: Bytes,
    middle: int,
    out_ends: Integers,
) -> tuple[int, int]:
    """Compress strings that are not empty and follow each other from the start of the data.

    Args:
        data: The strings.
        ending: The last 8 bytes of the data, or as many as there are, and 8 bytes more.
        ends: Shape (count + 1,): of the strings in the data, rising; the last one is not used.
        count: Number of strings, at least 1.
        half: Number of the first string of the second half, up to `count`.
        keys: As `prepare` says.
        words: As `prepare` filled them in.
        codes: As `prepare` filled them in.
        pairs: As `prepare` filled them in.
        out: Room for twice the bytes of each half.
        middle: Where the second half begins in the output.
        out_ends: Shape (count,): gets the ends of the compressed strings; those of each half are counted from
            the start of the output.

    Returns:
        Where the two halves end in the output.
    """
    plain = (data, ending, ends, count, half)
    first_end, second_end = _encode(*plain, *keys, words, codes, pairs, out, middle, out_ends)
    return first_end, second_end


def find_ends(*, offsets: Offsets, ends: Integers) -> int:
    """Return the ends of the non-empty strings, counted from the first offset.

    Args:
        offsets: Shape (strings + 1,), not decreasing.
        ends: Shape (strings + 1,): gets the ends; what is behind them may be written.

    Returns:
        How many strings are not empty.
    """
    return int(_find_ends(offsets, ends))


def fill_offsets(*, offsets: Offsets, ends: Integers, out_offsets: Integers) -> None:
    """Fill in the offsets of empty strings.

    Args:
        offsets: As `find_ends` was given them.
        ends: Of the compressed strings that are not empty.
        out_offsets: Shape (strings + 1,): gets the offsets of all compressed strings.
    """
    _fill_offsets(offsets, ends, out_offsets)
