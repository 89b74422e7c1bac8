"""End offsets of 2.0 into Arrow's offsets and validity."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Words64

TOO_LARGE = -1
DECREASING = -2


def decode(*, ends: Words64, step: int, limit: int, skipped: int, offsets: Integers, validity: Bytes) -> int:
    """Decode ends; the number of null rows, or what is wrong."""
    null = ends >= np.uint64(step) if step else np.zeros(len(ends), dtype=np.bool_)
    plain = np.where(null, ends - np.uint64(step), ends)
    if len(plain) and int(plain.max()) > limit:
        return TOO_LARGE
    if not skipped:
        plain = np.append(np.uint64(0), plain)
    if bool((plain[1:] < plain[:-1]).any()):
        return DECREASING
    offsets[:] = plain.view(np.int64)
    null = null[skipped:]
    validity[:] = np.packbits(~null, bitorder="little")
    return int(np.count_nonzero(null))
