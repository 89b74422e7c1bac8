"""xxHash64."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Offsets, Words64
from lance_ops.encoding.kernels.loops import inner, loop, types
from lance_ops.encoding.kernels.words import READONLY_BYTES, load_u32, load_u64

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_FIRST = np.uint64(0x60EA27EEADC0B5D6)  # _P1 + _P2
_LAST = np.uint64(0x61C8864E7A143579)  # -_P1
_STRIPE = 32
_OFFSETS = (
    types.Array(types.int32, 1, "C", readonly=True),
    types.Array(types.int64, 1, "C", readonly=True),
)


@inner(inline="always")
def _rotate(word, bits):
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@inner(inline="always")
def _round(state, word):
    return _rotate(state + word * _P2, 31) * _P1


@inner(inline="always")
def _merge(state, lane):
    return (state ^ _round(np.uint64(0), lane)) * _P1 + _P4


@loop([types.void(READONLY_BYTES, offsets, types.Array(types.uint64, 1, "C")) for offsets in _OFFSETS])
def _hash_parts(data, offsets, hashes):
    for part in range(len(hashes)):
        at, end = np.int64(offsets[part]), np.int64(offsets[part + 1])
        length = end - at
        state = _P5
        if length >= _STRIPE:
            one, two, three, four = _FIRST, _P2, np.uint64(0), _LAST
            while end - at >= _STRIPE:
                one = _round(one, load_u64(data, at))
                two = _round(two, load_u64(data, at + 8))
                three = _round(three, load_u64(data, at + 16))
                four = _round(four, load_u64(data, at + 24))
                at += _STRIPE
            state = _rotate(one, 1) + _rotate(two, 7) + _rotate(three, 12) + _rotate(four, 18)
            state = _merge(_merge(_merge(_merge(state, one), two), three), four)
        state += np.uint64(length)
        while end - at >= 8:
            state = _rotate(state ^ _round(np.uint64(0), load_u64(data, at)), 27) * _P1 + _P4
            at += 8
        if end - at >= 4:
            state = _rotate(state ^ (np.uint64(load_u32(data, at)) * _P1), 23) * _P2 + _P3
            at += 4
        while at < end:
            state = _rotate(state ^ (np.uint64(data[at]) * _P5), 11) * _P1
            at += 1
        state = (state ^ (state >> np.uint64(33))) * _P2
        state = (state ^ (state >> np.uint64(29))) * _P3
        hashes[part] = state ^ (state >> np.uint64(32))


def hash_parts(*, data: Bytes, offsets: Offsets, hashes: Words64) -> None:
    """Hash parts of some bytes, each of which begins where the one before ends.

    Args:
        data: The bytes.
        offsets: Where each part begins, and where the last one ends; they never fall, and all lie in `data`.
        hashes: Shape (parts,): room for a hash of each.
    """
    _hash_parts(data, offsets, hashes)
