"""FSST decoding."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding import kernels
from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.fsst.table import ESCAPE, SYMBOL_BYTES, SymbolTable
from lance_ops.encoding.memory import empty
from lance_ops.encoding.values.values import Variable
from lance_ops.encoding.values.variable import (
    check_slices,
    decode_variable_chunks,
    gather_values,
    offset_type,
)
from lance_ops.errors import CorruptFileError

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

_BLOCK_CODES = 64 << 10
# Of a table, with the escape and those that stand for nothing.
_CODES = 256
_KERNEL = "fsst_decode"
_NON_ASCII = 0x8080808080808080
# Room behind the last symbol, which the kernels ask for.
_SPARE_BYTES = 72
# What strings take is estimated from some of their codes, where they may take more than this.
_SMALL = 64 << 10
_SAMPLED_PARTS, _SAMPLED_CODES = 64, 128
_MARGIN = 1.05
# Answers of the kernels instead of a size.
_NO_ROOM = -4
_ERRORS = {
    -1: "the offsets of a chunk of strings decrease or leave the chunk",
    -2: "a compressed string ends within an escape",
    -3: "a compressed string uses a symbol that the table does not have",
}


def decode_fsst(symbol_table: bytes, offsets: npt.NDArray[Any], data: pa.Buffer) -> Variable:
    """Decompress consecutive strings.

    Args:
        symbol_table: As a page carries it; see `SymbolTable.from_bytes`.
        offsets: Of the compressed strings, shape (n + 1,).
        data: The compressed bytes from `offsets[0]` on.

    Raises:
        CorruptFileError: The table is damaged, or the strings are.
    """
    table = SymbolTable.from_bytes(symbol_table)
    starts = (offsets - offsets[0]).astype(np.int64, copy=False)
    size = int(starts[-1])
    if not 0 <= size <= data.size:
        raise CorruptFileError("the bytes of a compressed string column end too early")
    if table is None:
        return Variable(starts, data.slice(0, size))
    codes = np.frombuffer(data, dtype=np.uint8)[:size]
    kernel = kernels.load(_KERNEL)
    if kernel is None:
        return _decode_plainly(table, starts, codes)
    parts = ChunkBuffer(codes, np.zeros(1, dtype=np.int64), np.full(1, size, dtype=np.int64))
    return _run(kernel.decode_values, table.spread(), len(table), parts, len(starts) - 1, codes, starts)


def decode_fsst_chunks(
    symbol_tables: Sequence[bytes], tables: Integers, chunks: ChunkBuffer, counts: Integers, width: int
) -> Variable:
    """Decompress the strings of consecutive chunks.

    Args:
        symbol_tables: As pages carry them; see `SymbolTable.from_bytes`.
        tables: Number of the table of each chunk, not descending.
        chunks: Their buffers, each with offsets and compressed strings.
        counts: Strings of each.
        width: Bytes of an offset: 4 or 8.

    Raises:
        CorruptFileError: A table is damaged, or the strings are.
    """
    kernel = kernels.load(_KERNEL)
    parsed = [] if kernel is None else [SymbolTable.from_bytes(table) for table in symbol_tables]
    found = [table for table in parsed if table is not None]
    if kernel is None or len(found) < len(parsed):
        values = decode_variable_chunks(chunks, counts, width)
        return _decode_in_turn(symbol_tables, tables, values, counts)
    heads = (counts + 1) * width
    chunks.require(heads)
    parts = ChunkBuffer(chunks.data, chunks.starts + heads, chunks.sizes - heads)
    known = np.array([len(table) for table in found], dtype=np.int64)
    places = (chunks.data, chunks.starts, chunks.sizes, counts, width, tables)
    return _run(kernel.decode_chunks, _spread(found), known, parts, int(counts.sum()), *places, tables=tables)


def decode_fsst_slices(symbol_table: bytes, data: Bytes, starts: Integers, sizes: Integers) -> Variable:
    """Decompress strings that lie apart.

    Args:
        symbol_table: As a page carries it; see `SymbolTable.from_bytes`.
        data: Bytes that hold the strings.
        starts: Where each begins.
        sizes: Compressed bytes of each.

    Raises:
        CorruptFileError: The table is damaged, or the strings are, or one does not lie within the data.
    """
    kernel = kernels.load(_KERNEL)
    table = None if kernel is None else SymbolTable.from_bytes(symbol_table)
    if kernel is None or table is None:
        values = gather_values(data, starts, sizes)
        return decode_fsst(symbol_table, values.offsets, values.data)
    starts, sizes = check_slices(starts, sizes, len(data))
    parts = ChunkBuffer(data, starts, sizes)
    return _run(kernel.decode_slices, table.spread(), len(table), parts, len(sizes), data, starts, sizes)


def _spread(tables: Sequence[SymbolTable]) -> tuple[npt.NDArray[np.uint64], Integers]:
    if len(tables) == 1:
        return tables[0].spread()
    words, lengths = zip(*(table.spread() for table in tables), strict=True)
    return np.concatenate(words), np.concatenate(lengths)


def _decode_in_turn(
    symbol_tables: Sequence[bytes], tables: Integers, values: Variable, counts: Integers
) -> Variable:
    """Decompress the strings of one table after the other."""
    if len(symbol_tables) == 1:
        return decode_fsst(symbol_tables[0], values.offsets, values.data)
    cuts = np.cumsum(np.bincount(tables, counts, len(symbol_tables))).astype(np.int64).tolist()
    ends, pieces = [np.zeros(1, dtype=np.int64)], []
    first = total = 0
    for table, last in zip(symbol_tables, cuts, strict=True):
        offsets = values.offsets[first : last + 1]
        piece = decode_fsst(table, offsets, values.data.slice(int(offsets[0] - values.offsets[0])))
        ends.append(piece.offsets[1:].astype(np.int64) - int(piece.offsets[0]) + total)
        pieces.append(np.frombuffer(piece.data, dtype=np.uint8))
        first, total = last, total + len(pieces[-1])
    return Variable(np.concatenate(ends), pa.py_buffer(np.concatenate(pieces)))


def _run(
    kernel: Any,
    symbols: tuple[npt.NDArray[np.uint64], Integers],
    known: int | Integers,
    parts: ChunkBuffer,
    count: int,
    *compressed: Any,
    tables: Integers | None = None,
) -> Variable:
    """Call a kernel.

    Args:
        kernel: Which.
        symbols: Words and lengths of all codes of the tables.
        known: Number of symbols, of each table if the kernel takes several.
        parts: The codes, without anything else.
        count: Number of strings.
        compressed: Where they lie, for the kernel.
        tables: Number of the table of each part; None stands for a single table.
    """
    words, lengths = symbols
    literals = np.zeros(1, dtype=np.uint8)
    most = int(parts.sizes.sum()) * int(lengths.max(initial=1))
    room = most if most <= _SMALL else min(most, _estimate(parts, lengths, tables))
    while True:
        plain = empty(room + _SPARE_BYTES, np.uint8)
        offsets = empty(count + 1, offset_type(len(plain)))
        size = kernel(*compressed, words, lengths, known, literals, plain, offsets)
        if size != _NO_ROOM or room == most:
            break
        room = most
    if size < 0:
        raise CorruptFileError(_ERRORS[size])
    used = int(np.bitwise_or.reduce(words)) | int(literals[0])
    return Variable(offsets, pa.py_buffer(plain[:size]), is_ascii=not used & _NON_ASCII)


def _estimate(parts: ChunkBuffer, lengths: Integers, tables: Integers | None) -> int:
    """About how many bytes codes stand for, rather too many: the longest symbol at each would be far more."""
    filled = np.flatnonzero(parts.sizes)
    chosen = filled[np.linspace(0, len(filled) - 1, min(len(filled), _SAMPLED_PARTS), dtype=np.int64)]
    inner = parts.sizes[chosen, np.newaxis] * np.arange(_SAMPLED_CODES) // _SAMPLED_CODES
    codes = parts.data[parts.starts[chosen, np.newaxis] + inner].astype(np.int64)
    if tables is not None:
        codes += tables[chosen, np.newaxis] * _CODES
    expected = float(lengths[codes].mean())
    return int(int(parts.sizes.sum()) * expected * _MARGIN) + _SMALL


def _decode_plainly(table: SymbolTable, starts: Integers, codes: npt.NDArray[np.uint8]) -> Variable:
    words, lengths = table.spread()
    # For each code, which of the eight bytes of its symbol count.
    used = (np.arange(SYMBOL_BYTES) < lengths[:, np.newaxis]).view(np.uint64).reshape(-1)
    unknown = lengths == 0
    unknown[ESCAPE] = False
    plain_starts = np.zeros(len(starts), dtype=np.int64)
    pieces = []
    first = total = 0
    while first < len(starts) - 1:
        # Blocks keep the intermediate arrays within the processor's caches.
        last = int(np.searchsorted(starts, starts[first] + _BLOCK_CODES, side="right")) - 1
        last = max(last, first + 1)
        block = codes[int(starts[first]) : int(starts[last])]
        inner = starts[first : last + 1] - starts[first]
        piece, ends = _decode_block(block, inner, words, used, unknown)
        plain_starts[first : last + 1] = total + ends
        pieces.append(piece)
        total += len(piece)
        first = last
    plain = np.concatenate(pieces) if pieces else codes[:0]
    return Variable(plain_starts, pa.py_buffer(plain))


def _decode_block(
    codes: npt.NDArray[np.uint8],
    starts: Integers,
    words: npt.NDArray[np.uint64],
    used: npt.NDArray[np.uint64],
    unknown: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.uint8], Integers]:
    values, keep = words[codes], used[codes]
    absent = unknown[codes]
    escapes = _find_escapes(codes)
    if len(escapes):
        literals = escapes + 1
        # A string that ends within an escape would lend its last code to the next string.
        if int(literals[-1]) >= len(codes) or bool(np.isin(literals, starts).any()):
            raise CorruptFileError(_ERRORS[-2])
        values[literals] = codes[literals]
        keep[literals] = 1
        keep[escapes] = 0
        absent[literals] = False
    if bool(absent.any()):
        raise CorruptFileError(_ERRORS[-3])
    flags = keep.view(np.uint8)
    ends = np.zeros(len(codes) + 1, dtype=np.int64)
    # Each kept byte counts one: multiplying adds up the eight of a word in its highest byte.
    np.cumsum((keep * np.uint64(0x0101010101010101)) >> np.uint64(56), out=ends[1:])
    return values.view(np.uint8)[flags.view(np.bool_)], ends[starts]


def _find_escapes(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    # In a run of 255s every other one is an escape and the one after it a literal, counted from the start of
    # the run.
    found = np.flatnonzero(codes == ESCAPE)
    if not len(found):
        return found
    begins = np.ones(len(found), dtype=np.bool_)
    begins[1:] = np.diff(found) > 1
    run_starts = found[begins][np.cumsum(begins) - 1]
    escapes: npt.NDArray[np.int64] = found[(found - run_starts) % 2 == 0]
    return escapes
