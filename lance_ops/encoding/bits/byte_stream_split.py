"""Byte stream split: the first bytes of all values, then the second bytes of all, and so on.

Nothing gets smaller by it, but bytes that resemble each other come together for a compression that follows.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.kernels import load
from lance_ops.encoding.memory import empty
from lance_ops.errors import CorruptFileError

_MAX_BITS = 64
_KERNEL_WIDTHS = (4, 8)


def join_streams(chunks: ChunkBuffer, counts: npt.NDArray[np.int64], bits: int) -> npt.NDArray[np.uint8]:
    """Put the bytes of each value together again.

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
    kernel = load("byte_stream_split")
    if kernel is not None and width in _KERNEL_WIDTHS:
        words = empty(int(counts.sum()), f"<u{width}")
        kernel.join(chunks.data, chunks.starts, counts, words)
        return words.view(np.uint8)
    data = chunks.join_prefixes(sizes)
    values = np.empty(len(data), dtype=np.uint8)
    stops = np.cumsum(sizes)
    for start, stop in zip((stops - sizes).tolist(), stops.tolist(), strict=True):
        values[start:stop].reshape(-1, width)[...] = data[start:stop].reshape(width, -1).T
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
    stops = np.cumsum(sizes)
    kernel = load("byte_stream_split")
    if kernel is not None and width in _KERNEL_WIDTHS:
        kernel.split(values, counts, streams)
        return ChunkBuffer(streams, stops - sizes, sizes)
    for start, stop in zip((stops - sizes).tolist(), stops.tolist(), strict=True):
        streams[start:stop].reshape(width, -1)[...] = data[start:stop].reshape(-1, width).T
    return ChunkBuffer(streams, stops - sizes, sizes)
