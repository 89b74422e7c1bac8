"""Run lengths: each value once for a run of equal ones, and the lengths of the runs.

A length is at most 255, so that longer runs are several.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.errors import CorruptFileError


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
    repeats = lengths.join_prefixes(lengths.sizes)
    repeats = np.frombuffer(repeats.tobytes(), dtype=f"<u{length_width}").astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(repeats)])
    last = np.cumsum(runs)
    if bool((ends[last] - ends[last - runs] != counts).any()):
        raise CorruptFileError("the run lengths of a chunk do not add up to its values")
    rows = values.join_prefixes(values.sizes).reshape(-1, width)
    if width in (1, 2, 4, 8):
        return np.repeat(np.ascontiguousarray(rows).view(f"<u{width}").reshape(-1), repeats)
    return np.repeat(rows, repeats, axis=0)
