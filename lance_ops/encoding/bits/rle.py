"""Run lengths: each value once for a run of equal ones, and the lengths of the runs.

A length is at most 255, so that longer runs are several.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.chunks import ChunkBuffer, copy_parts
from lance_ops.encoding.kernels.bits import rle
from lance_ops.encoding.memory import empty
from lance_ops.errors import CorruptFileError

_MAX_RUN = 255
_WORDS = (1, 2, 4, 8)
_WRONG_SUM = "the run lengths of a chunk do not add up to its values"
_SIZE_BYTES = 8


def decode_runs(
    values: ChunkBuffer, lengths: ChunkBuffer, counts: npt.NDArray[np.int64], bits: int, length_bits: int
) -> npt.NDArray[Any]:
    """Repeat the values of each chunk.

    Args:
        values: One value of each run.
        lengths: The length of each run.
        counts: Values of each chunk once repeated.
        bits: Of a value.
        length_bits: Of a length.

    Returns:
        The values as unsigned integers, or as rows of bytes when they are wider than 64 bits.

    Raises:
        CorruptFileError: The lengths do not add up.
    """
    if bits % 8 or bits == 0 or length_bits not in (8, 16, 32):
        raise CorruptFileError(f"runs of {length_bits} bits of values of {bits} bits")
    width, length_width = bits // 8, length_bits // 8
    runs = values.sizes // width
    if bool((runs * length_width != lengths.sizes).any()) or bool((values.sizes % width).any()):
        raise CorruptFileError("a chunk has not as many values as run lengths")
    aligned = not bool((values.starts % width).any())
    if width in _WORDS and length_width == 1 and aligned:
        # The loop reads values at multiples of their width from the start of the data.
        total = int(counts.sum())
        if total > int(runs.sum()) * _MAX_RUN:
            raise CorruptFileError(_WRONG_SUM)
        repeated = empty(total + rle.SLACK, f"<u{width}")
        words = values.data[: len(values.data) // width * width].view(repeated.dtype)
        if not rle.repeat(
            values=words,
            firsts=values.starts // width,
            runs=runs,
            lengths=lengths.data,
            length_firsts=lengths.starts,
            counts=counts,
            target=repeated,
        ):
            raise CorruptFileError(_WRONG_SUM)
        return repeated[:total]
    repeats = lengths.join_prefixes(lengths.sizes)
    repeats = np.frombuffer(repeats.tobytes(), dtype=f"<u{length_width}").astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(repeats)])
    last = np.cumsum(runs)
    if bool((ends[last] - ends[last - runs] != counts).any()):
        raise CorruptFileError(_WRONG_SUM)
    rows = values.join_prefixes(values.sizes).reshape(-1, width)
    if width in _WORDS:
        return np.repeat(np.ascontiguousarray(rows).view(f"<u{width}").reshape(-1), repeats)
    return np.repeat(rows, repeats, axis=0)


def count_runs(values: npt.NDArray[Any]) -> int:
    """Return the number of runs of equal values, however long."""
    return 1 + int(np.count_nonzero(values[1:] != values[:-1])) if len(values) else 0


def encode_runs(values: npt.NDArray[Any], counts: npt.NDArray[np.int64]) -> tuple[ChunkBuffer, ChunkBuffer]:
    """Keep each value once for each run, chunk by chunk.

    Args:
        values: Unsigned integers.
        counts: Values of each chunk, at least 1.

    Returns:
        The values, and the run lengths of 8 bits.
    """
    firsts = np.cumsum(counts) - counts
    begins = np.empty(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=begins[1:])
    begins[firsts] = True
    starts = np.flatnonzero(begins)
    lengths = np.diff(starts, append=len(values))
    pieces = -(-lengths // _MAX_RUN)
    run_values = np.repeat(values[starts], pieces)
    run_lengths = np.full(len(run_values), _MAX_RUN, dtype=np.uint8)
    ends = np.cumsum(pieces)
    run_lengths[ends - 1] = lengths - (pieces - 1) * _MAX_RUN
    before = np.concatenate([[0], ends])[np.searchsorted(starts, firsts)]
    runs = np.diff(before, append=len(run_values))
    width = values.dtype.itemsize
    return (
        ChunkBuffer(run_values.view(np.uint8), before * width, runs * width),
        ChunkBuffer(run_lengths, before, runs),
    )


def encode_run_blocks(values: npt.NDArray[Any], counts: npt.NDArray[np.int64]) -> ChunkBuffer:
    """Keep each value once for each run, with values and lengths of a part in one buffer.

    A part begins with the size of its values in 8 bytes.

    Args:
        values: Unsigned integers.
        counts: Values of each part, at least 1.
    """
    run_values, run_lengths = encode_runs(values, counts)
    sizes = _SIZE_BYTES + run_values.sizes + run_lengths.sizes
    starts = np.cumsum(sizes) - sizes
    data = np.empty(int(sizes.sum()), dtype=np.uint8)
    heads = run_values.sizes.astype("<u8").view(np.uint8).reshape(-1, _SIZE_BYTES)
    data[starts[:, np.newaxis] + np.arange(_SIZE_BYTES)] = heads
    copy_parts(run_values, data, starts + _SIZE_BYTES)
    copy_parts(run_lengths, data, starts + _SIZE_BYTES + run_values.sizes)
    return ChunkBuffer(data, starts, sizes)
