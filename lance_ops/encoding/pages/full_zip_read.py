"""Full-zip: rows as one entry after the other, each its levels, its length, and its value.

Only values have a length in front of them: a null, or an entry that has no value at all, is its levels.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.kernels.pages import full_zip_decode as loops
from lance_ops.encoding.memory import empty
from lance_ops.encoding.values.packed_struct import pick_column
from lance_ops.errors import CorruptFileError

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Levels = npt.NDArray[np.uint16]

_PROBLEMS = {
    loops.TOO_LONG: "a value of a full-zip page reaches beyond its row",
    loops.WITHOUT_BYTES: "a row or entry of a full-zip page has no bytes",
    loops.NOT_FILLED: "a row of a full-zip page does not fill its space",
}


@dataclass(frozen=True, slots=True)
class EntryFormat:
    """Format of an entry.

    Attributes:
        control_bytes: Of the levels in front of a value.
        rep_bits: Of the repetition level.
        def_bits: Of the definition level, in the lowest bits.
        length_bytes: Of the length in front of a value, 0 for values of fixed width.
        value_bytes: Of a value of fixed width.
        visible: Entries of a definition level below this have a slot.
    """

    control_bytes: int
    rep_bits: int
    def_bits: int
    length_bytes: int
    value_bytes: int
    visible: int


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of some rows.

    Attributes:
        count: How many.
        rep: Repetition level of each, None without.
        definition: Definition level of each, None without.
        starts: Where the value of each entry that has a slot starts.
        offsets: Offsets of these values once they are joined.
    """

    count: int
    rep: Levels | None
    definition: Levels | None
    starts: Integers
    offsets: Integers


def walk_rows(data: Bytes, starts: Integers, stops: Integers, form: EntryFormat, *, single: bool) -> Entries:
    """Find the entries of rows.

    Args:
        data: The bytes of all rows.
        starts: First byte of each row.
        stops: End of each, not before its start.
        form: How an entry looks.
        single: True if every row is one entry.

    Raises:
        CorruptFileError: Entries are not what their rows have room for.
    """
    if len(stops) and int(stops.max()) > len(data):
        raise CorruptFileError("the rows of a full-zip page end too early")
    numbers = np.array(
        [form.control_bytes, form.rep_bits, form.def_bits, form.length_bytes, form.value_bytes, form.visible],
        dtype=np.int64,
    )
    totals = np.array([len(starts), len(starts), 0], dtype=np.int64)
    starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
    levels, nothing = np.empty(0, dtype=np.uint16), np.empty(0, dtype=np.int64)
    if not single:
        status = loops.walk(
            data=data,
            starts=starts,
            stops=stops,
            form=numbers,
            single=False,
            rep=levels,
            definition=levels,
            values=nothing,
            offsets=nothing,
            totals=totals,
        )
        _check(status)
    count, slots = int(totals[0]), int(totals[1])
    rep = empty(count if form.rep_bits else 0, np.uint16)
    definition = empty(count if form.def_bits else 0, np.uint16)
    values, offsets = empty(slots, np.int64), empty(slots + 1, np.int64)
    status = loops.walk(
        data=data,
        starts=starts,
        stops=stops,
        form=numbers,
        single=single,
        rep=rep,
        definition=definition,
        values=values,
        offsets=offsets,
        totals=totals,
    )
    _check(status)
    slots = int(totals[1])
    return Entries(
        count,
        rep if form.rep_bits else None,
        definition if form.def_bits else None,
        values[:slots],
        offsets[: slots + 1],
    )


def split_fixed_rows(
    data: Bytes, form: EntryFormat, count: int
) -> tuple[Levels | None, Levels | None, Bytes]:
    """Take apart entries that are all of the same size.

    Args:
        data: The entries.
        form: How an entry looks.
        count: Number of entries.

    Returns:
        Repetition levels, definition levels, and the bytes of the values, those of nulls included.
    """
    stride = form.control_bytes + form.value_bytes
    control = pick_column(data, count, stride, 0, form.control_bytes).view(f"<u{form.control_bytes}")
    rep, definition = split_control(control, form)
    return rep, definition, pick_column(data, count, stride, form.control_bytes, form.value_bytes)


def split_control(
    control: npt.NDArray[np.unsignedinteger], form: EntryFormat
) -> tuple[Levels | None, Levels | None]:
    """Both levels of each entry, None for a kind that there is not."""
    words = control.astype(np.uint64, copy=False)
    definition = rep = None
    if form.def_bits:
        definition = (words & np.uint64((1 << form.def_bits) - 1)).astype(np.uint16)
    if form.rep_bits:
        rep = (words >> np.uint64(form.def_bits) & np.uint64((1 << form.rep_bits) - 1)).astype(np.uint16)
    return rep, definition


def _check(result: int) -> None:
    if result < 0:
        raise CorruptFileError(_PROBLEMS[result])
