"""Full-zip pages: large values, each behind its own levels and length, with an index of where rows begin."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.chunks import read_words
from lance_ops.encoding.levels import Layer, visible_below
from lance_ops.encoding.values import Values
from lance_ops.errors import CorruptFileError
from lance_ops.file.extents import fetch_extents, fetch_fixed, gather_fixed
from lance_ops.file.fetch import Steps, fetch
from lance_ops.file.row_selection import Integers, RowSelection
from lance_ops.file.v2_1.columns import LayoutPage, parse_layers
from lance_ops.file.v2_1.compressions import (
    as_bytes,
    check_offsets,
    decode_fixed_rows,
    decode_variable_rows,
    fixed_bits,
    gather_values,
)
from lance_ops.file.v2_1.pieces import Leaf, Piece, build_piece, leaf_array
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]

_VALUES, _INDEX = 0, 1
# Rows of many items are walked one by one once only few of them are left.
_FEW_ROWS = 16


@dataclass(frozen=True, slots=True)
class _Format:
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
class _Entries:
    """Entries of some rows.

    Attributes:
        control: Levels of each.
        starts: Where the value of each starts.
        lengths: Bytes of each value.
    """

    control: npt.NDArray[np.uint64]
    starts: Integers
    lengths: Integers


def read_full_zip(page: LayoutPage, layout: pb.FullZipLayout, leaf: Leaf, rows: RowSelection) -> Steps[Piece]:
    """Read rows of a full-zip page; see `read_page`."""
    layers = parse_layers(layout.layers)
    leaf.check(layers)
    if leaf.span > 1:
        raise CorruptFileError("a full-zip page of fixed-size lists of structs")
    form = _parse_format(layout, layers)
    position, size = page.buffer(_VALUES)
    if form.length_bytes or leaf.is_repeated:
        starts, stops = yield from _read_index(page, rows)
        data, found = yield from fetch_extents(position + starts, position + stops, rows.gap)
        ends = found + (stops - starts)
        entries = _walk(as_bytes(data), found, ends, form, repeated=leaf.is_repeated)
    else:
        stride = form.control_bytes + form.value_bytes
        if page.length * stride != size:
            raise CorruptFileError(f"{page.length} values of {stride} bytes are not {size} bytes")
        data = yield from fetch_fixed(position, stride, rows)
        if not form.control_bytes:
            values = decode_fixed_rows(layout.value_compression, data, rows.count)
            return build_piece(leaf, layers, None, None, rows.count, leaf_array(values, leaf.data_type))
        entries = _split_rows(as_bytes(data), form, rows.count)
    rep, definition = _split_control(entries.control, form)
    values = _decode(layout, as_bytes(data), entries, definition, form, leaf.data_type)
    piece = build_piece(leaf, layers, rep, definition, len(entries.control), values)
    if piece.length != rows.count:
        raise CorruptFileError(f"{rows.count} rows are expected, but the page has {piece.length}")
    return piece


def _parse_format(layout: pb.FullZipLayout, layers: list[Layer]) -> _Format:
    bits = layout.bits_rep + layout.bits_def
    if bits > 32 or layout.bits_rep > 16 or layout.bits_def > 16:
        raise CorruptFileError(f"levels of {layout.bits_rep} and {layout.bits_def} bits")
    control_bytes = 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4
    length_bytes = value_bytes = 0
    kind = layout.WhichOneof("details")
    if kind == "bits_per_offset":
        if layout.bits_per_offset not in (32, 64):
            raise CorruptFileError(f"lengths of {layout.bits_per_offset} bits")
        length_bytes = layout.bits_per_offset // 8
    else:
        bits = fixed_bits(layout.value_compression)
        if kind != "bits_per_value" or bits != layout.bits_per_value or bits % 8:
            raise CorruptFileError(f"full-zip values of {layout.bits_per_value} bits")
        value_bytes = bits // 8
    return _Format(
        control_bytes, layout.bits_rep, layout.bits_def, length_bytes, value_bytes, visible_below(layers)
    )


def _read_index(page: LayoutPage, rows: RowSelection) -> Steps[tuple[Integers, Integers]]:
    """Where each row starts and stops in the values."""
    position, size = page.buffer(_INDEX)
    width, rest = divmod(size, page.length + 1)
    if rest or width not in (1, 2, 4, 8):
        raise CorruptFileError(f"an index of {size} bytes for {page.length} rows")
    if rows.numbers is None:
        data = yield from fetch(position + rows.start * width, (rows.count + 1) * width)
        ends = np.frombuffer(data.to_pybytes(), dtype=f"<u{width}").astype(np.int64)
        starts, stops = ends[:-1], ends[1:]
    else:
        first = position + rows.numbers * width
        data, found = yield from fetch_extents(first, first + 2 * width, rows.gap)
        pairs = gather_fixed(as_bytes(data), found, 2 * width).view(f"<u{width}").astype(np.int64)
        starts, stops = pairs[::2], pairs[1::2]
        ends = pairs
    check_offsets(ends, page.buffer(_VALUES)[1])
    return starts, stops


def _split_rows(data: Bytes, form: _Format, count: int) -> _Entries:
    starts = np.arange(count, dtype=np.int64) * (form.control_bytes + form.value_bytes)
    control = read_words(data, starts, form.control_bytes)
    lengths = np.full(count, form.value_bytes, dtype=np.int64)
    return _Entries(control, starts + form.control_bytes, lengths)


def _walk(data: Bytes, cursor: Integers, ends: Integers, form: _Format, *, repeated: bool) -> _Entries:
    # All rows advance side by side, one entry at a time.
    if not repeated and bool((cursor == ends).any()):
        raise CorruptFileError("a row of a full-zip page has no bytes")
    found = []
    while len(cursor):
        if repeated:
            going = cursor < ends
            if not bool(going.all()):
                cursor, ends = cursor[going], ends[going]
            if len(cursor) == 0:
                break
        entries = _read_entries(data, cursor, ends, form)
        found.append(entries)
        moved = entries.starts + entries.lengths
        if not repeated:
            if bool((moved != ends).any()):
                raise CorruptFileError("a row of a full-zip page does not fill its space")
            break
        if bool((moved == cursor).any()):
            raise CorruptFileError("an entry of a full-zip page has no bytes")
        cursor = moved
        if len(cursor) < _FEW_ROWS:
            for row, end in zip(cursor.tolist(), ends.tolist(), strict=True):
                found.append(_walk_row(data, row, end, form))
            break
    control = np.concatenate([part.control for part in found]) if found else np.empty(0, np.uint64)
    starts = np.concatenate([part.starts for part in found]) if found else np.empty(0, np.int64)
    lengths = np.concatenate([part.lengths for part in found]) if found else np.empty(0, np.int64)
    order = np.argsort(starts, kind="stable")
    return _Entries(control[order], starts[order], lengths[order])


def _read_entries(data: Bytes, cursor: Integers, ends: Integers, form: _Format) -> _Entries:
    control = read_words(data, cursor, form.control_bytes)
    starts = cursor + form.control_bytes
    level = control & np.uint64((1 << form.def_bits) - 1)
    if form.length_bytes:
        # A null has neither length nor value.
        present = level == 0
        starts = np.where(present, starts + form.length_bytes, starts)
        lengths = np.zeros(len(starts), dtype=np.int64)
        lengths[present] = read_words(data, starts[present] - form.length_bytes, form.length_bytes).astype(
            np.int64
        )
    else:
        lengths = np.where(level < form.visible, form.value_bytes, 0)
    if bool((lengths < 0).any()) or bool((lengths > ends - starts).any()):
        raise CorruptFileError("a value of a full-zip page reaches beyond its row")
    return _Entries(control, starts, lengths)


def _walk_row(data: Bytes, cursor: int, end: int, form: _Format) -> _Entries:
    row = data[:end].tobytes()
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
            raise CorruptFileError("a value of a full-zip page reaches beyond its row")
        if value + length == cursor:
            raise CorruptFileError("an entry of a full-zip page has no bytes")
        control.append(word)
        starts.append(value)
        lengths.append(length)
        cursor = value + length
    return _Entries(
        np.array(control, dtype=np.uint64),
        np.array(starts, dtype=np.int64),
        np.array(lengths, dtype=np.int64),
    )


def _split_control(
    control: npt.NDArray[np.uint64], form: _Format
) -> tuple[npt.NDArray[np.uint16] | None, npt.NDArray[np.uint16] | None]:
    definition = rep = None
    if form.def_bits:
        definition = (control & np.uint64((1 << form.def_bits) - 1)).astype(np.uint16)
    if form.rep_bits:
        rep = (control >> np.uint64(form.def_bits) & np.uint64((1 << form.rep_bits) - 1)).astype(np.uint16)
    return rep, definition


def _decode(
    layout: pb.FullZipLayout,
    data: Bytes,
    entries: _Entries,
    definition: npt.NDArray[np.uint16] | None,
    form: _Format,
    data_type: pa.DataType,
) -> pa.Array:
    starts, lengths = entries.starts, entries.lengths
    present = None
    if definition is not None:
        shown = definition < form.visible
        starts, lengths, present = starts[shown], lengths[shown], definition[shown] == 0
    if not form.length_bytes:
        return leaf_array(_decode_fixed(layout, data, starts, lengths, form), data_type)
    if present is None or layout.value_compression.WhichOneof("compression") != "variable_packed_struct":
        values = decode_variable_rows(layout.value_compression, gather_values(data, starts, lengths))
        return leaf_array(values, data_type)
    # Nulls have no bytes at all, from which no member could be cut.
    rows = gather_values(data, starts[present], lengths[present])
    array = leaf_array(decode_variable_rows(layout.value_compression, rows), data_type)
    return array.take(pa.array(np.cumsum(present) - 1, mask=~present))


def _decode_fixed(
    layout: pb.FullZipLayout, data: Bytes, starts: Integers, lengths: Integers, form: _Format
) -> Values:
    if not len(starts):
        return decode_fixed_rows(layout.value_compression, pa.py_buffer(b""), 0)
    if bool((np.diff(starts) == form.control_bytes + form.value_bytes).all()):
        first = int(starts[0]) - form.control_bytes
        stride = form.control_bytes + form.value_bytes
        rows = data[first : first + len(starts) * stride].reshape(len(starts), stride)
        values = np.ascontiguousarray(rows[:, form.control_bytes :]).reshape(-1)
    else:
        values = as_bytes(gather_values(data, starts, lengths).data)
    return decode_fixed_rows(layout.value_compression, values, len(starts))
