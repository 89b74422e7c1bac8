"""Encoding."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding import kernels
from lance_ops.encoding.fsst.table import SymbolTable
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
    starts = (offsets - offsets[0]).astype(np.int64, copy=False)
    size = int(starts[-1])
    plain = np.frombuffer(data, dtype=np.uint8, count=size)
    words, codes = np.zeros(_PLACES, dtype=np.uint64), np.zeros(_PLACES, dtype=np.uint32)
    pair_codes = np.zeros(_PAIRS, dtype=np.uint16)
    keys = kernel.prepare(table.words, table.lengths, words, codes, pair_codes)
    half = int(np.searchsorted(starts, size // 2))
    middle = 2 * int(starts[half])
    out = np.empty(2 * size, dtype=np.uint8)
    out_offsets = np.empty(len(starts), dtype=np.int64)
    ending = np.concatenate([plain[-8:], np.zeros(8, dtype=np.uint8)])
    first_end, second_end = kernel.encode(
        plain, ending, starts, half, *keys, words, codes, pair_codes, out, middle, out_offsets
    )
    out[first_end : first_end + second_end - middle] = out[middle:second_end]
    out_offsets[half:-1] -= middle - first_end
    out_offsets[-1] = first_end + second_end - middle
    out.resize(int(out_offsets[-1]), refcheck=False)
    return out_offsets, pa.py_buffer(out)
