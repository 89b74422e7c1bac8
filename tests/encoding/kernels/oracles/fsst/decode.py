"""FSST decoding: all codes of a block at once, whose unused bytes are dropped."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Offsets, Words64
from tests.encoding.kernels.oracles.ranges import positions as places_of

MALFORMED = -1
ENDS_WITHIN_ESCAPE = -2
UNKNOWN_SYMBOL = -3
NO_ROOM = -4
SPARE_BYTES = 72
"""Room behind the last symbol."""

_BLOCK_CODES = 64 << 10
_CODES = 256
_ESCAPE = 255
_SYMBOL_BYTES = 8


def decode_values(
    *,
    data: Bytes,
    positions: Integers,
    words: Words64,
    lengths: Integers,
    known: int,
    literals: Bytes,
    out: Bytes,
    out_offsets: Offsets,
) -> int:
    """Decode consecutive strings; the bytes of all, or what is wrong."""
    if bool((np.diff(positions) < 0).any()):
        return MALFORMED
    # For each code, which of the eight bytes of its symbol count.
    used = (np.arange(_SYMBOL_BYTES) < lengths[:, np.newaxis]).view(np.uint64).reshape(-1)
    count = len(positions) - 1
    out_offsets[0] = first = total = 0
    while first < count:
        # Blocks keep the intermediate arrays within the processor's caches.
        last = int(np.searchsorted(positions, positions[first] + _BLOCK_CODES, side="right")) - 1
        last = max(last, first + 1)
        codes = data[int(positions[first]) : int(positions[last])]
        starts = positions[first : last + 1] - positions[first]
        values, keep = words[codes], used[codes]
        escapes = _find_escapes(codes)
        absent = codes >= known
        if len(escapes):
            escaped = escapes + 1
            # A string that ends within an escape would lend its last code to the next string.
            if int(escaped[-1]) >= len(codes) or bool(np.isin(escaped, starts).any()):
                return ENDS_WITHIN_ESCAPE
            values[escaped] = codes[escaped]
            keep[escaped] = 1
            keep[escapes] = 0
            absent[escaped] = absent[escapes] = False
            literals[0] |= np.bitwise_or.reduce(codes[escaped])
        if bool(absent.any()):
            return UNKNOWN_SYMBOL
        ends = np.zeros(len(codes) + 1, dtype=np.int64)
        # Each kept byte counts one: multiplying adds up the eight of a word in its highest byte.
        np.cumsum((keep * np.uint64(0x0101010101010101)) >> np.uint64(56), out=ends[1:])
        size = int(ends[-1])
        if total + size > len(out) - SPARE_BYTES:
            return NO_ROOM
        out[total : total + size] = values.view(np.uint8)[keep.view(np.bool_)]
        out_offsets[first : last + 1] = total + ends[starts]
        first, total = last, total + size
    return total


def decode_chunks(
    *,
    data: Bytes,
    starts: Integers,
    sizes: Integers,
    counts: Integers,
    width: int,
    tables: Integers,
    words: Words64,
    lengths: Integers,
    known: Integers,
    literals: Bytes,
    out: Bytes,
    out_offsets: Offsets,
) -> int:
    """Decode the strings of chunks; the bytes of all, or what is wrong."""
    first = total = 0
    out_offsets[0] = 0
    chunks = zip(starts.tolist(), sizes.tolist(), counts.tolist(), tables.tolist(), strict=True)
    for start, size, count, table in chunks:
        head = (count + 1) * width
        offsets = data[start : start + head].view(f"<u{width}").astype(np.int64)
        if int(offsets.min()) < head or int(offsets.max()) > size:
            return MALFORMED
        symbols = slice(table * _CODES, (table + 1) * _CODES)
        rows = out_offsets[first : first + count + 1]
        found = decode_values(
            data=data,
            positions=start + offsets,
            words=words[symbols],
            lengths=lengths[symbols],
            known=int(known[table]),
            literals=literals,
            out=out[total:],
            out_offsets=rows,
        )
        if found < 0:
            return found
        rows += total
        first, total = first + count, total + found
    return total


def decode_slices(
    *,
    data: Bytes,
    starts: Integers,
    sizes: Integers,
    words: Words64,
    lengths: Integers,
    known: int,
    literals: Bytes,
    out: Bytes,
    out_offsets: Offsets,
) -> int:
    """Decode strings that lie apart; the bytes of all, or what is wrong."""
    ends = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=ends[1:])
    return decode_values(
        data=data[places_of(starts, sizes)],
        positions=ends,
        words=words,
        lengths=lengths,
        known=known,
        literals=literals,
        out=out,
        out_offsets=out_offsets,
    )


def _find_escapes(codes: Bytes) -> Integers:
    # In a run of 255s every other one is an escape and the one after it a literal, counted from the start of
    # the run.
    found = np.flatnonzero(codes == _ESCAPE)
    if not len(found):
        return found
    begins = np.ones(len(found), dtype=np.bool_)
    begins[1:] = np.diff(found) > 1
    run_starts = found[begins][np.cumsum(begins) - 1]
    escapes: Integers = found[(found - run_starts) % 2 == 0]
    return escapes
