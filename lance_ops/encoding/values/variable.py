"""Variable width: values as offsets and bytes, in chunks of a page and as one block.

A chunk's buffer holds one offset more than it has values, counted from the start of the buffer, and then the
bytes. A block (a dictionary) begins with the width of its offsets in bits and the position of its bytes, and
its offsets count from the first byte.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding import kernels
from lance_ops.encoding.chunks import CHUNK_ROOM, ChunkBuffer, allocate_parts, read_words
from lance_ops.encoding.memory import empty
from lance_ops.encoding.values.values import Variable
from lance_ops.errors import CorruptFileError, InvalidArgumentError

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

CHUNK_BYTES = 8 << 10
"""What a chunk holds at most, if it is not of two values only."""

_MAX_COUNT = 1 << 15
_KERNEL = "variable"
_MALFORMED = "the offsets of a chunk of strings decrease or leave the chunk"


def decode_variable_chunks(chunks: ChunkBuffer, counts: Integers, width: int) -> Variable:
    """Decode the values of consecutive chunks.

    Args:
        chunks: Their buffers.
        counts: Values of each.
        width: Bytes of an offset: 4 or 8.

    Raises:
        CorruptFileError: Offsets decrease, or leave their chunk.
    """
    kernel = kernels.load(_KERNEL)
    heads = (counts + 1) * width
    if kernel is None:
        return _decode_plainly(chunks, counts, heads, width)
    chunks.require(heads)
    size, count = int((chunks.sizes - heads).sum()), int(counts.sum())
    plain = empty(size, np.uint8)
    offsets = empty(count + 1, offset_type(size))
    size = kernel.decode(chunks.data, chunks.starts, chunks.sizes, counts, width, plain, offsets)
    if size < 0:
        raise CorruptFileError(_MALFORMED)
    return Variable(offsets, pa.py_buffer(plain[:size]))


def _decode_plainly(chunks: ChunkBuffer, counts: Integers, heads: Integers, width: int) -> Variable:
    starts = chunks.join_prefixes(heads).view(f"<u{width}").astype(np.int64)
    firsts = np.cumsum(counts + 1) - (counts + 1)
    lasts = firsts + counts
    low, high = starts[firsts], starts[lasts]
    inner = np.ones(len(starts), dtype=np.bool_)
    inner[lasts] = False
    lengths = np.diff(starts, append=0)[inner]
    outside = bool((low < heads).any()) or bool((high > chunks.sizes).any()) or bool((starts < 0).any())
    if outside or bool((lengths < 0).any()):
        raise CorruptFileError(_MALFORMED)
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
    ends = (values.offsets - values.offsets[0]).astype(np.int64, copy=False)
    counts = plan_chunks(ends, width, chunk_bytes)
    firsts = np.cumsum(counts) - counts
    heads = (counts + 1) * width
    bodies = ends[firsts + counts] - ends[firsts]
    sizes = (heads + bodies + (width - 1)) & -width
    starts, data = allocate_parts(sizes, CHUNK_ROOM)
    words = data.view(f"<u{width}")
    plain = np.frombuffer(values.data, dtype=np.uint8, count=int(ends[-1]))
    kernel = kernels.load(_KERNEL)
    if kernel is not None:
        kernel.encode(plain, ends, counts, starts, words, data)
        return counts, ChunkBuffer(data, starts, sizes)
    for start, head, body, first, count in zip(
        starts.tolist(), heads.tolist(), bodies.tolist(), firsts.tolist(), counts.tolist(), strict=True
    ):
        low = int(ends[first])
        words[start // width : (start + head) // width] = ends[first : first + count + 1] + (head - low)
        data[start + head : start + head + body] = plain[low : low + body]
    return counts, ChunkBuffer(data, starts, sizes)


def plan_chunks(ends: Integers, width: int, chunk_bytes: int) -> Integers:
    """Cut values into chunks: powers of two, at least two, of them in each but the last.

    Args:
        ends: Offsets of the values, the first being 0.
        width: Bytes of an offset: 4 or 8.
        chunk_bytes: What a chunk holds at most, if it is not of two values only.

    Returns:
        Values of each chunk.
    """
    total = len(ends) - 1
    kernel = kernels.load(_KERNEL)
    if kernel is not None:
        found = np.empty((total + 1) // 2, dtype=np.int64)
        return found[: kernel.plan(ends, width, chunk_bytes, _MAX_COUNT, found)].copy()
    counts = []
    first = 0
    while first < total:
        rest = count = total - first
        low = int(ends[first])
        if rest > _MAX_COUNT or (rest + 1) * width + int(ends[total]) - low > chunk_bytes:
            count = 2
            most = min(rest, _MAX_COUNT)
            while (
                2 * count <= most
                and (2 * count + 1) * width + int(ends[first + 2 * count]) - low <= chunk_bytes
            ):
                count *= 2
            count = min(count, rest)
        counts.append(count)
        first += count
    return np.array(counts, dtype=np.int64)


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


def gather_values(data: Bytes, starts: Integers, lengths: Integers) -> Variable:
    """Put values together that lie apart.

    Args:
        data: Bytes that hold them.
        starts: Where each begins.
        lengths: Bytes of each.

    Raises:
        CorruptFileError: One does not lie within the data.
    """
    starts, lengths = check_slices(starts, lengths, len(data))
    size = int(lengths.sum())
    kernel = kernels.load(_KERNEL)
    if kernel is None:
        offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        parts = ChunkBuffer(data, starts, lengths)
        return Variable(offsets, pa.py_buffer(parts.join_prefixes(lengths)))
    out = empty(size, np.uint8)
    offsets = empty(len(lengths) + 1, offset_type(size))
    kernel.gather(data, starts, lengths, out, offsets)
    return Variable(offsets, pa.py_buffer(out))


def check_slices(starts: Integers, lengths: Integers, limit: int) -> tuple[Integers, Integers]:
    """Check that slices lie between 0 and a limit.

    Returns:
        Both arrays as kernels want them.

    Raises:
        CorruptFileError: One does not.
    """
    starts = np.ascontiguousarray(starts, dtype=np.int64)
    lengths = np.ascontiguousarray(lengths, dtype=np.int64)
    if len(lengths) and (
        int(lengths.min()) < 0 or int(starts.min()) < 0 or int((starts + lengths).max()) > limit
    ):
        raise CorruptFileError("a value does not lie within its page")
    return starts, lengths


def offset_type(size: int) -> type[np.signedinteger[Any]]:
    """What can count so many bytes; 32 bits are what most arrays want in the end."""
    return np.int32 if size < 2**31 else np.int64


def check_offsets(offsets: Integers, limit: int) -> None:
    """Check that offsets do not decrease, and stay within 0 and a limit.

    Raises:
        CorruptFileError: They do not.
    """
    if int(offsets[0]) < 0 or int(offsets[-1]) > limit or bool((offsets[1:] < offsets[:-1]).any()):
        raise CorruptFileError("offsets decrease, or leave their buffer")
