"""Entries of full-zip rows: all rows advance together, one entry at a time."""

from dataclasses import dataclass

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Levels, Words64

TOO_LONG = -1
WITHOUT_BYTES = -2
NOT_FILLED = -3

# Rows of many entries are walked one by one once only few of them are left.
_FEW_ROWS = 16


@dataclass(frozen=True, slots=True)
class _Form:
    control: int
    rep_bits: int
    def_bits: int
    length_bytes: int
    value_bytes: int
    visible: int


@dataclass(frozen=True, slots=True)
class _Found:
    """Some entries: their levels, and where the value of each starts and how long it is."""

    control: Words64
    starts: Integers
    lengths: Integers


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
    """Walk the entries of some rows; 0, or what is wrong."""
    shape = _Form(*form.tolist())
    found = _walk_together(data, starts, stops, shape, single=single)
    if isinstance(found, int):
        return found
    levels = found.control & np.uint64((1 << shape.def_bits) - 1)
    shown = levels < shape.visible
    lengths = found.lengths[shown]
    totals[:] = len(levels), len(lengths), int(lengths.sum())
    if len(offsets):
        if shape.rep_bits:
            high = found.control >> np.uint64(shape.def_bits)
            rep[: len(levels)] = high & np.uint64((1 << shape.rep_bits) - 1)
        if shape.def_bits:
            definition[: len(levels)] = levels
        values[: len(lengths)] = found.starts[shown]
        offsets[0] = 0
        np.cumsum(lengths, out=offsets[1 : len(lengths) + 1])
    return 0


def _walk_together(
    data: Bytes, cursor: Integers, ends: Integers, form: _Form, *, single: bool
) -> _Found | int:
    if single and bool((cursor == ends).any()):
        return WITHOUT_BYTES
    found = [_Found(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))]
    while len(cursor):
        going = cursor < ends
        cursor, ends = cursor[going], ends[going]
        if not len(cursor):
            break
        if not single and len(cursor) < _FEW_ROWS:
            for row, end in zip(cursor.tolist(), ends.tolist(), strict=True):
                one = _walk_row(data, row, end, form)
                if isinstance(one, int):
                    return one
                found.append(one)
            break
        entries = _read_entries(data, cursor, ends, form)
        if isinstance(entries, int):
            return entries
        found.append(entries)
        moved = entries.starts + entries.lengths
        if bool((moved == cursor).any()):
            return WITHOUT_BYTES
        if single:
            if bool((moved != ends).any()):
                return NOT_FILLED
            break
        cursor = moved
    control = np.concatenate([part.control for part in found])
    starts = np.concatenate([part.starts for part in found])
    lengths = np.concatenate([part.lengths for part in found])
    order = np.argsort(starts, kind="stable")
    return _Found(control[order], starts[order], lengths[order])


def _read_entries(data: Bytes, cursor: Integers, ends: Integers, form: _Form) -> _Found | int:
    starts = cursor + form.control
    if bool((starts > ends).any()):
        return TOO_LONG
    control = _read(data, cursor, form.control)
    level = control & np.uint64((1 << form.def_bits) - 1)
    if form.length_bytes:
        present = level == 0
        starts = np.where(present, starts + form.length_bytes, starts)
        if bool((starts > ends).any()):
            return TOO_LONG
        lengths = np.zeros(len(starts), dtype=np.int64)
        places = starts[present] - form.length_bytes
        lengths[present] = _read(data, places, form.length_bytes).view(np.int64)
    else:
        lengths = np.where(level < form.visible, form.value_bytes, 0).astype(np.int64)
    if bool((lengths < 0).any()) or bool((lengths > ends - starts).any()):
        return TOO_LONG
    return _Found(control, starts, lengths)


def _walk_row(data: Bytes, origin: int, end: int, form: _Form) -> _Found | int:
    row = data[origin:end].tobytes()
    cursor = 0
    mask = (1 << form.def_bits) - 1
    control: list[int] = []
    starts: list[int] = []
    lengths: list[int] = []
    while cursor < len(row):
        value = cursor + form.control
        word = int.from_bytes(row[cursor:value], "little")
        length = 0
        if form.length_bytes:
            if not word & mask:
                value += form.length_bytes
                length = int.from_bytes(row[value - form.length_bytes : value], "little")
        elif word & mask < form.visible:
            length = form.value_bytes
        if value + length > len(row):
            return TOO_LONG
        if value + length == cursor:
            return WITHOUT_BYTES
        control.append(word)
        starts.append(origin + value)
        lengths.append(length)
        cursor = value + length
    return _Found(
        np.array(control, dtype=np.uint64),
        np.array(starts, dtype=np.int64),
        np.array(lengths, dtype=np.int64),
    )


def _read(data: Bytes, places: Integers, width: int) -> Words64:
    words = np.zeros(len(places), dtype=np.uint64)
    for byte in range(width):
        words |= data[places + byte].astype(np.uint64) << np.uint64(8 * byte)
    return words
