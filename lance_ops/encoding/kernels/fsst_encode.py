"""Compressing strings by a table of symbols.

A code takes some twenty instructions that wait for each other, among which the loads from the tables. Two
halves of the strings are compressed in turns, so that one can go on while the other waits.

Numba counts references of arrays around every branch in a function that is inlined, which costs more than the
rest: the functions of the inner loop have none, and what they would share is written twice.
"""

import numpy as np
from numba import njit, types

from lance_ops.encoding.kernels.fsst_places import (
    FACTOR,
    KEYS,
    LAST_KEY,
    PLACES,
    SHIFT,
    TABLES,
    find_place,
    mask,
)
from lance_ops.encoding.kernels.words import BYTES, READONLY_BYTES, load_u64, store_u16

_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_WORDS = types.Array(types.uint64, 1, "C", readonly=True)
_FOUND_WORDS = types.Array(types.uint64, 1, "C")
_FOUND_CODES = types.Array(types.uint32, 1, "C")
_PAIR_CODES = types.Array(types.uint16, 1, "C")

# What is found: the code, the length of the symbol from bit 8, in bit 12 whether it is an escape, and from
# bit 16 how many bits of a word the symbol does not use; pairs and single bytes do without the last.
_LENGTH = np.uint64(8)
_ESCAPED = 255 | 1 << 8 | 1 << 12
_LENGTH_MASK = np.uint64(15)
_ESCAPE_BIT = np.uint64(12)
_ONE = np.uint64(1)

_UNUSED = np.uint64(16)
_BYTE = np.uint64(255)
_PAIR = np.uint64(0xFFFF)


@njit
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
            found_codes[place] = np.uint32(symbol | length << 8 | (64 - 8 * length) << 16)
            placed += length
    for place in range(TABLES * PLACES):
        if found_codes[place] == 0:
            # Zeros belong to place 0 of a table, and the word 1 does not: nothing that gets here is equal.
            found_words[place] = 0 if place % PLACES else 1
            found_codes[place] = 8 << 8
    return placed


@njit(
    types.UniTuple(types.int64, 2)(_WORDS, _INTEGERS, _FOUND_WORDS, _FOUND_CODES, _PAIR_CODES),
    cache=True,
    nogil=True,
)
def prepare(words, lengths, found_words, found_codes, pair_codes):
    """Fill in the tables of an encoder.

    Args:
        words: Of the symbols.
        lengths: Of the symbols.
        found_words: Of each place of the three tables.
        found_codes: Of each place of the three tables.
        pair_codes: Of all pairs of two bytes, and then of the 256 single bytes.

    Returns:
        The lengths of the keys of the first two tables, the first being 0 if all tables are empty.
    """
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
            code = np.uint16(symbol | 1 << 8)
            pair_codes[(1 << 16) + byte] = code
            for second in range(256):
                pair_codes[byte | second << 8] = code
    for symbol in range(len(words)):
        if lengths[symbol] == 2:
            pair_codes[np.intp(words[symbol])] = np.uint16(symbol | 2 << 8)
    return first_key, second_key


@njit(inline="always")
def _prefer(word, place, found_words, found_codes, otherwise):
    found = np.uint64(found_codes[place])
    return found if (word ^ found_words[place]) << (found >> _UNUSED) == np.uint64(0) else otherwise


@njit(inline="always")
def _find(word, found, first_mask, second_mask, third_mask, found_words, found_codes):
    first = ((word & first_mask) * FACTOR) >> SHIFT
    second = (((word & second_mask) * FACTOR) >> SHIFT) + np.uint64(PLACES)
    third = (((word & third_mask) * FACTOR) >> SHIFT) + np.uint64(2 * PLACES)
    found = _prefer(word, third, found_words, found_codes, found)
    found = _prefer(word, second, found_words, found_codes, found)
    return _prefer(word, first, found_words, found_codes, found)


@njit
def _find_shorter(word, rest, found_words, found_codes, pair_codes):
    """What to take when the best symbol reaches into the next string."""
    if rest >= LAST_KEY:
        place = 2 * PLACES + np.intp(((word & mask(LAST_KEY)) * FACTOR) >> SHIFT)
        found = np.uint64(found_codes[place])
        length = np.intp(found >> _LENGTH & _LENGTH_MASK)
        if length <= rest and word & mask(length) == found_words[place]:
            return found
    if rest >= 2:
        return np.uint64(pair_codes[word & _PAIR])
    return np.uint64(pair_codes[(word & _BYTE) + np.uint64(1 << 16)])


@njit(inline="always")
def _put(out, at, word, found):
    # An escape is followed by the byte itself; what follows another code is overwritten.
    store_u16(out, at, np.uint16((word & _BYTE) << np.uint64(8) | found & _BYTE))


@njit(
    types.UniTuple(types.int64, 2)(
        READONLY_BYTES,
        READONLY_BYTES,
        _INTEGERS,
        types.int64,
        types.int64,
        types.int64,
        _FOUND_WORDS,
        _FOUND_CODES,
        _PAIR_CODES,
        BYTES,
        types.int64,
        types.Array(types.int64, 1, "C"),
    ),
    cache=True,
    nogil=True,
)
def encode(data, ending, offsets, half, first_key, second_key, words, codes, pairs, out, middle, out_offsets):
    """Compress strings.

    Args:
        data: The strings.
        ending: The last 8 bytes of the data, or as many as there are, and 8 bytes more.
        offsets: Of the strings in the data, within it and not decreasing.
        half: Number of the first string of the second half.
        first_key: As `prepare` says.
        second_key: As `prepare` says.
        words: As prepared.
        codes: As prepared.
        pairs: As prepared.
        out: Room for twice the bytes of each half.
        middle: Where the second half begins in the output.
        out_offsets: Of the compressed strings, those of each half counted in the output; the last is not
            written.

    Returns:
        Where the two halves end in the output.
    """
    first_mask, second_mask, third_mask = mask(max(first_key, 1)), mask(second_key), mask(LAST_KEY)
    # Without symbols of three bytes or more, pairs say it all.
    has_long = first_key > 0
    safe = len(data) - 8
    tail = max(safe, 0)
    value = np.array([-1, half - 1])
    lasts = np.array([half, len(offsets) - 1])
    one_at, other_at = 0, middle
    one, other = offsets[0], offsets[half]
    one_end, other_end = one, other
    while True:
        while one >= one_end and value[0] < half:
            value[0] += 1
            if value[0] < half:
                out_offsets[value[0]] = one_at
                one_end = offsets[value[0] + 1]
        while other >= other_end and value[1] < lasts[1]:
            value[1] += 1
            if value[1] < lasts[1]:
                out_offsets[value[1]] = other_at
                other_end = offsets[value[1] + 1]
        if value[0] >= half or value[1] >= lasts[1] or max(one_end, other_end) > safe:
            break
        while one < one_end and other < other_end:
            word = load_u64(data, one)
            found = np.uint64(pairs[word & _PAIR])
            if has_long:
                found = _find(word, found, first_mask, second_mask, third_mask, words, codes)
            if np.intp(found >> _LENGTH & _LENGTH_MASK) > one_end - one:
                found = _find_shorter(word, one_end - one, words, codes, pairs)
            _put(out, one_at, word, found)
            one += np.intp(found >> _LENGTH & _LENGTH_MASK)
            one_at += 1 + np.intp(found >> _ESCAPE_BIT & _ONE)
            word = load_u64(data, other)
            found = np.uint64(pairs[word & _PAIR])
            if has_long:
                found = _find(word, found, first_mask, second_mask, third_mask, words, codes)
            if np.intp(found >> _LENGTH & _LENGTH_MASK) > other_end - other:
                found = _find_shorter(word, other_end - other, words, codes, pairs)
            _put(out, other_at, word, found)
            other += np.intp(found >> _LENGTH & _LENGTH_MASK)
            other_at += 1 + np.intp(found >> _ESCAPE_BIT & _ONE)
    positions, ends, ats = (
        np.array([one, other]),
        np.array([one_end, other_end]),
        np.array([one_at, other_at]),
    )
    for which in range(2):
        position, end, at = positions[which], ends[which], ats[which]
        while value[which] < lasts[which]:
            while position < end:
                word = load_u64(data, position) if position <= safe else load_u64(ending, position - tail)
                found = np.uint64(pairs[word & _PAIR])
                if has_long:
                    found = _find(word, found, first_mask, second_mask, third_mask, words, codes)
                if np.intp(found >> _LENGTH & _LENGTH_MASK) > end - position:
                    found = _find_shorter(word, end - position, words, codes, pairs)
                _put(out, at, word, found)
                position += np.intp(found >> _LENGTH & _LENGTH_MASK)
                at += 1 + np.intp(found >> _ESCAPE_BIT & _ONE)
            value[which] += 1
            if value[which] < lasts[which]:
                out_offsets[value[which]] = at
                end = offsets[value[which] + 1]
        ats[which] = at
    return ats[0], ats[1]
