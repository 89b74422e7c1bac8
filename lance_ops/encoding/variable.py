"""Values of variable width: offsets and bytes, as chunks of a page and as one block.

A chunk's buffer holds one offset more than it has values, counted from the start of the buffer, and then the
bytes. A block (a dictionary) begins with the width of its offsets in bits and the position of its bytes, and
its offsets count from the first byte.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.chunks import ChunkBuffer, read_words
from lance_ops.encoding.values import Variable
from lance_ops.errors import CorruptFileError, InvalidArgumentError

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

CHUNK_BYTES = 8 << 10
"""What a chunk holds at most, if it is not of two values only."""

_MAX_COUNT = 1 << 15


def decode_variable_chunks(chunks: ChunkBuffer, counts: Integers, width: int) -> Variable:
    """Decode the values of consecutive chunks.

    Args:
        chunks: Their buffers.
        counts: Values of each.
        width: Bytes of an offset: 4 or 8.

    Raises:
        CorruptFileError: Offsets decrease, or leave their chunk.
    """
    heads = (counts + 1) * width
    starts = chunks.join_prefixes(heads).view(f"<u{width}").astype(np.int64)
    firsts = np.cumsum(counts + 1) - (counts + 1)
    lasts = firsts + counts
    low, high = starts[firsts], starts[lasts]
    inner = np.ones(len(starts), dtype=np.bool_)
    inner[lasts] = False
    lengths = np.diff(starts, append=0)[inner]
    if bool((low < heads).any()) or bool((high > chunks.sizes).any()) or bool((lengths < 0).any()):
        raise CorruptFileError("the offsets of a chunk of strings decrease or leave the chunk")
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    bodies = ChunkBuffer(chunks.data, chunks.starts + low, high - low)
    return Variable(offsets, pa.py_buffer(bodies.join_prefixes(bodies.sizes)))


def encode_variable_chunks(
    values: Variable, width: int, *, chunk_bytes: int = CHUNK_BYTES
) -> tuple[Integers, ChunkBuffer]:
    """Cut values into chunks.

    Args:
        values: At least one.
        width: Bytes of an offset: 4 or 8.
        chunk_bytes: What a chunk holds at most. A chunk of two values, or of one at the end, may be larger.

    Returns:
        Values of each chunk, and the buffers of the chunks.
    """
    ends = values.offsets - values.offsets[0]
    counts = _plan_chunks(ends, width, chunk_bytes)
    firsts = np.cumsum(counts) - counts
    lasts = firsts + counts
    heads = (counts + 1) * width
    bodies = ends[lasts] - ends[firsts]
    sizes = (heads + bodies + (width - 1)) & -width
    starts = np.cumsum(sizes) - sizes
    data = np.zeros(int(sizes.sum()), dtype=np.uint8)
    plain = np.frombuffer(values.data, dtype=np.uint8)
    for start, head, body, first, last in zip(
        starts.tolist(), heads.tolist(), bodies.tolist(), firsts.tolist(), lasts.tolist(), strict=True
    ):
        low = int(ends[first])
        table = ends[first : last + 1] + (head - low)
        data[start : start + head] = table.astype(f"<u{width}").view(np.uint8)
        data[start + head : start + head + body] = plain[low : low + body]
    return counts, ChunkBuffer(data, starts, sizes)


def decode_variable_block(data: Bytes, count: int) -> Variable:
    """Decode a block.

    Args:
        data: The block.
        count: Number of values.

    Raises:
        CorruptFileError: It does not hold so many, or its offsets leave it.
    """
    (bits,) = read_words(data, np.zeros(1, dtype=np.int64), 4).tolist()
    if bits not in (32, 64):
        raise CorruptFileError(f"offsets of {bits} bits")
    width = bits // 8
    (start,) = read_words(data, np.full(1, width, dtype=np.int64), width).tolist()
    table = data[2 * width : 2 * width + (count + 1) * width]
    if len(table) < (count + 1) * width or start > len(data):
        raise CorruptFileError(f"a dictionary of {count} entries does not fit into {len(data)} bytes")
    offsets = np.frombuffer(table.tobytes(), dtype=f"<i{width}").astype(np.int64)
    check_offsets(offsets, len(data) - start)
    return Variable(offsets, pa.py_buffer(data[start + int(offsets[0]) :]))


def encode_variable_block(values: Variable, width: int) -> Bytes:
    """Put values into one block.

    Args:
        values: Any number.
        width: Bytes of an offset: 4 or 8.

    Raises:
        InvalidArgumentError: The bytes exceed what offsets of this width can count.
    """
    offsets = values.offsets - values.offsets[0]
    head = 2 * width + len(offsets) * width
    total = int(offsets[-1])
    if head + total >= 1 << (8 * width - 1):
        raise InvalidArgumentError(
            f"{total} bytes are too many for a dictionary with {8 * width}-bit offsets"
        )
    block = np.empty(head + total, dtype=np.uint8)
    block[: 2 * width] = np.array([8 * width, head], dtype=f"<u{width}").view(np.uint8)
    block[2 * width : head] = offsets.astype(f"<u{width}").view(np.uint8)
    block[head:] = np.frombuffer(values.data, dtype=np.uint8)[:total]
    return block


def check_offsets(offsets: Integers, limit: int) -> None:
    """Check that offsets do not decrease, and stay within 0 and a limit.

    Raises:
        CorruptFileError: They do not.
    """
    if int(offsets[0]) < 0 or int(offsets[-1]) > limit or bool((offsets[1:] < offsets[:-1]).any()):
        raise CorruptFileError("offsets decrease, or leave their buffer")


def _plan_chunks(ends: Integers, width: int, chunk_bytes: int) -> Integers:
    # Every chunk but the last has a power of two of values, at least two of them.
    total = len(ends) - 1
    counts = []
    first = 0
    while first < total:
        rest = total - first
        low = int(ends[first])
        if rest <= _MAX_COUNT and (rest + 1) * width + int(ends[total]) - low <= chunk_bytes:
            counts.append(rest)
            break
        count = 2
        while (
            2 * count <= min(rest, _MAX_COUNT)
            and (2 * count + 1) * width + int(ends[first + 2 * count]) - low <= chunk_bytes
        ):
            count *= 2
        counts.append(min(count, rest))
        first += counts[-1]
    return np.array(counts, dtype=np.int64)
