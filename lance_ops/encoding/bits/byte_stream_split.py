"""Byte stream split: the first bytes of all values, then the second bytes of all, and so on.

Nothing gets smaller by it, but bytes that resemble each other come together for a compression that follows.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.kernels.bits import byte_stream_split
from lance_ops.encoding.memory import empty
from lance_ops.errors import CorruptFileError

_MAX_BITS = 64


def join_streams(chunks: ChunkBuffer, counts: npt.NDArray[np.int64], bits: int) -> npt.NDArray[np.uint8]:
    """Join the byte streams of values.

    Args:
        chunks: The streams of each chunk.
        counts: Values of each chunk.
        bits: Of a value.

    Raises:
        CorruptFileError: A chunk is too short.
    """
    if not 0 < bits <= _MAX_BITS or bits % 8:
        raise CorruptFileError(f"split streams of values of {bits} bits")
    width = bits // 8
    sizes = counts * width
    chunks.require(sizes)
    values = empty(int(sizes.sum()), np.uint8)
    byte_stream_split.join(data=chunks.data, starts=chunks.starts, counts=counts, width=width, values=values)
    return values


def split_streams(values: npt.NDArray[Any], counts: npt.NDArray[np.int64]) -> ChunkBuffer:
    """Split the bytes of each chunk.

    Args:
        values: Unsigned integers.
        counts: Values of each chunk.
    """
    width = values.dtype.itemsize
    data = values.view(np.uint8)
    streams = np.empty_like(data)
    sizes = counts * width
    byte_stream_split.split(values=data, counts=counts, width=width, data=streams)
    return ChunkBuffer(streams, np.cumsum(sizes) - sizes, sizes)
