"""FSST decoding."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.chunks import ChunkBuffer
from lance_ops.encoding.fsst.table import SymbolTable
from lance_ops.encoding.kernels.fsst import decode as loops
from lance_ops.encoding.memory import empty
from lance_ops.encoding.parallel import count_shares, run_side_by_side
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

# Of a table, with the escape and those that stand for nothing.
_CODES = 256
_NON_ASCII = 0x8080808080808080
# What strings take is estimated from some of their codes, where they may take more than this.
_SMALL = 64 << 10
_SAMPLED_PARTS, _SAMPLED_CODES = 64, 128
_MARGIN = 1.05
# Below, handing a share of codes to another thread takes longer than decoding it.
_SHARE_BYTES = 512 << 10
_ERRORS = {
    loops.MALFORMED: "the offsets of a chunk of strings decrease or leave the chunk",
    loops.ENDS_WITHIN_ESCAPE: "a compressed string ends within an escape",
    loops.UNKNOWN_SYMBOL: "a compressed string uses a symbol that the table does not have",
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
    parts = ChunkBuffer(codes, np.zeros(1, dtype=np.int64), np.full(1, size, dtype=np.int64))
    words, lengths = table.spread()
    decode = partial(
        loops.decode_values, data=codes, positions=starts, words=words, lengths=lengths, known=len(table)
    )
    return _run(decode, (words, lengths), parts, len(starts) - 1)


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
    parsed = [SymbolTable.from_bytes(table) for table in symbol_tables]
    found = [table for table in parsed if table is not None]
    if len(found) < len(parsed):
        values = decode_variable_chunks(chunks, counts, width)
        return _decode_in_turn(symbol_tables, tables, values, counts)
    heads = (counts + 1) * width
    chunks.require(heads)
    parts = ChunkBuffer(chunks.data, chunks.starts + heads, chunks.sizes - heads)
    known = np.array([len(table) for table in found], dtype=np.int64)
    words, lengths = _spread(found)

    def share(first: int, last: int) -> _Share:
        some = slice(first, last)
        decode = partial(
            loops.decode_chunks,
            data=chunks.data,
            starts=chunks.starts[some],
            sizes=chunks.sizes[some],
            counts=counts[some],
            width=width,
            tables=tables[some],
            words=words,
            lengths=lengths,
            known=known,
        )
        codes = ChunkBuffer(parts.data, parts.starts[some], parts.sizes[some])
        return _Share(decode, codes, int(counts[some].sum()), tables[some])

    shares = [share(*cut) for cut in pairwise(_cut_evenly(parts.sizes))]
    if len(shares) > 1:
        joined = _run_shares(shares, words, lengths)
        if joined is not None:
            return joined
    whole = share(0, len(counts))
    return _run(whole.decode, (words, lengths), parts, whole.count, tables)


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
    table = SymbolTable.from_bytes(symbol_table)
    if table is None:
        values = gather_values(data, starts, sizes)
        return decode_fsst(symbol_table, values.offsets, values.data)
    starts, sizes = check_slices(starts, sizes, len(data))
    parts = ChunkBuffer(data, starts, sizes)
    words, lengths = table.spread()
    decode = partial(
        loops.decode_slices,
        data=data,
        starts=starts,
        sizes=sizes,
        words=words,
        lengths=lengths,
        known=len(table),
    )
    return _run(decode, (words, lengths), parts, len(sizes))


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


class _Decode(Protocol):
    """A loop that knows its codes and symbols."""

    def __call__(self, *, literals: Bytes, out: Bytes, out_offsets: npt.NDArray[Any]) -> int:
        """Return the size, or what is wrong."""
        ...


def _run(
    decode: _Decode,
    symbols: tuple[npt.NDArray[np.uint64], Integers],
    parts: ChunkBuffer,
    count: int,
    tables: Integers | None = None,
) -> Variable:
    """Call a loop with as much room as it needs.

    Args:
        decode: Which.
        symbols: Words and lengths of all codes of the tables.
        parts: The codes, without anything else.
        count: Number of strings.
        tables: Number of the table of each part; None stands for a single table.
    """
    words, lengths = symbols
    literals = np.zeros(1, dtype=np.uint8)
    most = int(parts.sizes.sum()) * int(lengths.max(initial=1))
    room = most if most <= _SMALL else min(most, _estimate(parts, lengths, tables))
    while True:
        plain = empty(room + loops.SPARE_BYTES, np.uint8)
        offsets = empty(count + 1, offset_type(len(plain)))
        size = decode(literals=literals, out=plain, out_offsets=offsets)
        if size != loops.NO_ROOM or room == most:
            break
        room = most
    if size < 0:
        raise CorruptFileError(_ERRORS[size])
    used = int(np.bitwise_or.reduce(words)) | int(literals[0])
    return Variable(offsets, pa.py_buffer(plain[:size]), is_ascii=not used & _NON_ASCII)


@dataclass(frozen=True, slots=True)
class _Share:
    """Consecutive chunks for one of several threads.

    Attributes:
        decode: The loop, with all that it needs to know of them.
        parts: Their codes.
        count: Number of strings.
        tables: Number of the table of each chunk.
    """

    decode: _Decode
    parts: ChunkBuffer
    count: int
    tables: Integers


def _cut_evenly(sizes: Integers) -> list[int]:
    """Return numbers of the chunks at which each thread's share begins, and that of the last one plus one."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    shares = count_shares(total, _SHARE_BYTES)
    cuts = np.searchsorted(ends, np.arange(1, shares) * (total // shares)) + 1
    return [0, *sorted({int(cut) for cut in cuts if cut < len(sizes)}), len(sizes)]


def _run_shares(
    shares: Sequence[_Share], words: npt.NDArray[np.uint64], lengths: Integers
) -> Variable | None:
    """Decode side by side, and move together what became of each; None where there was too little room."""
    rooms = [_estimate(share.parts, lengths, share.tables) + loops.SPARE_BYTES for share in shares]
    places = np.cumsum([0, *rooms]).tolist()
    plain = empty(places[-1], np.uint8)
    word = offset_type(len(plain))
    literals = np.zeros(len(shares), dtype=np.uint8)
    offsets = [empty(share.count + 1, word) for share in shares]

    def run(number: int) -> int:
        return shares[number].decode(
            literals=literals[number : number + 1],
            out=plain[places[number] : places[number + 1]],
            out_offsets=offsets[number],
        )

    sizes = run_side_by_side([partial(run, number) for number in range(len(shares))])
    if loops.NO_ROOM in sizes:
        return None
    if min(sizes) < 0:
        raise CorruptFileError(_ERRORS[next(size for size in sizes if size < 0)])
    joined = empty(sum(share.count for share in shares) + 1, word)
    end = value = 0
    for place, size, some in zip(places, sizes, offsets, strict=False):
        _move_down(plain, place, end, size)
        np.add(some, word(end), out=joined[value : value + len(some)])
        end, value = end + size, value + len(some) - 1
    used = int(np.bitwise_or.reduce(words)) | int(np.bitwise_or.reduce(literals))
    return Variable(joined, pa.py_buffer(plain[:end]), is_ascii=not used & _NON_ASCII)


def _move_down(data: Bytes, start: int, target: int, size: int) -> None:
    """Move bytes towards the beginning, in pieces that do not overlap where they come to lie."""
    gap = start - target
    piece = max(gap, _SMALL)
    for done in range(0, size if gap else 0, piece):
        count = min(piece, size - done)
        data[target + done : target + done + count] = data[start + done : start + done + count]


def _estimate(parts: ChunkBuffer, lengths: Integers, tables: Integers | None) -> int:
    """Estimate the decoded bytes of codes from above; the longest symbol for each would be far more."""
    filled = np.flatnonzero(parts.sizes)
    chosen = filled[np.linspace(0, len(filled) - 1, min(len(filled), _SAMPLED_PARTS), dtype=np.int64)]
    inner = parts.sizes[chosen, np.newaxis] * np.arange(_SAMPLED_CODES) // _SAMPLED_CODES
    codes = parts.data[parts.starts[chosen, np.newaxis] + inner].astype(np.int64)
    if tables is not None:
        codes += tables[chosen, np.newaxis] * _CODES
    expected = float(lengths[codes].mean())
    return int(int(parts.sizes.sum()) * expected * _MARGIN) + _SMALL
