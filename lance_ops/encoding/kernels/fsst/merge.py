"""FSST, one table for the strings of several.

A code of an old table stands for the same few codes of the new one wherever it occurs: the fewest that spell
its symbol. Finding these takes a moment for each symbol; `recode` replaces the codes then.
"""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels.loops import inner, loop, types
from lance_ops.encoding.kernels.words import (
    BYTES,
)

Flags = npt.NDArray[np.bool_]

_ESCAPE = 255
_SYMBOL_BYTES = 8
_HASH = np.uint64(0x9E3779B97F4A7C15)
_INTEGERS = types.Array(types.int64, 1, "C")
_READONLY_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_WORDS = types.Array(types.uint64, 1, "C")
_READONLY_WORDS = types.Array(types.uint64, 1, "C", readonly=True)


@inner
def _find(word, length, slots, words, lengths):
    """The slot of a symbol, or the free one where it belongs."""
    slot = np.intp(((word ^ np.uint64(length)) * _HASH) >> np.uint64(40)) & (len(slots) - 1)
    while slots[slot] >= 0 and (words[slots[slot]] != word or lengths[slots[slot]] != length):
        slot = (slot + 1) & (len(slots) - 1)
    return slot


@inner
def _mask(length):
    return np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(8 * (8 - length))


@loop(types.int64(_READONLY_WORDS, _READONLY_INTEGERS, _WORDS, _INTEGERS, _INTEGERS, _INTEGERS))
def _collect(words, lengths, found_words, found_lengths, numbers, slots):
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


@loop(types.void(_READONLY_WORDS, _READONLY_INTEGERS, _READONLY_INTEGERS, types.Array(types.int64, 3, "C")))
def _find_parts(words, lengths, slots, parts):
    for symbol in range(len(words)):
        for start in range(_SYMBOL_BYTES):
            for size in range(1, _SYMBOL_BYTES + 1):
                found = np.int64(-1)
                if start + size <= lengths[symbol]:
                    word = (words[symbol] >> np.uint64(8 * start)) & _mask(size)
                    found = slots[_find(word, size, slots, words, lengths)]
                parts[symbol, start, size - 1] = found


@inner
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


@loop(types.int64(_PARTS, _READONLY_INTEGERS, _READONLY_INTEGERS, types.int64, _FLAGS))
def _choose(parts, lengths, weights, most, chosen):
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


@loop(
    types.void(
        _PARTS,
        _READONLY_WORDS,
        _READONLY_INTEGERS,
        _FLAGS,
        _READONLY_INTEGERS,
        types.Array(types.uint64, 2, "C"),
        BYTES,
    )
)
def _translate(parts, words, lengths, chosen, codes, spelled, sizes):
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


def collect(
    *,
    words: Words64,
    lengths: Integers,
    found_words: Words64,
    found_lengths: Integers,
    numbers: Integers,
    slots: Integers,
) -> int:
    """Number the distinct symbols.

    Args:
        words: Shape (symbols,): their bytes, the first one lowest.
        lengths: Shape (symbols,): how many these are, from 1 to 8.
        found_words: Shape (symbols,): gets the distinct ones.
        found_lengths: Shape (symbols,): gets their lengths.
        numbers: Shape (symbols,): gets which of the distinct ones each is.
        slots: A power of two, at least twice as many as symbols, all -1; gets where `find_parts` looks.

    Returns:
        How many are distinct.
    """
    return int(_collect(words, lengths, found_words, found_lengths, numbers, slots))


def find_parts(*, words: Words64, lengths: Integers, slots: Integers, parts: Integers) -> None:
    """Find the symbols within symbols.

    Args:
        words: Shape (symbols,): as `collect` found them.
        lengths: Shape (symbols,): the same.
        slots: As `collect` filled them in.
        parts: Shape (symbols, 8, 8): gets the number of the symbol at each position of each length, less one;
            -1 where there is none.
    """
    _find_parts(words, lengths, slots, parts)


def choose(*, parts: Integers, lengths: Integers, weights: Integers, most: int, chosen: Flags) -> int:
    """Choose symbols by what it costs to do without the others.

    Args:
        parts: As `find_parts` filled them in.
        lengths: Shape (symbols,): in bytes.
        weights: Shape (symbols,): how often each occurs.
        most: How many may be chosen.
        chosen: Shape (symbols,): gets which are.

    Returns:
        How many codes spell all occurrences.
    """
    return int(_choose(parts, lengths, weights, most, chosen))


def translate(
    *,
    parts: Integers,
    words: Words64,
    lengths: Integers,
    chosen: Flags,
    codes: Integers,
    spelled: Words64,
    sizes: Bytes,
) -> None:
    """Spell symbols by those that were chosen.

    Args:
        parts: As `find_parts` filled them in.
        words: Shape (symbols,): as `collect` found them.
        lengths: Shape (symbols,): the same.
        chosen: Shape (symbols,): as `choose` filled them in.
        codes: Shape (symbols,): the code of each that was chosen.
        spelled: Shape (symbols, 2), u64: gets up to 16 codes, the first one lowest.
        sizes: Shape (symbols,): gets how many they are.
    """
    _translate(parts, words, lengths, chosen, codes, spelled, sizes)
