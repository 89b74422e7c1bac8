"""Level packing: the blocks of all chunks at once, and then the levels of each chunk."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Levels, Words64
from tests.encoding.kernels.oracles.bits.bitpacking import unpack as unpack_blocks

_BLOCK = 1024


def unpack(
    *,
    words: Words64,
    data: Bytes,
    starts: Integers,
    sizes: Integers,
    counts: Integers,
    width: int,
    levels: Levels,
) -> bool:
    """Unpack the levels of chunks; whether these are long enough."""
    block_bytes = 128 * width
    full, tails = np.divmod(counts, _BLOCK)
    # The levels behind the last whole block are plain, if that is what the size says.
    plain = (tails > 0) & (sizes == full * block_bytes + tails * 2)
    blocks = full + ((tails > 0) & ~plain)
    if bool((sizes < blocks * block_bytes).any()):
        return False
    firsts = np.cumsum(blocks) - blocks
    numbers = np.arange(int(blocks.sum())) - np.repeat(firsts, blocks)
    places = np.repeat(starts // 8, blocks) + numbers * (16 * width)
    unpacked = np.empty(len(places) * _BLOCK, dtype=np.uint16)
    widths = np.full(len(places), width, dtype=np.int64)
    unpack_blocks(packed=words, starts=places, widths=widths, bits=16, values=unpacked.view(np.uint64))
    ends = np.cumsum(counts)
    for chunk in range(len(counts)):
        target = levels[int(ends[chunk] - counts[chunk]) : int(ends[chunk])]
        packed = min(len(target), int(blocks[chunk]) * _BLOCK)
        first = int(firsts[chunk]) * _BLOCK
        target[:packed] = unpacked[first : first + packed]
        rest = int(starts[chunk] + blocks[chunk] * block_bytes)
        target[packed:] = data[rest : rest + 2 * (len(target) - packed)].view("<u2")
    return True
