"""Small integers in blocks: packed in interleaved lanes of 32, or as varints.

A packed block of width b has 32 values a lane, and four lanes (128 values) or eight (256). Value i is in lane
i modulo the lanes; each lane is a stream of bits in 32-bit words, and word w of all lanes precedes word w +
1. All functions work on many blocks at once.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]

_LANE_VALUES = 32
_MAX_VARINT_BYTES = 5


def packed_bytes(width: npt.ArrayLike, block_size: int) -> Ints:
    """Return bytes of a packed block, by the width of its values in bits."""
    return np.asarray(width, np.int64) * (block_size // 8)


def widths_of(values: Words) -> npt.NDArray[np.uint8]:
    """Return bits that the greatest value of each block needs; one block a row."""
    greatest = np.bitwise_or.reduce(values, axis=1)
    # Exact up to 2**53.
    return np.asarray(np.frexp(greatest.astype(np.float64))[1], np.uint8)


def unpack(data: Bytes, starts: Ints, widths: Bytes, block_size: int) -> Words:
    """Return values of packed blocks, one block a row.

    Args:
        data: What they lie in.
        starts: Where each begins; all have to end within `data`.
        widths: Bits of a value of each, 32 at most.
        block_size: Values of a block, 128 or 256.
    """
    values = np.zeros((len(starts), block_size), np.uint32)
    for width in np.unique(widths).tolist():
        if width == 0:
            continue
        rows = np.flatnonzero(widths == width)
        size = int(packed_bytes(width, block_size))
        words = data[starts[rows][:, None] + np.arange(size)].view("<u4")
        values[rows] = _unpack_words(words.reshape(len(rows), width, -1), width)
    return values


def _unpack_words(words: Words, width: int) -> Words:
    count, _, lanes = words.shape
    mask = np.uint32((1 << width) - 1)
    values = np.empty((count, _LANE_VALUES, lanes), np.uint32)
    for number in range(_LANE_VALUES):
        word, shift = divmod(number * width, 32)
        value = words[:, word, :] >> np.uint32(shift)
        if shift + width > 32:
            value = value | (words[:, word + 1, :] << np.uint32(32 - shift))
        values[:, number, :] = value & mask
    return values.reshape(count, -1)


def pack_into(output: Bytes, starts: Ints, values: Words, widths: Bytes) -> None:
    """Write packed blocks, one a row of `values`, to some places; the reverse of `unpack`."""
    block_size = values.shape[1]
    for width in np.unique(widths).tolist():
        if width == 0:
            continue
        rows = np.flatnonzero(widths == width)
        packed = _pack_words(values[rows].reshape(len(rows), _LANE_VALUES, -1), width)
        size = int(packed_bytes(width, block_size))
        output[starts[rows][:, None] + np.arange(size)] = packed.view(np.uint8).reshape(len(rows), size)


def _pack_words(values: Words, width: int) -> npt.NDArray[np.uint32]:
    count, _, lanes = values.shape
    words = np.zeros((count, width, lanes), "<u4")
    for number in range(_LANE_VALUES):
        word, shift = divmod(number * width, 32)
        words[:, word, :] |= values[:, number, :] << np.uint32(shift)
        if shift + width > 32:
            words[:, word + 1, :] |= values[:, number, :] >> np.uint32(32 - shift)
    return words.reshape(count, -1)


def varint_sizes(values: npt.NDArray[np.uint32]) -> Ints:
    """Return bytes of each value as a varint."""
    sizes = np.ones(len(values), np.int64)
    for step in range(1, _MAX_VARINT_BYTES):
        sizes += values >= np.uint32(1 << (7 * step))
    return sizes


def write_varints(output: Bytes, starts: Ints, values: npt.NDArray[np.uint32]) -> None:
    """Write varints to some places."""
    sizes = varint_sizes(values)
    for step in range(int(sizes.max(initial=0))):
        there = np.flatnonzero(sizes > step)
        part = (values[there] >> np.uint32(7 * step)).astype(np.uint8) & np.uint8(0x7F)
        more = (sizes[there] > step + 1).astype(np.uint8) << np.uint8(7)
        output[starts[there] + step] = part | more


def read_varints(data: Bytes, count: int, path: str) -> tuple[npt.NDArray[np.uint32], int]:
    """Read varints from the beginning of `data`.

    Returns:
        The values, and how many bytes they took.

    Raises:
        CorruptFileError: There are fewer, or one is too long.
    """
    if count == 0:
        return np.zeros(0, np.uint32), 0
    ends = np.flatnonzero(data[: count * _MAX_VARINT_BYTES] < 0x80)[:count]
    sizes = np.diff(ends, prepend=-1)
    if len(ends) < count or sizes.max() > _MAX_VARINT_BYTES:
        raise CorruptFileError("numbers of a posting list are cut off", path=path, field="_posting")
    starts = ends - sizes + 1
    values = np.zeros(count, np.uint64)
    for step in range(int(sizes.max())):
        there = np.flatnonzero(sizes > step)
        values[there] |= (data[starts[there] + step] & np.uint64(0x7F)).astype(np.uint64) << np.uint64(
            7 * step
        )
    return values.astype(np.uint32), int(ends[-1]) + 1


def expand(starts: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """Return all numbers of some ranges, and the range of each."""
    owner = np.repeat(np.arange(len(starts)), lengths)
    before = np.concatenate(([0], np.cumsum(lengths)))[:-1]
    return starts[owner] + np.arange(len(owner)) - before[owner], owner


def offsets_in_owner(sizes: Ints, owner: Ints) -> Ints:
    """Return the offset of each value behind the first of the same owner; those of one owner lie together."""
    total = np.cumsum(sizes) - sizes
    return total - total[np.searchsorted(owner, owner)] if len(owner) else total


def write_words(output: Bytes, starts: Ints, values: npt.NDArray[np.generic]) -> None:
    """Write numbers of four bytes, uint32 or float32, to some places."""
    output[starts[:, None] + np.arange(4)] = values.view(np.uint8).reshape(-1, 4)


def large_binary(offsets: Ints, data: Bytes) -> pa.LargeBinaryArray:
    """Return binary values that lie in sequence."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets, np.int64)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
