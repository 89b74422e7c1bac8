"""Codes of compressed strings replaced by those of another table. There is no reference, see `merge`.

Chunks of strings are given as their bytes, where each begins, how many bytes and how many strings it has, and
the bytes of an offset. They lie within the data, with room for their offsets.
"""

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels import load

MALFORMED = -1
ENDS_WITHIN_ESCAPE = -2
UNKNOWN_SYMBOL = -3
NO_ROOM = -4


def count(
    *,
    data: Bytes,
    starts: Integers,
    sizes: Integers,
    counts: Integers,
    width: int,
    tables: Integers,
    codes: Integers,
    literals: Integers,
) -> int:
    """Count codes.

    Args:
        data: The bytes of all chunks.
        starts: Shape (chunks,): first byte of each.
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
    return int(kernel.count(data, starts, sizes, counts, width, tables, codes, literals))


def rewrite(
    *,
    data: Bytes,
    starts: Integers,
    sizes: Integers,
    counts: Integers,
    width: int,
    tables: Integers,
    words: Words64,
    more: Words64,
    word_sizes: Bytes,
    literals: Words64,
    literal_sizes: Bytes,
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
        data: The bytes of all chunks.
        starts: Shape (chunks,): first byte of each.
        sizes: Shape (chunks,): bytes of each.
        counts: Shape (chunks,): strings of each.
        width: Bytes of an offset: 4 or 8.
        tables: Shape (chunks,): number of the table of each.
        words: Shape (256 * tables,): up to 8 codes that stand for each old one, the first one lowest.
        more: Shape (256 * tables,): the codes after the eighth.
        word_sizes: Shape (256 * tables,): how many they are, 0 for unknown codes and the escape.
        literals: Shape (256,): the codes of each byte that was escaped.
        literal_sizes: Shape (256,): how many they are.
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
    chunks = (data, starts, sizes, counts, width, tables)
    codes = (words, more, word_sizes, literals, literal_sizes)
    gone = (gone_starts, gone_stops)
    return int(kernel.rewrite(*chunks, *codes, *gone, chunk_bytes, out, out_counts, out_starts, out_sizes))
