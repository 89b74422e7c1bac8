"""Entries of full-zip rows, each its levels, its length, and its value."""

from lance_ops.encoding.arrays import Bytes, Integers, Levels
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.pages import full_zip_decode as reference

TOO_LONG, WITHOUT_BYTES, NOT_FILLED = reference.TOO_LONG, reference.WITHOUT_BYTES, reference.NOT_FILLED


def walk(
    *,
    data: Bytes,
    starts: Integers,
    stops: Integers,
    form: Integers,
    single: bool,
    rep: Levels,
    definition: Levels,
    values: Integers,
    offsets: Integers,
    totals: Integers,
) -> int:
    """Walk the entries of some rows; without room for the results it only counts.

    Args:
        data: The bytes of all rows.
        starts: Shape (rows,): first byte of each row.
        stops: Shape (rows,): end of each row, within the data and not before its start.
        form: Shape (6,): bytes of the levels (at most 8); bits of the repetition level and of the definition
            level (the lowest ones); bytes of the length (at most 8); bytes of a value of fixed width; and the
            definition level below which an entry has a slot.
        single: True if a row is one entry.
        rep: Shape (entries,) if there are any: gets the repetition level of each entry.
        definition: Shape (entries,) if there are any: gets its definition level.
        values: Shape (slots,): gets the byte at which each value that has a slot starts.
        offsets: Shape (slots + 1,): gets the offsets of these values once they are joined; or shape (0,), and
            then only `totals` is filled in.
        totals: Shape (3,): gets the entries, the slots, and the bytes of values.

    Returns:
        0, or what is wrong: `TOO_LONG`, `WITHOUT_BYTES`, or `NOT_FILLED`.
    """
    kernel = load("pages.full_zip_decode")
    if kernel is None:
        return reference.walk(
            data=data,
            starts=starts,
            stops=stops,
            form=form,
            single=single,
            rep=rep,
            definition=definition,
            values=values,
            offsets=offsets,
            totals=totals,
        )
    return int(kernel.walk(data, starts, stops, form, single, rep, definition, values, offsets, totals))
