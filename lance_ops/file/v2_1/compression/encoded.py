"""Compressed values and levels on their way into a page."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.pb import encodings21_pb2 as pb
from lance_ops.pb import encodings23_pb2 as pb23

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ChunkedValues:
    """Values of a mini-block page, cut into chunks.

    Attributes:
        encoding: How they are compressed.
        counts: Values of each chunk: powers of two from 2 to 32,768, except for the last chunk, which has any
            number from 1 on. In 2.1 a chunk with its levels has less than 32 KiB.
        buffers: The value buffers, with one entry for each chunk.
    """

    encoding: pb.CompressiveEncoding
    counts: Integers
    buffers: tuple[ChunkBuffer, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes of all buffers, without headers and padding."""
        return sum(int(buffer.sizes.sum()) for buffer in self.buffers)


@dataclass(frozen=True, slots=True)
class ChunkedLevels:
    """Repetition or definition levels of a mini-block page.

    Attributes:
        encoding: How they are compressed.
        buffer: One entry for each chunk.
    """

    encoding: pb.CompressiveEncoding
    buffer: ChunkBuffer


@dataclass(frozen=True, slots=True)
class Block:
    """Values in one buffer: a dictionary, or the levels of a constant page.

    Attributes:
        encoding: How they are compressed.
        data: The bytes.
        count: Number of values.
    """

    encoding: pb.CompressiveEncoding
    data: npt.NDArray[np.uint8]
    count: int


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """A finished page of 2.1 to 2.3.

    Attributes:
        layout: What the buffers hold.
        buffers: In the order of the layout.
        num_rows: Top-level rows.
        planar: What the buffers hold of a page of 2.3 that 2.2 cannot describe.
    """

    layout: pb.PageLayout
    buffers: tuple[npt.NDArray[np.uint8], ...]
    num_rows: int
    planar: pb23.PlanarLayout | None = None
