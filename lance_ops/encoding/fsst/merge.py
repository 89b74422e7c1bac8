"""FSST tables merged: strings that several tables compress get one table, code by code.

Tables of one column are found from different samples of the same kind of strings, so that most of their
symbols are the same. What a merged table has no room for is spelled by others, at the price of a few codes
more; how many, a sample shows before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.chunks import CHUNK_ROOM, ChunkBuffer
from lance_ops.encoding.fsst.table import MAX_SYMBOLS, SYMBOL_BYTES, SymbolTable
from lance_ops.encoding.kernels.fsst import merge as fsst_merge
from lance_ops.encoding.kernels.fsst import recode
from lance_ops.encoding.memory import empty
from lance_ops.errors import CorruptFileError

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

_CODES = 256
_SAMPLED_CHUNKS = 64
_SIZE_SHIFT = 56
_MOST_PACKED = _SIZE_SHIFT // 8
_PACKED = (1 << _SIZE_SHIFT) - 1
_WHAT_IS_WRONG = {
    recode.MALFORMED: "the offsets of a chunk of strings decrease or leave the chunk",
    recode.ENDS_WITHIN_ESCAPE: "a compressed string ends within an escape",
    recode.UNKNOWN_SYMBOL: "a compressed string has a code that its table has no symbol of",
}


@dataclass(frozen=True, slots=True, eq=False)
class CompressedStrings:
    """Chunks of strings, each of which holds offsets and codes.

    Attributes:
        data: The bytes that they lie in, which need not be brought together: they stay while this does.
        addresses: Of the first byte of each chunk.
        sizes: Bytes of each.
        counts: Strings of each.
        tables: The tables of symbols.
        owners: Which of the tables each chunk is compressed by.
        width: Bytes of an offset: 4 or 8.
    """

    data: Sequence[Bytes]
    addresses: npt.NDArray[np.uint64]
    sizes: Integers
    counts: Integers
    tables: Sequence[SymbolTable]
    owners: Integers
    width: int

    @classmethod
    def of_chunks(
        cls,
        chunks: ChunkBuffer,
        counts: Integers,
        tables: Sequence[SymbolTable],
        owners: Integers,
        width: int,
    ) -> "CompressedStrings":
        """Return those that lie in one buffer."""
        addresses = chunks.starts.astype(np.uint64) + np.uint64(chunks.data.ctypes.data)
        sizes = np.ascontiguousarray(chunks.sizes)
        return cls((chunks.data,), addresses, sizes, counts, tables, owners, width)

    def __post_init__(self) -> None:
        if bool((self.sizes < (self.counts + 1) * self.width).any()):
            raise CorruptFileError("a chunk is too short for its values")


@dataclass(frozen=True, slots=True, eq=False)
class MergedSymbols:
    """One table, and what codes of others are in it.

    Attributes:
        table: The new one.
        growth: Codes that a sample takes with it, as a multiple of what it took before.
        entries: Shape (tables, 512): what stands for each old code and escaped byte, see `recode.rewrite`.
        spelled: Shape (symbols, 2): codes that stand for each old symbol, the first one lowest.
        sizes: Shape (symbols,): how many they are.
    """

    table: SymbolTable
    growth: float
    entries: npt.NDArray[np.uint64]
    spelled: npt.NDArray[np.uint64]
    sizes: Bytes


def merge_symbols(strings: CompressedStrings) -> MergedSymbols:
    """Choose one table for strings of several, by what a sample of them takes.

    Args:
        strings: Of one table at least.

    Raises:
        CorruptFileError: Offsets of a chunk decrease or leave it.
    """
    sizes = [len(table) for table in strings.tables]
    # Any byte may have been escaped, and may be worth a code now.
    words = np.concatenate(
        [*(table.words for table in strings.tables), np.arange(_CODES, dtype=np.uint64)], dtype=np.uint64
    )
    lengths = np.concatenate(
        [*(table.lengths for table in strings.tables), np.ones(_CODES, np.int64)], dtype=np.int64
    )
    places = np.concatenate([np.arange(size) + _CODES * number for number, size in enumerate(sizes)])
    codes, literals = _count_codes(strings)
    found_words, found_lengths, numbers = np.empty_like(words), np.empty_like(lengths), np.empty_like(lengths)
    slots = np.full(1 << (2 * len(words)).bit_length(), -1, dtype=np.int64)
    count = fsst_merge.collect(
        words=words,
        lengths=lengths,
        found_words=found_words,
        found_lengths=found_lengths,
        numbers=numbers,
        slots=slots,
    )
    found_words, found_lengths = found_words[:count], found_lengths[:count]
    weights = np.bincount(numbers, np.concatenate([codes[places], literals]), count).astype(np.int64)
    parts = np.empty((count, SYMBOL_BYTES, SYMBOL_BYTES), dtype=np.int64)
    fsst_merge.find_parts(words=found_words, lengths=found_lengths, slots=slots, parts=parts)
    chosen = np.empty(count, dtype=np.bool_)
    after = fsst_merge.choose(
        parts=parts, lengths=found_lengths, weights=weights, most=MAX_SYMBOLS, chosen=chosen
    )
    table, order = _arrange(found_words, found_lengths, chosen)
    new_codes = np.full(count, -1, dtype=np.int64)
    new_codes[order] = np.arange(len(order))
    spelled, spelled_sizes = np.empty((count, 2), dtype=np.uint64), np.empty(count, dtype=np.uint8)
    fsst_merge.translate(
        parts=parts,
        words=found_words,
        lengths=found_lengths,
        chosen=chosen,
        codes=new_codes,
        spelled=spelled,
        sizes=spelled_sizes,
    )
    before = int(codes[places].sum()) + 2 * int(literals.sum())
    return MergedSymbols(
        table=table,
        growth=after / max(before, 1),
        entries=_entries(spelled, spelled_sizes, numbers, sizes),
        spelled=spelled,
        sizes=spelled_sizes,
    )


def recode_strings(
    strings: CompressedStrings,
    merged: MergedSymbols,
    gone: tuple[Integers, Integers] | None,
    *,
    chunk_bytes: int,
) -> tuple[Integers, ChunkBuffer] | None:
    """Replace the codes of strings by those of the merged table, and cut the strings into chunks again.

    Args:
        strings: What the table was merged for.
        merged: The table.
        gone: Starts and stops of the strings that are left out, ascending; not all of them.
        chunk_bytes: What a chunk holds at most. A chunk of two strings, or of one at the end, may be larger.

    Returns:
        Strings of each chunk and the chunks; None where they grow far more than the sample did.

    Raises:
        CorruptFileError: The chunks are not what they should be.
    """
    starts, stops = (np.empty(0, np.int64),) * 2 if gone is None else gone
    count = int(strings.counts.sum()) - int((stops - starts).sum())
    most = count // 2 + 2
    heads = (count + most) * strings.width + most * (CHUNK_ROOM + 16)
    room = heads + int(int(strings.sizes.sum()) * (merged.growth + 0.25))
    out = empty(room, np.uint8)
    counts, firsts, sizes = np.empty((3, most), dtype=np.int64)
    made = recode.rewrite(
        starts=strings.addresses,
        sizes=strings.sizes,
        counts=strings.counts,
        width=strings.width,
        tables=strings.owners,
        entries=merged.entries.reshape(-1),
        spelled=merged.spelled.reshape(-1),
        spelled_sizes=merged.sizes,
        gone_starts=np.ascontiguousarray(starts, dtype=np.int64),
        gone_stops=np.ascontiguousarray(stops, dtype=np.int64),
        chunk_bytes=chunk_bytes,
        out=out,
        out_counts=counts,
        out_starts=firsts,
        out_sizes=sizes,
    )
    if made == recode.NO_ROOM:
        return None
    if made < 0:
        raise CorruptFileError(_WHAT_IS_WRONG[made])
    counts, firsts, sizes = counts[:made], firsts[:made], sizes[:made]
    if int(counts.sum()) != count:
        raise CorruptFileError(f"chunks of {int(counts.sum())} strings instead of {count}")
    end = int(firsts[-1] + (sizes[-1] + 7) // 8 * 8) if made else 0
    return counts, ChunkBuffer(out[:end], firsts, sizes)


def _count_codes(strings: CompressedStrings) -> tuple[Integers, Integers]:
    """Count codes in a sample of the chunks, spread over all of them."""
    step = max(1, len(strings.counts) // _SAMPLED_CHUNKS)
    codes = np.zeros(_CODES * len(strings.tables), dtype=np.int64)
    literals = np.zeros(_CODES, dtype=np.int64)
    status = recode.count(
        starts=strings.addresses[::step].copy(),
        sizes=strings.sizes[::step].copy(),
        counts=strings.counts[::step].copy(),
        width=strings.width,
        tables=strings.owners[::step].copy(),
        codes=codes,
        literals=literals,
    )
    if status < 0:
        raise CorruptFileError(_WHAT_IS_WRONG[status])
    return codes, literals


def _entries(
    spelled: npt.NDArray[np.uint64], spelled_sizes: Bytes, numbers: Integers, sizes: Sequence[int]
) -> npt.NDArray[np.uint64]:
    """Return the replacement of each code of the tables, and of escaped bytes.

    Args:
        spelled: Of each symbol.
        spelled_sizes: Of each symbol.
        numbers: The symbols of all tables, then the bytes.
        sizes: How many are of each table.
    """
    packed = (spelled[:, 0] & np.uint64(_PACKED)) | (
        spelled_sizes.astype(np.uint64) << np.uint64(_SIZE_SHIFT)
    )
    alone = np.flatnonzero(spelled_sizes > _MOST_PACKED)
    packed[alone] = alone.astype(np.uint64) | np.uint64(recode.ALONE)
    entries = np.full((len(sizes), 2 * _CODES), recode.UNKNOWN, dtype=np.uint64)
    ends = np.cumsum(sizes).tolist()
    for own, size, end in zip(entries, sizes, ends, strict=True):
        own[:size] = packed[numbers[end - size : end]]
    # The escape itself is nothing.
    entries[:, _CODES - 1] = 0
    entries[:, _CODES:] = packed[numbers[len(numbers) - _CODES :]]
    return entries


def _arrange(
    words: npt.NDArray[np.uint64], lengths: Integers, chosen: npt.NDArray[np.bool_]
) -> tuple[SymbolTable, Integers]:
    """Return the table of the symbols that were chosen, and which these are in its order."""
    order = np.flatnonzero(chosen)
    rank = np.where(lengths[order] == 1, SYMBOL_BYTES + 1, lengths[order])
    order = order[np.lexsort((words[order], rank))]
    within = words[order][lengths[order] > 1].astype("<u8").view(np.uint8)
    unused = np.flatnonzero(np.bincount(within, minlength=_CODES) == 0)
    terminator = int(unused[0]) if len(unused) else 0
    return SymbolTable(words[order], lengths[order], terminator), order
