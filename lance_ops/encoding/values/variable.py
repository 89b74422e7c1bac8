"""Variable width: values as offsets and bytes, in chunks of a page and as one block.

A chunk's buffer holds one offset more than it has values, counted from the start of the buffer, and then the
bytes. A block (a dictionary) begins with the width of its offsets in bits and the position of its bytes, and
its offsets count from the first byte.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.chunks import CHUNK_ROOM, ChunkBuffer, allocate_parts
from lance_ops.encoding.kernels.values import variable as loops
from lance_ops.encoding.memory import empty
from lance_ops.encoding.values.values import Variable
from lance_ops.errors import CorruptFileError, InvalidArgumentError

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

CHUNK_BYTES = 8 << 10
"""Maximum bytes of a chunk, unless it has two values only."""

_MAX_COUNT = 1 << 15
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
    heads = (counts + 1) * width
    chunks.require(heads)
    size, count = int((chunks.sizes - heads).sum()), int(counts.sum())
    plain = empty(size, np.uint8)
    offsets = empty(count + 1, offset_type(size))
    size = loops.decode(
        data=chunks.data,
        starts=chunks.starts,
        sizes=chunks.sizes,
        counts=counts,
        width=width,
        out=plain,
        out_offsets=offsets,
    )
    if size == loops.MALFORMED:
        raise CorruptFileError(_MALFORMED)
    return Variable(offsets, pa.py_buffer(plain[:size]))


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
    loops.encode(data=plain, ends=ends, counts=counts, starts=starts, words=words, out=data)
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
    found = np.empty(len(ends) // 2, dtype=np.int64)
    count = loops.plan(ends=ends, width=width, chunk_bytes=chunk_bytes, max_count=_MAX_COUNT, counts=found)
    return found[:count].copy()


def decode_variable_block(data: Bytes, count: int) -> Variable:
    """Decode a block.

    Args:
        data: The block.
        count: Number of values.

    Raises:
        CorruptFileError: It does not hold so many, or its offsets leave it.
    """
    head = data[:16].tobytes()
    bits = int.from_bytes(head[:4], "little")
    if bits not in (32, 64):
        raise CorruptFileError(f"offsets of {bits} bits")
    width = bits // 8
    start = int.from_bytes(head[width : 2 * width], "little")
    table = data[2 * width : 2 * width + (count + 1) * width]
    if len(table) < (count + 1) * width or start > len(data):
        raise CorruptFileError(f"a dictionary of {count} entries does not fit into {len(data)} bytes")
    offsets = np.frombuffer(table.tobytes(), dtype=f"<i{width}").astype(np.int64)
    check_offsets(offsets, len(data) - start)
    return Variable(offsets, pa.py_buffer(data[start + int(offsets[0]) :]))


def encode_variable_block(values: Variable, width: int) -> Bytes:
    """Encode values as one block.

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
    """Gather values from separate positions.

    Args:
        data: Bytes that hold them.
        starts: Where each begins.
        lengths: Bytes of each.

    Raises:
        CorruptFileError: One does not lie within the data.
    """
    starts, lengths = check_slices(starts, lengths, len(data))
    size = int(lengths.sum())
    out = empty(size, np.uint8)
    offsets = empty(len(lengths) + 1, offset_type(size))
    loops.gather(data=data, starts=starts, lengths=lengths, out=out, out_offsets=offsets)
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
    """Return the offset type for so many bytes; 32 bits suffice for most arrays."""
    return np.int32 if size < 2**31 else np.int64


def check_offsets(offsets: Integers, limit: int) -> None:
    """Check that offsets do not decrease, and stay within 0 and a limit.

    Raises:
        CorruptFileError: They do not.
    """
    if int(offsets[0]) < 0 or int(offsets[-1]) > limit or bool((offsets[1:] < offsets[:-1]).any()):
        raise CorruptFileError("offsets decrease, or leave their buffer")
