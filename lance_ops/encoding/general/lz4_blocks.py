"""LZ4 blocks, as far as they have to be known before the library may unpack them.

A damaged block can be shorter than it says, or repeat bytes of the output that it never wrote. The library
unpacks both without a word, and what was in memory before would come out as values.
"""

import numpy as np
import pyarrow as pa

from lance_ops.encoding.kernels import lz4
from lance_ops.errors import CorruptFileError

_CODEC = pa.Codec("lz4_raw")


def unpack_block(block: pa.Buffer, size: int) -> pa.Buffer:
    """Undo the compression of a block.

    Args:
        block: The block.
        size: Bytes that it becomes.

    Raises:
        CorruptFileError: It does not.
    """
    if not lz4.is_whole(block=np.frombuffer(block, dtype=np.uint8), size=size):
        raise CorruptFileError("a buffer compressed with lz4 is damaged")
    try:
        return _CODEC.decompress(block, decompressed_size=size)
    except (OSError, ValueError, MemoryError) as error:
        raise CorruptFileError(f"a buffer compressed with lz4 is damaged: {error}") from error
