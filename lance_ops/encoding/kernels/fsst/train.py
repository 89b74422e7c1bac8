"""FSST training: finding the symbols of a table.

The symbols of one generation compress the sample, which counts how often each symbol and each pair of
consecutive ones occurs. The next generation are the symbols and concatenated pairs that saved most.
"""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels.fsst.places import KEYS, LAST_KEY, PLACES, TABLES, find_place, mask
from lance_ops.encoding.kernels.loops import inner, loop, types
from lance_ops.encoding.kernels.words import READONLY_BYTES, load_u64

_BYTES = 256
_CODES = 512
_MAX_SYMBOLS = 255
_SYMBOL_BYTES = 8
# Slots of the table that adds up the gain of equal candidates, half of which are used at most.
_SLOTS = 1 << 14
_SLOT_SHIFT = np.uint64(64 - 14)
_HASH = np.uint64(0x9E3779B97F4A7C15)
# Gains from here on are not distinguished when candidates are weeded out: few can be so large.
_MAX_GAIN = 1 << 14
_MAX_CANDIDATES = 1024
# Symbols of a single byte save an escape each, and what they save in speed counts, too.
_SINGLE_WEIGHT = 8
_INTEGERS = types.Array(types.int64, 1, "C")
_READONLY_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
_WORDS = types.Array(types.uint64, 1, "C")


@inner
def _arrange(words, lengths, count, order, firsts):
    """Symbols by their first byte, and the longest of these first."""
    firsts[:] = 0
    for symbol in range(count):
        firsts[np.intp(words[symbol] & np.uint64(255)) + 1] += 1
    for byte in range(_BYTES):
        firsts[byte + 1] += firsts[byte]
    filled = np.zeros(_BYTES, dtype=np.int64)
    for length in range(_SYMBOL_BYTES, 0, -1):
        for symbol in range(count):
            if lengths[symbol] == length:
                byte = np.intp(words[symbol] & np.uint64(255))
                order[firsts[byte] + filled[byte]] = symbol
                filled[byte] += 1


@inner
def _longest(word, rest, words, lengths, order, firsts):
    byte = np.intp(word & np.uint64(255))
    for place in range(firsts[byte], firsts[byte + 1]):
        symbol = order[place]
        if lengths[symbol] <= rest and word & mask(lengths[symbol]) == words[symbol]:
            return _BYTES + symbol
    return byte


@inner
def _count(sample, ends, words, lengths, count, order, firsts, singles, pairs, seen):
    """Compresses the sample; returns its size, and the number of distinct pairs in `seen`."""
    size = 0
    distinct = 0
    start = 0
    for string in range(len(ends)):
        end = ends[string]
        position = start
        before = -1
        while position < end:
            word = load_u64(sample, position)
            code = _longest(word, end - position, words, lengths, order, firsts)
            byte = np.intp(word & np.uint64(255))
            length = 1
            size += 1
            singles[code] += 1
            if code < _BYTES:
                size += 1
            else:
                length = lengths[code - _BYTES]
                if length > 1:
                    singles[byte] += 1
            if before >= 0:
                pair = before * _CODES + code
                if pairs[pair] == 0:
                    seen[distinct] = pair
                    distinct += 1
                pairs[pair] += 1
                if length > 1:
                    pair = before * _CODES + byte
                    if pairs[pair] == 0:
                        seen[distinct] = pair
                        distinct += 1
                    pairs[pair] += 1
            before = code
            position += length
        start = end
    return size, distinct


@inner
def _add(word, length, gain, slot_words, slot_lengths, slot_gains, used, taken):
    slot = np.intp(((word ^ np.uint64(length)) * _HASH) >> _SLOT_SHIFT)
    while slot_lengths[slot] != 0 and (slot_words[slot] != word or slot_lengths[slot] != length):
        slot = (slot + 1) & (_SLOTS - 1)
    if slot_lengths[slot] == 0:
        slot_words[slot] = word
        slot_lengths[slot] = length
        slot_gains[slot] = 0
        used[taken] = slot
        taken += 1
    slot_gains[slot] += gain
    return taken


@inner
def _choose(slot_words, slot_lengths, slot_gains, used, taken, words, lengths):
    """The candidates of the highest gain for which an encoder has places."""
    histogram = np.zeros(_MAX_GAIN + 1, dtype=np.int32)
    for candidate in range(taken):
        histogram[min(slot_gains[used[candidate]], _MAX_GAIN)] += 1
    threshold = _MAX_GAIN
    above = np.int64(histogram[threshold])
    while threshold > 1 and above + histogram[threshold - 1] <= _MAX_CANDIDATES:
        threshold -= 1
        above += histogram[threshold]
    best = np.empty(above, dtype=np.int64)
    gains = np.empty(above, dtype=np.int64)
    above = 0
    for candidate in range(taken):
        slot = used[candidate]
        if slot_gains[slot] >= threshold:
            best[above] = slot
            gains[above] = -slot_gains[slot]
            above += 1
    best = best[np.argsort(gains)]
    places = np.empty(TABLES * PLACES, dtype=np.bool_)
    chosen = 0
    chosen_gain = np.int64(-1)
    for choice in range(len(KEYS)):
        gain, _ = _select(best, slot_words, slot_lengths, slot_gains, KEYS[choice], places, words, lengths)
        if gain > chosen_gain:
            chosen, chosen_gain = choice, gain
    return _select(best, slot_words, slot_lengths, slot_gains, KEYS[chosen], places, words, lengths)[1]


@inner
def _select(best, slot_words, slot_lengths, slot_gains, keys, places, words, lengths):
    places[:] = False
    count = 0
    gain = np.int64(0)
    for slot in best:
        length = slot_lengths[slot]
        if length >= LAST_KEY:
            place = find_place(slot_words[slot], length, keys[0], keys[1], places)
            if place < 0:
                continue
            places[place] = True
        words[count] = slot_words[slot]
        lengths[count] = length
        gain += slot_gains[slot]
        count += 1
        if count == _MAX_SYMBOLS:
            break
    return gain, count


@loop(
    types.UniTuple(types.int64, 2)(
        READONLY_BYTES, _READONLY_INTEGERS, types.int64, types.int64, types.int64, _WORDS, _INTEGERS
    )
)
def _train(sample, ends, terminator, generations, least, best_words, best_lengths):
    words = np.zeros(_MAX_SYMBOLS, dtype=np.uint64)
    lengths = np.zeros(_MAX_SYMBOLS, dtype=np.int64)
    order = np.zeros(_MAX_SYMBOLS, dtype=np.int64)
    firsts = np.zeros(_BYTES + 1, dtype=np.int64)
    singles = np.zeros(_CODES, dtype=np.int64)
    pairs = np.zeros(_CODES * _CODES, dtype=np.int32)
    seen = np.empty(2 * len(sample), dtype=np.int64)
    slot_words = np.zeros(_SLOTS, dtype=np.uint64)
    slot_lengths = np.zeros(_SLOTS, dtype=np.int64)
    slot_gains = np.zeros(_SLOTS, dtype=np.int64)
    used = np.empty(_SLOTS, dtype=np.int64)
    end_byte = np.uint64(terminator)
    count = 0
    best_count = 0
    best_size = 2 * len(sample)
    for generation in range(generations + 1):
        _arrange(words, lengths, count, order, firsts)
        singles[:] = 0
        size, distinct = _count(sample, ends, words, lengths, count, order, firsts, singles, pairs, seen)
        if size < best_size:
            best_size = size
            best_count = count
            best_words[:count] = words[:count]
            best_lengths[:count] = lengths[:count]
        if generation == generations:
            break
        last = generation == generations - 1
        taken = 0
        for code in range(_BYTES + count):
            if singles[code] < least:
                continue
            if code < _BYTES:
                word, length = np.uint64(code), 1
            else:
                word, length = words[code - _BYTES], lengths[code - _BYTES]
            gain = singles[code] * length
            if length == 1:
                gain *= _SINGLE_WEIGHT
            taken = _add(word, length, gain, slot_words, slot_lengths, slot_gains, used, taken)
        for place in range(distinct):
            pair = seen[place]
            occurs = np.int64(pairs[pair])
            pairs[pair] = 0
            if last or occurs < least or taken >= _SLOTS // 2:
                continue
            left, right = pair // _CODES, pair % _CODES
            if left < _BYTES:
                word, length = np.uint64(left), 1
            else:
                word, length = words[left - _BYTES], lengths[left - _BYTES]
            if length == _SYMBOL_BYTES or (length == 1 and word == end_byte):
                continue
            if right < _BYTES:
                after, added = np.uint64(right), 1
            else:
                after, added = words[right - _BYTES], lengths[right - _BYTES]
            if added == 1 and after == end_byte:
                continue
            word |= after << np.uint64(8 * length)
            length = min(length + added, _SYMBOL_BYTES)
            taken = _add(word, length, occurs * length, slot_words, slot_lengths, slot_gains, used, taken)
        count = _choose(slot_words, slot_lengths, slot_gains, used, taken, words, lengths)
        for candidate in range(taken):
            slot_lengths[used[candidate]] = 0
    return best_count, best_size


def train(
    *,
    sample: Bytes,
    ends: Integers,
    terminator: int,
    generations: int,
    least: int,
    words: Words64,
    lengths: Integers,
) -> tuple[int, int]:
    """Find symbols.

    Args:
        sample: Strings in sequence, and eight bytes more.
        ends: Shape (strings,): where each string ends, not decreasing.
        terminator: A byte that no symbol of several bytes may have.
        generations: How many.
        least: How often a symbol or a pair must occur.
        words: Shape (255,): gets the bytes of the symbols, the first one lowest.
        lengths: Shape (255,): gets how many these are.

    Returns:
        The number of symbols, and the bytes of the compressed sample.
    """
    count, size = _train(sample, ends, terminator, generations, least, words, lengths)
    return count, size
