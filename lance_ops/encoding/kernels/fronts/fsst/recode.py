"""Codes of compressed strings replaced by those of another table. There is no reference, see `merge`.

Chunks of strings are given by their addresses, how many bytes and how many strings each has, and the bytes of
an offset. The caller keeps what lies there, and knows that each has room for its offsets.
"""

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels import load

MALFORMED = -1
ENDS_WITHIN_ESCAPE = -2
UNKNOWN_SYMBOL = -3
NO_ROOM = -4

ALONE = 1 << 63
UNKNOWN = ALONE | 0xFFFFFFFF


def count(
    *,
    starts: Words64,
    sizes: Integers,
    counts: Integers,
    width: int,
    tables: Integers,
    codes: Integers,
    literals: Integers,
) -> int:
    """Count codes.

    Args:
        starts: Shape (chunks,): address of the first byte of each.
        sizes: Shape (chunks,): bytes of each.
        counts: Shape (chunks,): strings of each.
        width: Bytes of an offset: 4 or 8.
        tables: Shape (chunks,): number of the table of each.
        codes: Shape (256 * tables,): gets how often each code of each table occurs, added to what is there.
        literals: Shape (256,): the same of escaped bytes.

    Returns:
        The bytes that were looked at, or `MALFORMED`.
    """
    kernel = load("fsst.recode")
    assert kernel is not None
    return int(kernel.count(starts, sizes, counts, width, tables, codes, literals))


def rewrite(
    *,
    starts: Words64,
    sizes: Integers,
    counts: Integers,
    width: int,
    tables: Integers,
    entries: Words64,
    spelled: Words64,
    spelled_sizes: Bytes,
    gone_starts: Integers,
    gone_stops: Integers,
    chunk_bytes: int,
    out: Bytes,
    out_counts: Integers,
    out_starts: Integers,
    out_sizes: Integers,
) -> int:
    """Replace the codes of strings, and cut the strings into chunks again.

    Args:
        starts: Shape (chunks,): address of the first byte of each.
        sizes: Shape (chunks,): bytes of each.
        counts: Shape (chunks,): strings of each.
        width: Bytes of an offset: 4 or 8.
        tables: Shape (chunks,): number of the table of each.
        entries: Shape (512 * tables,): of each code, then of each escaped byte. Up to 7 codes that stand for
            it, the first one lowest, and how many they are in the highest byte; the escape has none. `ALONE`
            and the number of a symbol where it takes more, `UNKNOWN` where there is no such code.
        spelled: Shape (2 * symbols,): up to 16 codes that stand for each symbol.
        spelled_sizes: Shape (symbols,): how many they are.
        gone_starts: The first of each run of strings that go, ascending.
        gone_stops: The end of each.
        chunk_bytes: What a new chunk holds at most, if it is not of two strings only.
        out: Room for the chunks, each with 8 bytes in front of it.
        out_counts: Room for the strings of each new chunk.
        out_starts: Room for the first byte of each.
        out_sizes: Room for the bytes of each.

    Returns:
        The number of new chunks, or what is wrong: `MALFORMED` offsets, `ENDS_WITHIN_ESCAPE`,
        `UNKNOWN_SYMBOL`, or `NO_ROOM`.
    """
    kernel = load("fsst.recode")
    assert kernel is not None
    chunks = (starts, sizes, counts, width, tables)
    codes = (entries, spelled, spelled_sizes)
    gone = (gone_starts, gone_stops)
    return int(kernel.rewrite(*chunks, *codes, *gone, chunk_bytes, out, out_counts, out_starts, out_sizes))
