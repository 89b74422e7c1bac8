"""FSST training: finding a table of symbols for some strings."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.fsst.table import MAX_SYMBOLS, SYMBOL_BYTES, SymbolTable
from lance_ops.encoding.kernels.fsst import train as fsst_train
from lance_ops.encoding.values.variable import gather_values

_SAMPLE_BYTES = 16 << 10
# Long strings are sampled in pieces, so that one of them is not the whole sample.
_PIECE_BYTES = 512
_GENERATIONS = 7
_LEAST_COUNT = 3
# Bits of a byte above which there is nothing to be found.
_MAX_ENTROPY = 7.5


def train_symbols(offsets: npt.NDArray[Any], data: pa.Buffer) -> tuple[SymbolTable, float] | None:
    """Find symbols that compress strings well; the same strings always get the same ones.

    Args:
        offsets: Shape (n + 1,), not decreasing; only the differences count.
        data: The bytes from `offsets[0]` on.

    Returns:
        The symbols, and which share of their size a sample of the strings takes with them. None where the
        bytes look random or are none.
    """
    size = int(offsets[-1] - offsets[0])
    if not size:
        return None
    sample, ends = _take_sample(offsets, np.frombuffer(data, dtype=np.uint8, count=size))
    counts = np.bincount(sample[: ends[-1]], minlength=256)
    if _entropy(counts) > _MAX_ENTROPY:
        return None
    terminator = int(counts.argmin())
    words, lengths = np.zeros(MAX_SYMBOLS, dtype=np.uint64), np.zeros(MAX_SYMBOLS, dtype=np.int64)
    count, compressed = fsst_train.train(
        sample=sample,
        ends=ends,
        terminator=terminator,
        generations=_GENERATIONS,
        least=_LEAST_COUNT,
        words=words,
        lengths=lengths,
    )
    table = _arrange(words[:count], lengths[:count], terminator)
    return table, compressed / int(ends[-1])


def _entropy(counts: npt.NDArray[np.int64]) -> float:
    """Return bits of a byte."""
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def _take_sample(
    offsets: npt.NDArray[Any], data: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Strings or pieces of them, chosen by their bytes; eight bytes more follow them."""
    if len(data) <= _SAMPLE_BYTES:
        ends = (offsets[1:] - offsets[0]).astype(np.int64)
        return np.concatenate([data, np.zeros(SYMBOL_BYTES, dtype=np.uint8)]), ends
    rng = np.random.default_rng(0)
    # Enough for twice the sample if strings are of middling length, for some of it if most bytes are in few.
    count = 2 * _SAMPLE_BYTES // max(min(len(data) // (len(offsets) - 1), _PIECE_BYTES), 4)
    chosen = rng.integers(0, len(data), count)
    wanted = (chosen + offsets[0]).astype(offsets.dtype)
    # One after the other, places are found in less time.
    order = np.argsort(wanted)
    strings = np.empty(count, dtype=np.int64)
    strings[order] = np.searchsorted(offsets, wanted[order], side="right") - 1
    firsts = (offsets[strings] - offsets[0]).astype(np.int64)
    starts = firsts + (chosen - firsts) // _PIECE_BYTES * _PIECE_BYTES
    stops = np.minimum(starts + _PIECE_BYTES, offsets[strings + 1] - offsets[0])
    ends = np.cumsum(stops - starts)
    used = min(int(np.searchsorted(ends, _SAMPLE_BYTES)) + 1, len(ends))
    pieces = gather_values(data, starts[:used], stops[:used] - starts[:used])
    return np.frombuffer(pieces.data.to_pybytes() + bytes(SYMBOL_BYTES), dtype=np.uint8), ends[:used]


def _arrange(words: npt.NDArray[np.uint64], lengths: npt.NDArray[np.int64], terminator: int) -> SymbolTable:
    # The order of the paper: those of two bytes with which others begin, the rest by length, and single bytes
    # last. Readers do not depend on it.
    pairs = words & np.uint64(0xFFFF)
    begins = (lengths == 2) & np.isin(pairs, pairs[lengths > 2])
    rank = np.where(begins, 1, np.where(lengths == 1, SYMBOL_BYTES + 1, lengths))
    order = np.lexsort((words, rank))
    return SymbolTable(words[order], lengths[order], terminator, int(begins.sum()))
