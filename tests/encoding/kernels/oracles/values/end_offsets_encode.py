"""Arrow's offsets and validity into end offsets of 2.0."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Integers, Offsets, Words64

MALFORMED = -1


def _lengths(offsets: Offsets) -> Integers:
    lengths: Integers = np.diff(offsets).astype(np.int64, copy=False)
    return lengths


def _valid(validity: Bytes, bit: int, count: int) -> npt.NDArray[np.bool_]:
    if not len(validity):
        return np.ones(count, dtype=np.bool_)
    return np.unpackbits(validity, count=bit + count, bitorder="little")[bit:].view(np.bool_)


def measure(*, offsets: Offsets, validity: Bytes, bit: int) -> int:
    """Return bytes of all rows that are not null."""
    return int(_lengths(offsets)[_valid(validity, bit, len(offsets) - 1)].sum())


def encode(*, offsets: Offsets, validity: Bytes, bit: int, base: int, adjustment: int, ends: Words64) -> None:
    """Write an end for each row."""
    valid = _valid(validity, bit, len(ends))
    signed = np.cumsum(_lengths(offsets) * valid) + base
    signed[~valid] += adjustment
    ends[:] = signed.view(np.uint64)


def compact(*, out: Bytes, data: Bytes, offsets: Offsets, validity: Bytes, bit: int) -> int:
    """Put the bytes of the rows that are not null together; how many they are, or what is wrong."""
    valid = _valid(validity, bit, len(offsets) - 1)
    # What lies between two null rows is copied together.
    nulls = np.flatnonzero(~valid)
    firsts, lasts = np.append(0, nulls + 1), np.append(nulls, len(valid))
    at = 0
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        if first == len(valid):
            break
        start, stop = int(offsets[first]), int(offsets[last])
        size = stop - start
        if start < 0 or size < 0 or stop > len(data) or at + size > len(out):
            return MALFORMED
        out[at : at + size] = data[start:stop]
        at += size
    return at
