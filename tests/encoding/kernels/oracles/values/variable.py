"""Chunks of values of variable width."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Offsets, Words
from tests.encoding.kernels.oracles.chunks import copy_parts
from tests.encoding.kernels.oracles.ranges import positions

MALFORMED = -1


def decode(
    *,
    data: Bytes,
    starts: Integers,
    sizes: Integers,
    counts: Integers,
    width: int,
    out: Bytes,
    out_offsets: Offsets,
) -> int:
    """Join the values of chunks; the bytes of all values, or what is wrong."""
    heads = (counts + 1) * width
    offsets = data[positions(starts, heads)].view(f"<u{width}").astype(np.int64)
    firsts = np.cumsum(counts + 1) - (counts + 1)
    low, high = offsets[firsts], offsets[firsts + counts]
    inner = np.ones(len(offsets), dtype=np.bool_)
    inner[firsts + counts] = False
    lengths = np.diff(offsets, append=0)[inner]
    outside = bool(((low < heads) | (high > sizes)).any()) or bool((offsets < 0).any())
    if outside or bool((lengths < 0).any()):
        return MALFORMED
    out_offsets[0] = 0
    np.cumsum(lengths, out=out_offsets[1:])
    bodies = high - low
    places = np.cumsum(bodies) - bodies
    copy_parts(data=data, starts=starts + low, sizes=bodies, target=out, positions=places)
    return int(bodies.sum())


def gather(*, data: Bytes, starts: Integers, lengths: Integers, out: Bytes, out_offsets: Offsets) -> None:
    """Put values together."""
    out_offsets[0] = 0
    np.cumsum(lengths, out=out_offsets[1:])
    out[: int(lengths.sum())] = data[positions(starts, lengths)]


def plan(*, ends: Integers, width: int, chunk_bytes: int, max_count: int, counts: Integers) -> int:
    """Cut values into chunks; how many these are."""
    total = len(ends) - 1
    chunks = first = 0
    while first < total:
        rest = count = total - first
        low = int(ends[first])
        if rest > max_count or (rest + 1) * width + int(ends[total]) - low > chunk_bytes:
            count = 2
            most = min(rest, max_count)
            while (
                2 * count <= most
                and (2 * count + 1) * width + int(ends[first + 2 * count]) - low <= chunk_bytes
            ):
                count *= 2
            count = min(count, rest)
        counts[chunks] = count
        chunks += 1
        first += count
    return chunks


def encode(
    *, data: Bytes, ends: Integers, counts: Integers, starts: Integers, words: Words, out: Bytes
) -> None:
    """Write chunks."""
    width = words.dtype.itemsize
    first = 0
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        head = (count + 1) * width
        offsets = ends[first : first + count + 1]
        low, high = int(offsets[0]), int(offsets[-1])
        words[start // width : (start + head) // width] = offsets + (head - low)
        out[start + head : start + head + high - low] = data[low:high]
        first += count
