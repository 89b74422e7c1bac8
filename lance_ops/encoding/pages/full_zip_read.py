"""Full-zip: rows as one entry after the other, each its levels, its length, and its value.

Only values have a length in front of them: a null, or an entry that has no value at all, is its levels.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.chunks import read_words
from lance_ops.encoding.kernels import load
from lance_ops.encoding.memory import empty
from lance_ops.encoding.values.packed_struct import pick_column
from lance_ops.errors import CorruptFileError

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Levels = npt.NDArray[np.uint16]

# Rows of many entries are walked one by one once only few of them are left.
_FEW_ROWS = 16
_TOO_LONG = "a value of a full-zip page reaches beyond its row"
_WITHOUT_BYTES = "a row or entry of a full-zip page has no bytes"
_NOT_FILLED = "a row of a full-zip page does not fill its space"
_PROBLEMS = {-1: _TOO_LONG, -2: _WITHOUT_BYTES, -3: _NOT_FILLED}


@dataclass(frozen=True, slots=True)
class EntryFormat:
    """How an entry looks.

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
        single: Whether every row is one entry.

    Raises:
        CorruptFileError: Entries are not what their rows have room for.
    """
    if len(stops) and int(stops.max()) > len(data):
        raise CorruptFileError("the rows of a full-zip page end too early")
    kernel = load("full_zip_decode")
    if kernel is None:
        return _walk_side_by_side(data, starts, stops, form, single=single)
    numbers = np.array(
        [form.control_bytes, form.rep_bits, form.def_bits, form.length_bytes, form.value_bytes, form.visible],
        dtype=np.int64,
    )
    totals = np.array([len(starts), len(starts), 0], dtype=np.int64)
    starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
    levels, nothing = np.empty(0, dtype=np.uint16), np.empty(0, dtype=np.int64)
    if not single:
        _check(kernel.walk(data, starts, stops, numbers, False, levels, levels, nothing, nothing, totals))
    count, slots = int(totals[0]), int(totals[1])
    rep = empty(count if form.rep_bits else 0, np.uint16)
    definition = empty(count if form.def_bits else 0, np.uint16)
    values, offsets = empty(slots, np.int64), empty(slots + 1, np.int64)
    _check(kernel.walk(data, starts, stops, numbers, single, rep, definition, values, offsets, totals))
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


@dataclass(frozen=True, slots=True)
class _Found:
    """Some entries: their levels, and where the value of each starts and how long it is."""

    control: npt.NDArray[np.uint64]
    starts: Integers
    lengths: Integers


def _walk_side_by_side(
    data: Bytes, cursor: Integers, ends: Integers, form: EntryFormat, *, single: bool
) -> Entries:
    # All rows advance together, one entry at a time.
    if single and bool((cursor == ends).any()):
        raise CorruptFileError(_WITHOUT_BYTES)
    found = [_Found(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))]
    while len(cursor):
        going = cursor < ends
        if not bool(going.all()):
            cursor, ends = cursor[going], ends[going]
        if len(cursor) == 0:
            break
        entries = _read_entries(data, cursor, ends, form)
        found.append(entries)
        moved = entries.starts + entries.lengths
        if single:
            if bool((moved != ends).any()):
                raise CorruptFileError(_NOT_FILLED)
            break
        if bool((moved == cursor).any()):
            raise CorruptFileError(_WITHOUT_BYTES)
        cursor = moved
        if len(cursor) < _FEW_ROWS:
            for row, end in zip(cursor.tolist(), ends.tolist(), strict=True):
                found.append(_walk_row(data, row, end, form))
            break
    control = np.concatenate([part.control for part in found])
    starts = np.concatenate([part.starts for part in found])
    lengths = np.concatenate([part.lengths for part in found])
    order = np.argsort(starts, kind="stable")
    rep, definition = split_control(control[order], form)
    starts, lengths = starts[order], lengths[order]
    if definition is not None:
        shown = definition < form.visible
        starts, lengths = starts[shown], lengths[shown]
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return Entries(len(control), rep, definition, starts, offsets)


def _read_entries(data: Bytes, cursor: Integers, ends: Integers, form: EntryFormat) -> _Found:
    starts = cursor + form.control_bytes
    if bool((starts > ends).any()):
        raise CorruptFileError(_TOO_LONG)
    control = read_words(data, cursor, form.control_bytes)
    level = control & np.uint64((1 << form.def_bits) - 1)
    if form.length_bytes:
        present = level == 0
        starts = np.where(present, starts + form.length_bytes, starts)
        if bool((starts > ends).any()):
            raise CorruptFileError(_TOO_LONG)
        lengths = np.zeros(len(starts), dtype=np.int64)
        lengths[present] = read_words(data, starts[present] - form.length_bytes, form.length_bytes).astype(
            np.int64
        )
    else:
        lengths = np.where(level < form.visible, form.value_bytes, 0)
    if bool((lengths < 0).any()) or bool((lengths > ends - starts).any()):
        raise CorruptFileError(_TOO_LONG)
    return _Found(control, starts, lengths)


def _walk_row(data: Bytes, cursor: int, end: int, form: EntryFormat) -> _Found:
    row = data[cursor:end].tobytes()
    origin, end = cursor, end - cursor
    cursor = 0
    mask = (1 << form.def_bits) - 1
    control: list[int] = []
    starts: list[int] = []
    lengths: list[int] = []
    while cursor < end:
        value = cursor + form.control_bytes
        word = int.from_bytes(row[cursor:value], "little")
        length = 0
        if form.length_bytes:
            if not word & mask:
                value += form.length_bytes
                length = int.from_bytes(row[value - form.length_bytes : value], "little")
        elif word & mask < form.visible:
            length = form.value_bytes
        if value + length > end:
            raise CorruptFileError(_TOO_LONG)
        if value + length == cursor:
            raise CorruptFileError(_WITHOUT_BYTES)
        control.append(word)
        starts.append(origin + value)
        lengths.append(length)
        cursor = value + length
    return _Found(
        np.array(control, dtype=np.uint64),
        np.array(starts, dtype=np.int64),
        np.array(lengths, dtype=np.int64),
    )
