"""Choosing one table of symbols for strings that several compress.

A code of an old table stands for the same few codes of the new one wherever it occurs: the fewest that spell
its symbol. Finding these takes a moment for each symbol; `recode` replaces the codes then.
"""

import numpy as np
from numba import njit, types

from lance_ops.encoding.kernels.words import (
    BYTES,
)

_ESCAPE = 255
_SYMBOL_BYTES = 8
_HASH = np.uint64(0x9E3779B97F4A7C15)

_INTEGERS = types.Array(types.int64, 1, "C")
_READONLY_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_WORDS = types.Array(types.uint64, 1, "C")
_READONLY_WORDS = types.Array(types.uint64, 1, "C", readonly=True)


@njit
def _find(word, length, slots, words, lengths):
    """The slot of a symbol, or the free one where it belongs."""
    slot = np.intp(((word ^ np.uint64(length)) * _HASH) >> np.uint64(40)) & (len(slots) - 1)
    while slots[slot] >= 0 and (words[slots[slot]] != word or lengths[slots[slot]] != length):
        slot = (slot + 1) & (len(slots) - 1)
    return slot


@njit
def _mask(length):
    return np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(8 * (8 - length))


@njit(
    types.int64(_READONLY_WORDS, _READONLY_INTEGERS, _WORDS, _INTEGERS, _INTEGERS, _INTEGERS),
    cache=True,
    nogil=True,
)
def collect(words, lengths, found_words, found_lengths, numbers, slots):
    """Number the distinct symbols; `slots` are twice as many as symbols at least, a power of two, all -1."""
    count = 0
    for symbol in range(len(words)):
        slot = _find(words[symbol], lengths[symbol], slots, found_words, found_lengths)
        if slots[slot] < 0:
            slots[slot] = count
            found_words[count] = words[symbol]
            found_lengths[count] = lengths[symbol]
            count += 1
        numbers[symbol] = slots[slot]
    return count


@njit(
    types.void(_READONLY_WORDS, _READONLY_INTEGERS, _READONLY_INTEGERS, types.Array(types.int64, 3, "C")),
    cache=True,
    nogil=True,
)
def find_parts(words, lengths, slots, parts):
    """Number the parts of each symbol that are symbols themselves, by start and length; -1 for others."""
    for symbol in range(len(words)):
        for start in range(_SYMBOL_BYTES):
            for size in range(1, _SYMBOL_BYTES + 1):
                found = np.int64(-1)
                if start + size <= lengths[symbol]:
                    word = (words[symbol] >> np.uint64(8 * start)) & _mask(size)
                    found = slots[_find(word, size, slots, words, lengths)]
                parts[symbol, start, size - 1] = found


@njit
def _spell(parts, symbol, length, chosen, without, costs, steps):
    """The fewest codes of chosen symbols, escapes counted as two, that spell one."""
    costs[length] = 0
    for start in range(length - 1, -1, -1):
        best = costs[start + 1] + 2
        step = 0
        for size in range(1, length - start + 1):
            part = parts[symbol, start, size - 1]
            if part >= 0 and chosen[part] and part != without and costs[start + size] + 1 < best:
                best = costs[start + size] + 1
                step = size
        costs[start] = best
        steps[start] = step
    return costs[0]


_PARTS = types.Array(types.int64, 3, "C")
_FLAGS = types.Array(types.boolean, 1, "C")


@njit(
    types.int64(_PARTS, _READONLY_INTEGERS, _READONLY_INTEGERS, types.int64, _FLAGS), cache=True, nogil=True
)
def choose(parts, lengths, weights, most, chosen):
    """Drop symbols until `most` are left, those first whose loss costs least; how many codes are needed."""
    costs = np.zeros(_SYMBOL_BYTES + 1, dtype=np.int64)
    steps = np.zeros(_SYMBOL_BYTES + 1, dtype=np.int64)
    count = len(lengths)
    uses = np.zeros(count, dtype=np.int64)
    chosen[:] = True
    left = count
    while True:
        uses[:] = 0
        total = np.int64(0)
        for symbol in range(count):
            if weights[symbol] == 0:
                continue
            total += weights[symbol] * _spell(parts, symbol, lengths[symbol], chosen, -1, costs, steps)
            at = 0
            while at < lengths[symbol]:
                if steps[at] == 0:
                    at += 1
                    continue
                uses[parts[symbol, at, steps[at] - 1]] += weights[symbol]
                at += steps[at]
        if left <= most:
            return total
        losses = np.empty(left, dtype=np.int64)
        those = np.empty(left, dtype=np.int64)
        place = 0
        for symbol in range(count):
            if chosen[symbol]:
                without = _spell(parts, symbol, lengths[symbol], chosen, symbol, costs, steps)
                losses[place] = uses[symbol] * (without - 1)
                those[place] = symbol
                place += 1
        order = np.argsort(losses, kind="mergesort")
        for place in range(max(1, (left - most + 2) // 3)):
            chosen[those[order[place]]] = False
            left -= 1


@njit(
    types.void(
        _PARTS,
        _READONLY_WORDS,
        _READONLY_INTEGERS,
        _FLAGS,
        _READONLY_INTEGERS,
        types.Array(types.uint64, 2, "C"),
        BYTES,
    ),
    cache=True,
    nogil=True,
)
def translate(parts, words, lengths, chosen, codes, spelled, sizes):
    """Fill in the codes, up to 16, that spell each symbol, and how many they are."""
    costs = np.zeros(_SYMBOL_BYTES + 1, dtype=np.int64)
    steps = np.zeros(_SYMBOL_BYTES + 1, dtype=np.int64)
    for symbol in range(len(words)):
        _spell(parts, symbol, lengths[symbol], chosen, -1, costs, steps)
        spelled[symbol, 0] = 0
        spelled[symbol, 1] = 0
        size = 0
        at = 0
        while at < lengths[symbol]:
            if steps[at] == 0:
                byte = (words[symbol] >> np.uint64(8 * at)) & np.uint64(255)
                spelled[symbol, size >> 3] |= np.uint64(_ESCAPE) << np.uint64(8 * (size & 7))
                size += 1
                spelled[symbol, size >> 3] |= byte << np.uint64(8 * (size & 7))
                at += 1
            else:
                code = np.uint64(codes[parts[symbol, at, steps[at] - 1]])
                spelled[symbol, size >> 3] |= code << np.uint64(8 * (size & 7))
                at += steps[at]
            size += 1
        sizes[symbol] = size
