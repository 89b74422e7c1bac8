"""Compression of levels: 16-bit integers of which few bits are used, cut as the chunks of a page are."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.bits.bitpacking import pack_parts
from lance_ops.encoding.bits.rle import count_runs, encode_run_blocks
from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.kernels.pages import levels as loops
from lance_ops.encoding.pages.level_packing import packed_sizes
from lance_ops.encoding.pages.levels import Integers, Levels
from lance_ops.encoding.pages.ravel import Raveled
from lance_ops.errors import LanceOpsError
from lance_ops.file.v2_1.compression.encoded import Block, ChunkedLevels
from lance_ops.pb import encodings21_pb2 as pb

MAX_CHUNK_LEVELS = 2**16 - 1
"""A chunk has two bytes for the number of its levels."""

_BITS = 16
_RUN_BITS = 8
# Of each run a level and a length, behind the size of the levels.
_RUN_BYTES, _RUNS_HEADER = 3, 8


def levels_per_chunk(raveled: Raveled, value_counts: Integers) -> Integers:
    """Levels of each chunk.

    A chunk ends with the level of its last value. Levels without a value, of null and empty lists, go to the
    chunk of the value behind them, those behind the last value to the last chunk.

    Args:
        raveled: The page.
        value_counts: Values of each chunk.

    Returns:
        The counts, which may exceed `MAX_CHUNK_LEVELS`: then the page cannot have these chunks.
    """
    if raveled.rep is None or raveled.definition is None or len(raveled.values) == raveled.num_entries:
        return value_counts
    ends = np.cumsum(value_counts)[:-1]
    cuts = np.empty(len(ends), dtype=np.int64)
    loops.cut(definition=raveled.definition, below=raveled.visible_below, values=ends, cuts=cuts)
    return np.diff(cuts, prepend=0, append=raveled.num_entries)


def repetition_index(raveled: Raveled, level_counts: Integers) -> npt.NDArray[np.uint8]:
    """Return the repetition index, which has the row boundaries of each chunk.

    Args:
        raveled: The page, with lists.
        level_counts: Levels of each chunk.

    Returns:
        For each chunk two u64: the rows that end in it, and the entries from the start of the last row on
        that goes on in the next chunk, 0 if there is none. A chunk without any start has all its entries as
        the second.
    """
    ends = np.cumsum(level_counts)
    assert raveled.rep is not None
    begun, lasts = np.empty_like(ends), np.empty_like(ends)
    loops.find_rows(rep=raveled.rep, highest=raveled.max_rep, ends=ends, begun=begun, lasts=lasts)
    goes_on = np.zeros(len(ends), dtype=np.bool_)
    goes_on[:-1] = raveled.rep[ends[:-1]] != raveled.max_rep
    index = np.empty((len(ends), 2), dtype="<u8")
    index[:, 0] = np.diff(np.cumsum(begun) - goes_on, prepend=0)
    index[:, 1] = np.where(goes_on, ends - np.maximum(lasts, ends - level_counts), 0)
    return index.reshape(-1).view(np.uint8)


def compress_levels(levels: Levels, level_counts: Integers, version: str = "2.1") -> ChunkedLevels:
    """Compress the levels of chunks in the way that takes the fewest bytes.

    Args:
        levels: Of all chunks.
        level_counts: Of each chunk, at least one, at most `MAX_CHUNK_LEVELS`.
        version: "2.1" or "2.2".
    """
    if len(level_counts) and int(level_counts.max()) > MAX_CHUNK_LEVELS:
        raise LanceOpsError(f"a chunk of {int(level_counts.max())} levels")
    encoding, buffer = _smallest(levels, level_counts, version)
    return ChunkedLevels(encoding, buffer)


def compress_level_block(levels: Levels, version: str = "2.1") -> Block:
    """Compress levels that are one buffer; see `compress_levels`."""
    encoding, buffer = _smallest(levels, np.array([len(levels)], dtype=np.int64), version)
    (data,) = buffer.parts()
    return Block(encoding, data, len(levels))


def _smallest(levels: Levels, counts: Integers, version: str) -> tuple[pb.CompressiveEncoding, ChunkBuffer]:
    levels = np.ascontiguousarray(levels, dtype="<u2")
    width = max(int(levels.max()).bit_length(), 1) if len(levels) else 1
    plain = len(levels) * 2
    packed = int(packed_sizes(counts, width).sum())
    encoding = pb.CompressiveEncoding()
    # Readers of the time of 2.1 do not support runs of levels. The first estimate ignores that runs are split
    # at the ends of chunks and at their maximum length.
    if version != "2.1" and count_runs(levels) * _RUN_BYTES + len(counts) * _RUNS_HEADER < min(packed, plain):
        runs = encode_run_blocks(levels, counts)
        if int(runs.sizes.sum()) < min(packed, plain):
            encoding.rle.values.flat.bits_per_value = _BITS
            encoding.rle.run_lengths.flat.bits_per_value = _RUN_BITS
            return encoding, runs
    if packed < plain:
        encoding.out_of_line_bitpacking.uncompressed_bits_per_value = _BITS
        encoding.out_of_line_bitpacking.values.flat.bits_per_value = width
        return encoding, pack_parts(levels, counts, width)
    encoding.flat.bits_per_value = _BITS
    ends = np.cumsum(counts) * 2
    return encoding, ChunkBuffer(levels.view(np.uint8), ends - counts * 2, counts * 2)
