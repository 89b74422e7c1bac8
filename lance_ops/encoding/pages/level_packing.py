"""Level packing: levels in few bits, chunk by chunk."""

import numpy as np

from lance_ops.encoding.bits.bitpacking import BLOCK, block_bytes, unpack_parts
from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.kernels.bits import level_packing
from lance_ops.encoding.memory import empty
from lance_ops.encoding.pages.levels import Integers, Levels
from lance_ops.errors import CorruptFileError

_BITS = 16


def unpack_levels(chunks: ChunkBuffer, counts: Integers, width: int) -> Levels:
    """Unpack the levels of chunks into one array; see `bitpacking.unpack_parts`.

    Chunks with null and empty lists have any number of levels: joining their blocks afterwards would take
    several times as long as unpacking them.

    Args:
        chunks: The levels of each chunk.
        counts: How many each has.
        width: Bits of a packed level.

    Raises:
        CorruptFileError: A chunk is too short.
    """
    if not 0 < width <= _BITS or bool((chunks.starts & 7).any()):
        return unpack_parts(chunks, counts, width, _BITS)
    # Checked before there is room for them: counts may say anything.
    if bool((chunks.sizes < packed_sizes(counts, width)).any()):
        raise CorruptFileError("the levels of a chunk end too early")
    levels = empty(int(counts.sum()), np.uint16)
    words = chunks.data[: len(chunks.data) & -8].view(np.uint64)
    whole = level_packing.unpack(
        words=words,
        data=chunks.data,
        starts=chunks.starts,
        sizes=chunks.sizes,
        counts=counts,
        width=width,
        levels=levels,
    )
    if not whole:
        raise CorruptFileError("the levels of a chunk end too early")
    return levels


def packed_sizes(counts: Integers, width: int) -> Integers:
    """Return bytes of packed levels, of which the last ones are plain where that is not more than a block."""
    full, tails = np.divmod(counts, BLOCK)
    size = block_bytes(width)
    sizes: Integers = full * size + np.minimum(tails * (_BITS // 8), size)
    return sizes
