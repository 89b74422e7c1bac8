"""LZ4 blocks, as far as they have to be known before the library may unpack them.

A damaged block can be shorter than it says, or repeat bytes of the output that it never wrote. The library
unpacks both without a word, and what was in memory before would come out as values.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from lance_ops.encoding.kernels import load
from lance_ops.errors import CorruptFileError

_CODEC = pa.Codec("lz4_raw")
_SHORTEST_MATCH = 4
_LONG = 15
"""A length of so much goes on in the bytes that follow."""


def unpack_block(block: pa.Buffer, size: int) -> pa.Buffer:
    """Undo the compression of a block.

    Args:
        block: The block.
        size: Bytes that it becomes.

    Raises:
        CorruptFileError: It does not.
    """
    kernel = load("lz4")
    if kernel is not None:
        whole = kernel.is_whole(np.frombuffer(block, dtype=np.uint8), block.size, size)
    else:
        whole = is_whole(memoryview(block).cast("B"), block.size, size)
    if not whole:
        raise CorruptFileError("a buffer compressed with lz4 is damaged")
    try:
        return _CODEC.decompress(block, decompressed_size=size)
    except (OSError, ValueError, MemoryError) as error:
        raise CorruptFileError(f"a buffer compressed with lz4 is damaged: {error}") from error


def is_whole(block: Any, stop: int, size: int) -> bool:
    """Whether a block writes each byte of its output; also what the compiled loop is made of.

    Args:
        block: Its bytes.
        stop: How many they are.
        size: Bytes that it should become.
    """
    position = written = 0
    while position < stop:
        # Added to 0, because compiled sums of positions and unsigned bytes would be floats.
        token = 0 + block[position]
        position += 1
        count = token >> 4
        more = 255 if count == _LONG else 0
        while more == 255:
            if position == stop:
                return False
            more = 0 + block[position]
            position += 1
            count += more
        position += count
        written += count
        if position == stop:
            # The last sequence is one of plain bytes only.
            return bool(written == size)
        if position + 2 > stop:
            return False
        distance = 0 + block[position] + 256 * block[position + 1]
        position += 2
        if distance == 0 or distance > written:
            return False
        count = token & _LONG
        more = 255 if count == _LONG else 0
        while more == 255:
            if position == stop:
                return False
            more = 0 + block[position]
            position += 1
            count += more
        written += count + _SHORTEST_MATCH
        if written > size:
            return False
    return False
