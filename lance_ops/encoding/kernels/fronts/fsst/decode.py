"""FSST decoding.

Tables of symbols are spread over all 256 codes: `words` are the bytes of each symbol, the first one lowest,
and `lengths` how many they are, both 0 for the codes that stand for nothing and for the escape, 255. Bytes of
the compressed strings are checked, and the room in the output is.
"""

from lance_ops.encoding.arrays import Bytes, Integers, Offsets, Words64
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.fsst import decode as reference

MALFORMED = reference.MALFORMED
ENDS_WITHIN_ESCAPE = reference.ENDS_WITHIN_ESCAPE
UNKNOWN_SYMBOL = reference.UNKNOWN_SYMBOL
NO_ROOM = reference.NO_ROOM
SPARE_BYTES = reference.SPARE_BYTES


def decode_values(
    *,
    data: Bytes,
    positions: Integers,
    words: Words64,
    lengths: Integers,
    known: int,
    literals: Bytes,
    out: Bytes,
    out_offsets: Offsets,
) -> int:
    """Decode consecutive strings.

    Args:
        data: Their codes.
        positions: Shape (strings + 1,): where they begin, and the end; the first and the last within the
            data.
        words: Shape (256,): of the symbols.
        lengths: Shape (256,): of the symbols, in bytes, at most 8.
        known: Number of symbols, whose codes are the lowest ones.
        literals: Shape (1,): all escaped bytes are or-ed to it.
        out: Room for the bytes, and `SPARE_BYTES` more, which may be written.
        out_offsets: Shape (strings + 1,): gets the offsets, of a type that counts as far.

    Returns:
        The bytes of all strings, or what is wrong: `MALFORMED` positions, `ENDS_WITHIN_ESCAPE`,
        `UNKNOWN_SYMBOL`, or `NO_ROOM`.
    """
    kernel = load("fsst.decode")
    if kernel is None:
        return reference.decode_values(
            data=data,
            positions=positions,
            words=words,
            lengths=lengths,
            known=known,
            literals=literals,
            out=out,
            out_offsets=out_offsets,
        )
    return int(kernel.decode_values(data, positions, words, lengths, known, literals, out, out_offsets))


def decode_chunks(
    *,
    data: Bytes,
    starts: Integers,
    sizes: Integers,
    counts: Integers,
    width: int,
    tables: Integers,
    words: Words64,
    lengths: Integers,
    known: Integers,
    literals: Bytes,
    out: Bytes,
    out_offsets: Offsets,
) -> int:
    """Decode the strings of chunks, each of which holds offsets and codes; see `decode_values`.

    Args:
        data: The bytes of all chunks.
        starts: Shape (chunks,): first byte of each.
        sizes: Shape (chunks,): bytes of each, all within the data, with room for its offsets.
        counts: Shape (chunks,): strings of each.
        width: Bytes of an offset: 4 or 8.
        tables: Shape (chunks,): number of the table of each.
        words: Shape (256 * tables,): of the symbols.
        lengths: Shape (256 * tables,): of the symbols, in bytes, at most 8.
        known: Shape (tables,): number of symbols of each table.
        literals: Shape (1,): all escaped bytes are or-ed to it.
        out: Room for the bytes, and `SPARE_BYTES` more, which may be written.
        out_offsets: Shape (strings + 1,): gets the offsets, of a type that counts as far.

    Returns:
        The bytes of all strings, or what is wrong.
    """
    kernel = load("fsst.decode")
    if kernel is None:
        return reference.decode_chunks(
            data=data,
            starts=starts,
            sizes=sizes,
            counts=counts,
            width=width,
            tables=tables,
            words=words,
            lengths=lengths,
            known=known,
            literals=literals,
            out=out,
            out_offsets=out_offsets,
        )
    chunks = (data, starts, sizes, counts, width, tables)
    return int(kernel.decode_chunks(*chunks, words, lengths, known, literals, out, out_offsets))


def decode_slices(
    *,
    data: Bytes,
    starts: Integers,
    sizes: Integers,
    words: Words64,
    lengths: Integers,
    known: int,
    literals: Bytes,
    out: Bytes,
    out_offsets: Offsets,
) -> int:
    """Decode strings that lie apart; see `decode_values`.

    Args:
        data: Bytes that hold their codes.
        starts: Shape (strings,): first byte of each, within the data.
        sizes: Shape (strings,): bytes of each, within the data.
        words: Shape (256,): of the symbols.
        lengths: Shape (256,): of the symbols, in bytes, at most 8.
        known: Number of symbols.
        literals: Shape (1,): all escaped bytes are or-ed to it.
        out: Room for the bytes, and `SPARE_BYTES` more, which may be written.
        out_offsets: Shape (strings + 1,): gets the offsets, of a type that counts as far.

    Returns:
        The bytes of all strings, or what is wrong.
    """
    kernel = load("fsst.decode")
    if kernel is None:
        return reference.decode_slices(
            data=data,
            starts=starts,
            sizes=sizes,
            words=words,
            lengths=lengths,
            known=known,
            literals=literals,
            out=out,
            out_offsets=out_offsets,
        )
    table = (words, lengths, known)
    return int(kernel.decode_slices(data, starts, sizes, *table, literals, out, out_offsets))
