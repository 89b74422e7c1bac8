"""Posting lists of full-text indices: documents, ascending, and counts, in blocks."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Floats, Integers
from lance_ops.encoding.kernels.loops import inner, loop, types

_ROOM_OF_DOCUMENT, _ROOM_OF_BLOCK = 10, 10

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_PLACES = types.Array(types.int64, 1, "C", readonly=True)
_WORDS = types.Array(types.uint32, 1, "C", readonly=True)
_SCORES = types.Array(types.float32, 1, "C", readonly=True)
_LARGE = 256
_MAX_VARINT_BYTES = 5
_MAX_EXCEPTIONS = 31
CUT_OFF, TOO_WIDE, NOT_ASCENDING = -1, -2, -3
"""What can be wrong with posting lists."""


@inner(types.uint32(_BYTES, types.int64), inline="always")
def _word(data, at):
    return (
        np.uint32(data[at])
        | np.uint32(data[at + 1]) << np.uint32(8)
        | np.uint32(data[at + 2]) << np.uint32(16)
        | np.uint32(data[at + 3]) << np.uint32(24)
    )


@inner(types.void(_BYTES, types.int64, types.int64, types.int64, types.uint32[::1]))
def _unpack(data, at, width, size, values):
    lanes = size // 32
    mask = np.uint32(0xFFFFFFFF) if width == 32 else np.uint32((np.int64(1) << width) - 1)
    for number in range(32):
        bit = number * width
        word, shift = bit >> 5, bit & 31
        for lane in range(lanes):
            value = np.uint32(0)
            if width:
                value = _word(data, at + 4 * (word * lanes + lane)) >> np.uint32(shift)
                if shift + width > 32:
                    value |= _word(data, at + 4 * ((word + 1) * lanes + lane)) << np.uint32(32 - shift)
            values[number * lanes + lane] = value & mask


@loop(
    types.int64(
        _BYTES,
        _PLACES,
        _PLACES,
        types.int64,
        types.int64,
        types.boolean,
        types.int64[::1],
        types.uint32[::1],
    )
)
def _decode(data, offsets, lengths, size, head, varint_tail, documents, counts):
    values = np.empty(_LARGE, np.uint32)
    row, block = np.int64(0), np.int64(0)
    for length in lengths:
        left, last = length, np.int64(-1)
        while left > 0:
            at, stop = offsets[block] + head, offsets[block + 1]
            block += 1
            if left >= size:
                if at + 5 > stop:
                    return CUT_OFF
                document, width = np.int64(_word(data, at)), np.int64(data[at + 4])
                at += 5
                if width > 32:
                    return TOO_WIDE
                if at + width * size // 8 + 1 > stop:
                    return CUT_OFF
                _unpack(data, at, width, size, values)
                at += width * size // 8
                for place in range(size):
                    document += np.int64(values[place])
                    if document <= last:
                        return NOT_ASCENDING
                    last = document
                    documents[row + place] = document
                width = np.int64(data[at])
                at += 1
                exceptions = np.int64(0)
                if size == _LARGE:
                    if at >= stop:
                        return CUT_OFF
                    exceptions = np.int64(data[at])
                    at += 1
                if width > 32:
                    return TOO_WIDE
                if at + width * size // 8 > stop:
                    return CUT_OFF
                _unpack(data, at, width, size, values)
                at += width * size // 8
                for _ in range(exceptions):
                    if at >= stop or width >= 32:
                        return CUT_OFF
                    place = np.int64(data[at])
                    at += 1
                    upper, more = np.uint64(0), np.int64(0)
                    while True:
                        if at >= stop or more == _MAX_VARINT_BYTES:
                            return CUT_OFF
                        byte = data[at]
                        at += 1
                        upper |= np.uint64(byte & 0x7F) << np.uint64(7 * more)
                        more += 1
                        if byte < 0x80:
                            break
                    values[place] |= np.uint32(upper) << np.uint32(width)
                for place in range(size):
                    counts[row + place] = values[place]
                row += size
                left -= size
                continue
            if varint_tail:
                document = np.int64(0)
                for number in range(2 * left):
                    value, more = np.uint64(0), np.int64(0)
                    while True:
                        if at >= stop or more == _MAX_VARINT_BYTES:
                            return CUT_OFF
                        byte = data[at]
                        at += 1
                        value |= np.uint64(byte & 0x7F) << np.uint64(7 * more)
                        more += 1
                        if byte < 0x80:
                            break
                    if number < left:
                        document += np.int64(np.uint32(value))
                        documents[row + number] = document
                    else:
                        counts[row + number - left] = np.uint32(value)
                if at != stop:
                    return CUT_OFF
            else:
                if stop - at != 8 * left:
                    return CUT_OFF
                for number in range(left):
                    documents[row + number] = np.int64(_word(data, at + 4 * number))
                    counts[row + number] = _word(data, at + 4 * (left + number))
            for number in range(left):
                if documents[row + number] <= last:
                    return NOT_ASCENDING
                last = documents[row + number]
            row += left
            left = np.int64(0)
    return 0


@inner(types.int64(types.uint32), inline="always")
def _bits(value):
    bits = np.int64(0)
    while value:
        value >>= np.uint32(1)
        bits += 1
    return bits


@inner(types.int64(types.uint8[::1], types.int64, types.uint32), inline="always")
def _put_word(output, at, value):
    for place in range(4):
        output[at + place] = np.uint8((value >> np.uint32(8 * place)) & np.uint32(0xFF))
    return at + 4


@inner(
    types.int64(types.uint8[::1], types.int64, types.int64, types.int64, types.uint32[::1], types.uint32[::1])
)
def _pack(output, at, width, size, values, words):
    lanes = size // 32
    words[: width * lanes] = 0
    if width:
        for number in range(32):
            bit = number * width
            word, shift = bit >> 5, bit & 31
            for lane in range(lanes):
                value = values[number * lanes + lane]
                words[word * lanes + lane] |= value << np.uint32(shift)
                if shift + width > 32:
                    words[(word + 1) * lanes + lane] |= value >> np.uint32(32 - shift)
    for place in range(width * lanes):
        at = _put_word(output, at, words[place])
    return at


@inner(types.int64(types.uint8[::1], types.int64, types.uint32), inline="always")
def _put_varint(output, at, value):
    while value >= np.uint32(0x80):
        output[at] = np.uint8((value & np.uint32(0x7F)) | np.uint32(0x80))
        value >>= np.uint32(7)
        at += 1
    output[at] = np.uint8(value)
    return at + 1


@inner(types.int64(_WORDS, types.int64, types.int64, types.int64[::1]))
def _width(counts, row, size, having):
    having[:] = 0
    for place in range(size):
        having[_bits(counts[row + place])] += 1
    best = np.int64(32)
    while best > 0 and having[best] == 0:
        best -= 1
    if size != _LARGE:
        return best
    least, wide = size * best // 8, np.int64(0)
    for width in range(best - 1, -1, -1):
        wide += having[width + 1]
        if wide > _MAX_EXCEPTIONS:
            break
        cost = size * width // 8
        for bits in range(width + 1, 33):
            cost += having[bits] * (1 + (bits - width + 6) // 7)
        if cost < least:
            best, least = np.int64(width), cost
    return best


@loop(
    types.int64(
        _WORDS,
        _WORDS,
        _SCORES,
        _PLACES,
        types.int64,
        types.int64,
        types.boolean,
        types.uint8[::1],
        types.int64[::1],
        types.float32[::1],
    )
)
def _encode(documents, counts, scores, lengths, size, head, varint_tail, output, offsets, best):
    values, words = np.empty(size, np.uint32), np.empty(size, np.uint32)
    having = np.empty(33, np.int64)
    at, row, block = np.int64(0), np.int64(0), np.int64(0)
    for length in lengths:
        left = length
        while left > 0:
            held = min(left, size)
            offsets[block] = at
            greatest = scores[row]
            for place in range(1, held):
                greatest = max(greatest, scores[row + place])
            best[block] = greatest
            # Their bytes are put in by the caller, who can look at floats as bytes.
            at += head
            if held == size:
                at = _put_word(output, at, documents[row])
                values[0] = 0
                any_bits = np.uint32(0)
                for place in range(1, size):
                    values[place] = documents[row + place] - documents[row + place - 1]
                    any_bits |= values[place]
                width = _bits(any_bits)
                output[at] = width
                at = _pack(output, at + 1, width, size, values, words)
                width = _width(counts, row, size, having)
                output[at] = width
                at += 1
                wide_at = at
                if size == _LARGE:
                    at += 1
                kept = np.uint32((np.int64(1) << width) - 1)
                for place in range(size):
                    values[place] = counts[row + place] & kept
                at = _pack(output, at, width, size, values, words)
                if size == _LARGE:
                    wide = 0
                    for place in range(size):
                        if counts[row + place] > kept:
                            output[at] = np.uint8(place)
                            at = _put_varint(output, at + 1, counts[row + place] >> np.uint32(width))
                            wide += 1
                    output[wide_at] = wide
            elif varint_tail:
                at = _put_varint(output, at, documents[row])
                for place in range(1, held):
                    at = _put_varint(output, at, documents[row + place] - documents[row + place - 1])
                for place in range(held):
                    at = _put_varint(output, at, counts[row + place])
            else:
                for place in range(held):
                    at = _put_word(output, at, documents[row + place])
                for place in range(held):
                    at = _put_word(output, at, counts[row + place])
            row += held
            left -= held
            block += 1
    offsets[block] = at
    return at


@loop(
    types.void(
        _WORDS,
        _WORDS,
        _WORDS,
        types.int64[::1],
        types.uint32[::1],
        types.uint32[::1],
    )
)
def _arrange(words, documents, extra, places, documents_out, extra_out):
    for row in range(len(words)):
        place = places[words[row]]
        documents_out[place] = documents[row]
        extra_out[place] = extra[row]
        places[words[row]] = place + 1


def decode(
    *,
    data: Bytes,
    offsets: Integers,
    lengths: Integers,
    block_size: int,
    head_bytes: int,
    varint_tail: bool,
    documents: Integers,
    counts: npt.NDArray[np.uint32],
) -> int:
    """Read posting lists.

    Args:
        data: Their blocks.
        offsets: Shape (blocks + 1,): where each begins and the last one ends, ascending and within `data`.
        lengths: Documents of each list, which has a block for each `block_size` of them, the last not full.
        block_size: 128 or 256.
        head_bytes: What lies before the documents of a block.
        varint_tail: True if blocks that are not full have varints, and not numbers of 32 bits.
        documents: Filled: the documents of all lists.
        counts: Filled: how often each holds the word.

    Returns:
        0, or what is wrong with the first list that is wrong: a block ends too early or too late (`CUT_OFF`),
        its numbers have more than 32 bits (`TOO_WIDE`), or its documents do not ascend (`NOT_ASCENDING`).
    """
    return int(_decode(data, offsets, lengths, block_size, head_bytes, varint_tail, documents, counts))


def encode(
    *,
    documents: npt.NDArray[np.uint32],
    counts: npt.NDArray[np.uint32],
    scores: Floats,
    lengths: Integers,
    block_size: int,
    head_bytes: int,
    varint_tail: bool,
) -> tuple[Bytes, Integers, Floats]:
    """Write posting lists in blocks.

    Args:
        documents: Of all lists, those of one ascending.
        counts: How often each holds the word.
        scores: What each would score.
        lengths: Documents of each list, none without.
        block_size: 128 or 256.
        head_bytes: 4 where blocks begin with the best score of their documents, 0 where they do not.
        varint_tail: True if blocks that are not full get varints, and not numbers of 32 bits.

    Returns:
        (the blocks, in sequence; int64, shape (blocks + 1,): where each begins and the last one
        ends; the best score of each block).
    """
    blocks = int((-(-lengths // block_size)).sum())
    output = np.empty(_ROOM_OF_DOCUMENT * len(documents) + _ROOM_OF_BLOCK * blocks, np.uint8)
    offsets, best = np.empty(blocks + 1, np.int64), np.empty(blocks, np.float32)
    used = _encode(
        documents, counts, scores, lengths, block_size, head_bytes, varint_tail, output, offsets, best
    )
    written = output[: int(used)].copy()
    if head_bytes:
        written[offsets[:-1, None] + np.arange(4)] = best.astype("<f4").view(np.uint8).reshape(-1, 4)
    return written, offsets, best


def arrange(
    *,
    words: npt.NDArray[np.uint32],
    documents: npt.NDArray[np.uint32],
    extra: npt.NDArray[np.uint32],
    places: Integers,
    documents_out: npt.NDArray[np.uint32],
    extra_out: npt.NDArray[np.uint32],
) -> None:
    """Append entries to those of the same token, in order.

    Args:
        words: Word of each entry, below the length of `places`.
        documents: Document of each.
        extra: What else it has.
        places: Where the next entry of each word goes, with room for all of them; moved on.
        documents_out: Filled at these places.
        extra_out: Filled, too.
    """
    _arrange(words, documents, extra, places, documents_out, extra_out)
