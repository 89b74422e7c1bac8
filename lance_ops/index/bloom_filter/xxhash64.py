"""xxHash64 of many byte strings at once, with the seed 0.

All strings go through the rounds side by side: each step of 32 bytes is one pass over those that are long
enough. Source: the xxHash specification, XXH64.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

Words = npt.NDArray[np.uint64]

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_STRIPE = 32
_LANES = 4
_WIDTHS = {8: "<u8", 4: "<u4", 1: "u1"}


def hash_values(values: pa.Array) -> Words:
    """Hashes of values without nulls, by their bytes: texts as UTF-8, numbers little-endian in their width.

    Args:
        values: Texts, bytes, or a type of fixed width of whole bytes.
    """
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        return _hash_variable(values, np.int32)
    if pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type):
        return _hash_variable(values, np.int64)
    width = values.type.bit_width // 8
    if not len(values):
        return np.zeros(0, np.uint64)
    data = np.frombuffer(values.buffers()[1], np.uint8)
    starts = (np.arange(len(values), dtype=np.int64) + values.offset) * width
    return xxhash64(data, starts, np.full(len(values), width, np.int64))


def _hash_variable(values: pa.Array, offset_type: type[np.signedinteger]) -> Words:
    if not len(values):
        return np.zeros(0, np.uint64)
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, offset_type)[values.offset : values.offset + len(values) + 1]
    starts = bounds[:-1].astype(np.int64)
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return xxhash64(content, starts, np.diff(bounds).astype(np.int64))


def xxhash64(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Words:
    """Hashes of parts of some bytes.

    Args:
        data: The bytes.
        starts: Where each part begins.
        lengths: Bytes of each.

    Returns:
        uint64, one a part.
    """
    with np.errstate(over="ignore"):
        return _hash(data, starts, lengths)


def _hash(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Words:
    at = starts.copy()
    result = np.full(len(starts), _P5, np.uint64)
    long = np.flatnonzero(lengths >= _STRIPE)
    if len(long):
        result[long] = _stripes(data, at, lengths, long)
    result += lengths.astype(np.uint64)
    left = lengths - (at - starts)
    for width in _WIDTHS:
        while True:
            active = np.flatnonzero(left >= width)
            if not len(active):
                break
            word = _read(data, at[active], width)
            result[active] = _absorb(result[active], word, width)
            at[active] += width
            left[active] -= width
    return _avalanche(result)


def _stripes(
    data: npt.NDArray[np.uint8],
    at: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    long: npt.NDArray[np.int64],
) -> Words:
    """What the whole stripes of the long parts come to; `at` is moved behind them."""
    # Longest first: those that are not done yet are always the first ones.
    order = np.argsort(-lengths[long], kind="stable")
    chosen = long[order]
    stripes = lengths[chosen] // _STRIPE
    states = np.empty((_LANES, len(chosen)), np.uint64)
    for lane, start in enumerate((_P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1)):
        states[lane] = start
    for number in range(int(stripes[0])):
        active = int(np.searchsorted(-stripes, -number, side="left"))
        for lane in range(_LANES):
            word = _read(data, at[chosen[:active]] + 8 * lane, 8)
            states[lane, :active] = _round(states[lane, :active], word)
        at[chosen[:active]] += _STRIPE
    total: Words = np.zeros(len(chosen), np.uint64)
    for lane, bits in enumerate((1, 7, 12, 18)):
        total += _rotate(states[lane], bits)
    for lane in range(_LANES):
        total = (total ^ _round(np.zeros(len(chosen), np.uint64), states[lane])) * _P1 + _P4
    result: Words = np.empty(len(chosen), np.uint64)
    result[order] = total
    return result


def _read(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], width: int) -> Words:
    """Little-endian numbers of some bytes each."""
    if width == 1:
        return data[at].astype(np.uint64)
    windows = sliding_window_view(data, width)[at]
    return np.ascontiguousarray(windows).view(_WIDTHS[width]).reshape(-1).astype(np.uint64)


def _absorb(state: Words, word: Words, width: int) -> Words:
    if width == 8:
        state = state ^ _round(np.zeros(len(state), np.uint64), word)
        return _rotate(state, 27) * _P1 + _P4
    if width == 4:
        return _rotate(state ^ (word * _P1), 23) * _P2 + _P3
    return _rotate(state ^ (word * _P5), 11) * _P1


def _round(state: Words, word: Words) -> Words:
    return _rotate(state + word * _P2, 31) * _P1


def _rotate(values: Words, bits: int) -> Words:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _avalanche(values: Words) -> Words:
    values = (values ^ (values >> np.uint64(33))) * _P2
    values = (values ^ (values >> np.uint64(29))) * _P3
    return values ^ (values >> np.uint64(32))
