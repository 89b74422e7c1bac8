"""FSST tables merged: strings that several tables compress get one table, code by code.

Tables of one column are found from different samples of the same kind of strings, so that most of their
symbols are the same. What a merged table has no room for is spelled by others, at the price of a few codes
more; how many, a sample tells beforehand.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.chunks import CHUNK_ROOM, ChunkBuffer
from lance_ops.encoding.fsst.table import MAX_SYMBOLS, SYMBOL_BYTES, SymbolTable
from lance_ops.encoding.kernels.fronts.fsst import merge as fsst_merge
from lance_ops.encoding.kernels.fronts.fsst import recode
from lance_ops.encoding.memory import empty
from lance_ops.errors import CorruptFileError

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

_CODES = 256
_SAMPLED_CHUNKS = 64
_WHAT_IS_WRONG = {
    recode.MALFORMED: "the offsets of a chunk of strings decrease or leave the chunk",
    recode.ENDS_WITHIN_ESCAPE: "a compressed string ends within an escape",
    recode.UNKNOWN_SYMBOL: "a compressed string has a code that its table has no symbol of",
}


@dataclass(frozen=True, slots=True, eq=False)
class CompressedStrings:
    """Chunks of strings, each of which holds offsets and codes.

    Attributes:
        chunks: Their bytes.
        counts: Strings of each.
        tables: The tables of symbols.
        owners: Which of the tables each chunk is compressed by.
        width: Bytes of an offset: 4 or 8.
    """

    chunks: ChunkBuffer
    counts: Integers
    tables: Sequence[SymbolTable]
    owners: Integers
    width: int

    def __post_init__(self) -> None:
        self.chunks.require((self.counts + 1) * self.width)


@dataclass(frozen=True, slots=True, eq=False)
class MergedSymbols:
    """One table, and what codes of others are in it.

    Attributes:
        table: The new one.
        growth: Codes that a sample takes with it, as a multiple of what it took before.
        spelled: Shape (256 * tables, 2): codes that stand for each old one, the first one lowest.
        sizes: Shape (256 * tables,): how many they are; 0 for codes without a symbol.
        literals: Shape (256,): the codes of each byte that was escaped.
        literal_sizes: Shape (256,): how many they are.
    """

    table: SymbolTable
    growth: float
    spelled: npt.NDArray[np.uint64]
    sizes: Bytes
    literals: npt.NDArray[np.uint64]
    literal_sizes: Bytes


def merge_symbols(strings: CompressedStrings) -> MergedSymbols | None:
    """Choose one table for strings of several, by what a sample of them takes.

    Args:
        strings: Of one table at least.

    Returns:
        None where there are no kernels.

    Raises:
        CorruptFileError: Offsets of a chunk decrease or leave it.
    """
    if not fsst_merge.available():
        return None
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
    old, bytes_alone = numbers[: len(places)], numbers[len(places) :]
    all_spelled = np.zeros((_CODES * len(sizes), 2), dtype=np.uint64)
    all_sizes = np.zeros(_CODES * len(sizes), dtype=np.uint8)
    all_spelled[places], all_sizes[places] = spelled[old], spelled_sizes[old]
    before = int(codes[places].sum()) + 2 * int(literals.sum())
    return MergedSymbols(
        table=table,
        growth=after / max(before, 1),
        spelled=all_spelled,
        sizes=all_sizes,
        literals=np.ascontiguousarray(spelled[bytes_alone, 0]),
        literal_sizes=spelled_sizes[bytes_alone],
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
    room = heads + int(int(strings.chunks.sizes.sum()) * (merged.growth + 0.25))
    out = empty(room, np.uint8)
    counts, firsts, sizes = np.empty((3, most), dtype=np.int64)
    made = recode.rewrite(
        data=strings.chunks.data,
        starts=strings.chunks.starts,
        sizes=strings.chunks.sizes,
        counts=strings.counts,
        width=strings.width,
        tables=strings.owners,
        words=np.ascontiguousarray(merged.spelled[:, 0]),
        more=np.ascontiguousarray(merged.spelled[:, 1]),
        word_sizes=merged.sizes,
        literals=merged.literals,
        literal_sizes=merged.literal_sizes,
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
    """How often codes occur in some of the chunks, spread over all of them."""
    step = max(1, len(strings.counts) // _SAMPLED_CHUNKS)
    codes = np.zeros(_CODES * len(strings.tables), dtype=np.int64)
    literals = np.zeros(_CODES, dtype=np.int64)
    status = recode.count(
        data=strings.chunks.data,
        starts=strings.chunks.starts[::step].copy(),
        sizes=strings.chunks.sizes[::step].copy(),
        counts=strings.counts[::step].copy(),
        width=strings.width,
        tables=strings.owners[::step].copy(),
        codes=codes,
        literals=literals,
    )
    if status < 0:
        raise CorruptFileError(_WHAT_IS_WRONG[status])
    return codes, literals


def _arrange(
    words: npt.NDArray[np.uint64], lengths: Integers, chosen: npt.NDArray[np.bool_]
) -> tuple[SymbolTable, Integers]:
    """The table of the symbols that were chosen, and which these are in its order."""
    order = np.flatnonzero(chosen)
    rank = np.where(lengths[order] == 1, SYMBOL_BYTES + 1, lengths[order])
    order = order[np.lexsort((words[order], rank))]
    within = words[order][lengths[order] > 1].astype("<u8").view(np.uint8)
    unused = np.flatnonzero(np.bincount(within, minlength=_CODES) == 0)
    terminator = int(unused[0]) if len(unused) else 0
    return SymbolTable(words[order], lengths[order], terminator), order
