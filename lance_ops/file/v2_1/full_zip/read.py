"""Full-zip pages, read: large values behind their levels and length, and an index of where rows begin."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.chunks import ChunkBuffer, copy_parts
from lance_ops.encoding.fsst import decode_fsst_slices
from lance_ops.encoding.memory import empty
from lance_ops.encoding.pages.full_zip_read import Entries, EntryFormat, split_fixed_rows, walk_rows
from lance_ops.encoding.pages.levels import Layer, visible_below
from lance_ops.encoding.values.values import Variable
from lance_ops.encoding.values.variable import check_offsets
from lance_ops.errors import CorruptFileError
from lance_ops.file.io.extents import fetch_extents, fetch_fixed, gather_fixed
from lance_ops.file.io.fetch import Steps, fetch
from lance_ops.file.io.row_selection import Integers, RowSelection, join_lengths
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType, build_piece, leaf_array
from lance_ops.file.v2_1.columns import LayoutPage, parse_layers
from lance_ops.file.v2_1.compression.decode_rows import (
    as_bytes,
    decode_fixed_rows,
    decode_general_rows,
    decode_variable_rows,
    fixed_bits,
)
from lance_ops.file.v2_1.mini_block.pick import is_plain_fsst
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]

_VALUES, _INDEX = 0, 1


def read_full_zip(
    page: LayoutPage, layout: pb.FullZipLayout, leaf: LeafType, rows: RowSelection
) -> Steps[ColumnRows]:
    """Read rows of a full-zip page; see `read_page`."""
    layers = parse_layers(layout.layers)
    leaf.check(layers)
    if leaf.span > 1:
        raise CorruptFileError("a full-zip page of fixed-size lists of structs")
    form = _parse_format(layout, layers)
    position, size = page.buffer(_VALUES)
    if form.length_bytes or leaf.is_repeated:
        starts, stops, data, found = yield from _read_rows(page, rows)
        plain = as_bytes(data)
        entries = walk_rows(plain, found, found + (stops - starts), form, single=not leaf.is_repeated)
        values = _join_values(layout, plain, entries, form, leaf.data_type)
        piece = build_piece(leaf, layers, entries.rep, entries.definition, entries.count, values)
    else:
        stride = form.control_bytes + form.value_bytes
        if page.length * stride != size:
            raise CorruptFileError(f"{page.length} values of {stride} bytes are not {size} bytes")
        data = yield from fetch_fixed(position, stride, rows)
        rep = definition = None
        if form.control_bytes:
            rep, definition, data = split_fixed_rows(as_bytes(data), form, rows.count)
        fixed = decode_fixed_rows(layout.value_compression, data, rows.count)
        values = leaf_array(fixed, leaf.data_type)
        piece = build_piece(leaf, layers, rep, definition, rows.count, values)
    if piece.length != rows.count:
        raise CorruptFileError(f"{rows.count} rows are expected, but the page has {piece.length}")
    return piece


def _parse_format(layout: pb.FullZipLayout, layers: list[Layer]) -> EntryFormat:
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
    return EntryFormat(
        control_bytes, layout.bits_rep, layout.bits_def, length_bytes, value_bytes, visible_below(layers)
    )


def _read_rows(page: LayoutPage, rows: RowSelection) -> Steps[tuple[Integers, Integers, pa.Buffer, Integers]]:
    """Return starts and ends of rows in the values, bytes that contain them, and their positions in these."""
    position, size = page.buffer(_INDEX)
    width, rest = divmod(size, page.length + 1)
    if rest or width not in (1, 2, 4, 8):
        raise CorruptFileError(f"an index of {size} bytes for {page.length} rows")
    values, limit = page.buffer(_VALUES)
    if rows.count == page.length:
        # Reading all rows does not need their positions first.
        index, data = yield [(position, size), (values, limit)]
        starts, stops = _decode_index(index, width, limit)
        return starts, stops, data, starts
    if rows.numbers is None:
        index = yield from fetch(position + rows.start * width, (rows.count + 1) * width)
        starts, stops = _decode_index(index, width, limit)
    else:
        first = position + rows.numbers * width
        index, found = yield from fetch_extents(first, first + 2 * width, rows.gap)
        pairs = gather_fixed(as_bytes(index), found, 2 * width).view(f"<u{width}").astype(np.int64)
        check_offsets(pairs, limit)
        starts, stops = pairs[::2], pairs[1::2]
    data, found = yield from fetch_extents(values + starts, values + stops, rows.gap)
    return starts, stops, data, found


def _decode_index(index: pa.Buffer, width: int, limit: int) -> tuple[Integers, Integers]:
    ends = np.frombuffer(index.to_pybytes(), dtype=f"<u{width}").astype(np.int64)
    check_offsets(ends, limit)
    return ends[:-1], ends[1:]


def _join_values(
    layout: pb.FullZipLayout, data: Bytes, entries: Entries, form: EntryFormat, data_type: pa.DataType
) -> pa.Array:
    starts, offsets = entries.starts, entries.offsets
    present = None
    packed = layout.value_compression.WhichOneof("compression") == "variable_packed_struct"
    if packed and entries.definition is not None:
        # Nulls have no bytes at all, from which no member could be cut.
        present = entries.definition[entries.definition < form.visible] == 0
        starts, offsets = starts[present], join_lengths(np.diff(offsets)[present])
    encoding = layout.value_compression
    if form.length_bytes and is_plain_fsst(encoding):
        # Decoded in place, without joining them first.
        found = decode_fsst_slices(encoding.fsst.symbol_table, data, starts, np.diff(offsets))
        return leaf_array(found, data_type)
    parts = ChunkBuffer(data, starts, np.diff(offsets))
    if form.length_bytes and encoding.WhichOneof("compression") == "general":
        return leaf_array(decode_general_rows(encoding.general, parts), data_type)
    joined = empty(int(offsets[-1]), np.uint8)
    copy_parts(parts, joined, offsets[:-1])
    if not form.length_bytes:
        return leaf_array(decode_fixed_rows(encoding, joined, len(starts)), data_type)
    values = decode_variable_rows(encoding, Variable(offsets, pa.py_buffer(joined)))
    array = leaf_array(values, data_type)
    return array if present is None else array.take(pa.array(np.cumsum(present) - 1, mask=~present))
