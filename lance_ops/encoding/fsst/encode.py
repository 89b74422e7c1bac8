"""Encoding."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding import kernels
from lance_ops.encoding.fsst.table import SymbolTable
from lance_ops.encoding.memory import empty
from lance_ops.errors import UnsupportedError

_KERNEL = "fsst_encode"
_PLACES = 3 << 10
_PAIRS = (1 << 16) + 256


def encode_fsst(
    table: SymbolTable, offsets: npt.NDArray[Any], data: pa.Buffer
) -> tuple[npt.NDArray[np.int64], pa.Buffer]:
    """Compress strings, each by itself.

    Args:
        table: Symbols.
        offsets: Shape (n + 1,), not decreasing; only the differences count.
        data: The bytes from `offsets[0]` on.

    Returns:
        Offsets of the compressed strings from 0, and their bytes.

    Raises:
        UnsupportedError: There are no kernels, without which this would take forever.
    """
    kernel = kernels.load(_KERNEL)
    if kernel is None:
        raise UnsupportedError("strings cannot be compressed with a table of symbols without numba")
    offsets = np.ascontiguousarray(offsets)
    ends = empty(len(offsets), np.int64)
    count = kernel.find_ends(offsets, ends)
    out_offsets = np.zeros(len(offsets), dtype=np.int64)
    if count == 0:
        return out_offsets, pa.py_buffer(b"")
    size = int(ends[count - 1])
    plain = np.frombuffer(data, dtype=np.uint8, count=size)
    words, codes = np.zeros(_PLACES, dtype=np.uint64), np.zeros(_PLACES, dtype=np.uint16)
    pair_codes = np.zeros(_PAIRS, dtype=np.uint16)
    keys = kernel.prepare(table.words, table.lengths, words, codes, pair_codes)
    half = int(np.searchsorted(ends[:count], size // 2))
    middle = 2 * int(ends[half - 1]) if half else 0
    out, out_ends = empty(2 * size, np.uint8), empty(count, np.int64)
    ending = np.concatenate([plain[-8:], np.zeros(8, dtype=np.uint8)])
    first_end, second_end = kernel.encode(
        plain, ending, ends, count, half, *keys, words, codes, pair_codes, out, middle, out_ends
    )
    out[first_end : first_end + second_end - middle] = out[middle:second_end]
    kernel.fill_offsets(offsets, out_ends, half, middle - first_end, out_offsets)
    return out_offsets, pa.py_buffer(out[: int(out_offsets[-1])])
