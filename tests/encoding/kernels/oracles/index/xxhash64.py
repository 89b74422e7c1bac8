"""xxHash64 of many byte strings at once, with the seed 0.

All strings go through the rounds side by side: each step of 32 bytes is one pass over those that are long
enough. Source: the xxHash specification, XXH64.
"""

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from lance_ops.encoding.arrays import Bytes, Offsets, Words64

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_STRIPE = 32
_LANES = 4
_WIDTHS = {8: "<u8", 4: "<u4", 1: "u1"}


def hash_parts(*, data: Bytes, offsets: Offsets, hashes: Words64) -> None:
    """Hash parts of some bytes, each of which begins where the one before ends."""
    with np.errstate(over="ignore"):
        hashes[:] = _hash(data, offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64))


def _hash(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Words64:
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
) -> Words64:
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
    total: Words64 = np.zeros(len(chosen), np.uint64)
    for lane, bits in enumerate((1, 7, 12, 18)):
        total += _rotate(states[lane], bits)
    for lane in range(_LANES):
        total = (total ^ _round(np.zeros(len(chosen), np.uint64), states[lane])) * _P1 + _P4
    result: Words64 = np.empty(len(chosen), np.uint64)
    result[order] = total
    return result


def _read(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], width: int) -> Words64:
    """Little-endian numbers of some bytes each."""
    if width == 1:
        return data[at].astype(np.uint64)
    windows = sliding_window_view(data, width)[at]
    return np.ascontiguousarray(windows).view(_WIDTHS[width]).reshape(-1).astype(np.uint64)


def _absorb(state: Words64, word: Words64, width: int) -> Words64:
    if width == 8:
        state = state ^ _round(np.zeros(len(state), np.uint64), word)
        return _rotate(state, 27) * _P1 + _P4
    if width == 4:
        return _rotate(state ^ (word * _P1), 23) * _P2 + _P3
    return _rotate(state ^ (word * _P5), 11) * _P1


def _round(state: Words64, word: Words64) -> Words64:
    return _rotate(state + word * _P2, 31) * _P1


def _rotate(values: Words64, bits: int) -> Words64:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _avalanche(values: Words64) -> Words64:
    values = (values ^ (values >> np.uint64(33))) * _P2
    values = (values ^ (values >> np.uint64(29))) * _P3
    return values ^ (values >> np.uint64(32))
