"""Dropping rows from encoded pages."""

from lance_ops.encoding.arrays import Bytes, Integers, Words
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.pages import page_copy as reference

MALFORMED, TOO_LARGE = reference.MALFORMED, reference.TOO_LARGE


def gather_ranges(*, data: Bytes, starts: Integers, stops: Integers, out: Bytes) -> int:
    """Concatenate the bytes of ranges.

    Args:
        data: Any bytes; positions in it are checked.
        starts: Shape (ranges,): first byte of each.
        stops: Shape (ranges,): end of each.
        out: Room for the bytes, which is checked, too.

    Returns:
        How many bytes there are, or `MALFORMED`.
    """
    kernel = load("pages.page_copy")
    if kernel is None:
        return reference.gather_ranges(data=data, starts=starts, stops=stops, out=out)
    return int(kernel.gather_ranges(data, starts, stops, out))


def count_entries(
    *,
    data: Bytes,
    starts: Integers,
    stops: Integers,
    control_bytes: int,
    def_bits: int,
    length_bytes: int,
    value_bytes: int,
    visible_below: int,
    counts: Integers,
) -> int:
    """Count the entries of rows of a full-zip page.

    Args:
        data: The entries; all positions in it are checked.
        starts: Shape (rows,): first byte of each row.
        stops: Shape (rows,): end of each.
        control_bytes: Bytes of the levels in front of each entry, at most 8.
        def_bits: The lowest bits of them, which are the definition level.
        length_bytes: Bytes of the length in front of a value, at most 8; 0 for values of fixed width.
        value_bytes: Of a value of fixed width.
        visible_below: Entries of a definition level below this have a slot.
        counts: Shape (2,), zeros: gets the entries, and those of them that have a slot.

    Returns:
        0, or `MALFORMED` when an entry reaches beyond its row or has no bytes.
    """
    kernel = load("pages.page_copy")
    if kernel is None:
        return reference.count_entries(
            data=data,
            starts=starts,
            stops=stops,
            control_bytes=control_bytes,
            def_bits=def_bits,
            length_bytes=length_bytes,
            value_bytes=value_bytes,
            visible_below=visible_below,
            counts=counts,
        )
    form = (control_bytes, def_bits, length_bytes, value_bytes, visible_below)
    return int(kernel.count_entries(data, starts, stops, *form, counts))


def available() -> bool:
    """Return whether `keep_strings` can be called, which has no reference."""
    return load("pages.page_copy") is not None


def keep_strings(
    *,
    table: Bytes,
    data: Bytes,
    word_bytes: int,
    num_values: int,
    gone_starts: Integers,
    gone_stops: Integers,
    chunk_bytes: int,
    limit: int,
    new_table: Bytes,
    new_data: Bytes,
    new_words: Words,
    used: Integers,
) -> int:
    """Cut the values that stay of a page without levels into chunks again; asks for a compiler.

    Args:
        table: The words that describe the chunks, at least one, in whole words.
        data: The chunks; all positions in them are checked.
        word_bytes: Bytes of a word, and of the size of a value buffer: 2 or 4.
        num_values: Of the page, at least 1.
        gone_starts: Shape (runs,): the first of each run of values that go, ascending.
        gone_stops: Shape (runs,): the end of each.
        chunk_bytes: What the buffer of a chunk holds at most, if it is not of two values only.
        limit: What it holds at most.
        new_table: Room for the new words, which is checked.
        new_data: Room for the new chunks, which is checked.
        new_words: The same memory in words of 32 or 64 bits, as wide as an offset.
        used: Shape (2,): gets the bytes used of both.

    Returns:
        0, `MALFORMED`, or `TOO_LARGE` when values do not fit into a chunk.
    """
    kernel = load("pages.page_copy")
    assert kernel is not None
    page = (table, data, word_bytes, num_values, gone_starts, gone_stops, chunk_bytes, limit)
    return int(kernel.keep_strings(*page, new_table, new_data, new_words, used))
