"""Constant pages, read: every value is the same one, or null; only nesting takes space."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.arrays import number_dtype
from lance_ops.encoding.chunks import read_words
from lance_ops.encoding.pages.levels import Layer, count_rows, find_row_starts, visible_below
from lance_ops.encoding.values.binary import is_binary_like
from lance_ops.encoding.values.flat import bit_width
from lance_ops.encoding.values.lookup import repeat_entry
from lance_ops.encoding.values.values import Fixed, Variable, to_arrow
from lance_ops.encoding.values.variable import check_offsets
from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.io.fetch import Steps
from lance_ops.file.io.row_selection import Integers, RowSelection, join_extents
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType, build_piece
from lance_ops.file.v2_1.columns import LayoutPage, parse_layers
from lance_ops.file.v2_1.compression.decode import decode_block
from lance_ops.file.v2_1.compression.decode_rows import as_bytes
from lance_ops.file.v2_1.mini_block.pick import pick_levels
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]
Levels = npt.NDArray[np.uint16]

# Runs of levels may claim any length: a page of more could not be addressed anyway.
_MAX_ENTRIES = 2**31 - 1


def read_constant(
    page: LayoutPage, layout: pb.ConstantLayout, leaf: LeafType, rows: RowSelection
) -> Steps[ColumnRows]:
    """Read rows of a constant page; see `read_page`."""
    layers = parse_layers(layout.layers)
    if leaf.data_type == pa.struct([]) and not page.buffers:
        # Empty structs are stored as if they stood alone, wherever they are.
        layers = [Layer(is_list=False)] * len(leaf.lists)
    leaf.check(layers)
    buffers = list((yield list(page.buffers)))
    value_type = leaf.data_type
    if pa.types.is_dictionary(value_type):
        value_type = value_type.value_type
    one: pa.Array | None = None
    if layout.HasField("inline_value"):
        one = _fixed_value(layout.inline_value, value_type)
    elif len(buffers) in (1, 3):
        one = _stored_value(as_bytes(buffers.pop(0)), value_type)
    rep = definition = None
    if len(buffers) == 2:
        rep_data, def_data = as_bytes(buffers[0]), as_bytes(buffers[1])
        if rows.numbers is not None and leaf.span == 1:
            picked = _pick_rows(page, layout, layers, rep_data, def_data, rows.numbers)
            if picked is not None:
                return _build(leaf, layers, *picked, rows.count, one)
        rep = _read_levels(layout, "rep", rep_data)
        definition = _read_levels(layout, "def", def_data)
    elif buffers:
        raise CorruptFileError(f"a constant page with {len(page.buffers)} buffers")
    if rep is None and definition is None:
        if leaf.is_repeated:
            raise CorruptFileError("a constant page of lists without levels")
        count = rows.count * leaf.span
        if count > _MAX_ENTRIES:
            raise UnsupportedError("too many rows", hint="read fewer rows at once")
        return _build(leaf, layers, None, None, count, one)
    num_entries = len(rep) if rep is not None else len(definition) if definition is not None else 0
    found = num_entries // leaf.span if rep is None else count_rows(rep, layers)
    if found != page.length:
        raise CorruptFileError(f"a page of {page.length} rows holds {found}")
    if rows.count != page.length:
        starts = _row_starts(rep, layers, leaf.span, num_entries)
        wanted = rows.indices
        entries = join_extents(starts[wanted], starts[wanted + 1])
        rep = None if rep is None else rep[entries]
        definition = None if definition is None else definition[entries]
        num_entries = len(entries)
    return _build(leaf, layers, rep, definition, num_entries, one)


def _pick_rows(
    page: LayoutPage,
    layout: pb.ConstantLayout,
    layers: Sequence[Layer],
    rep_data: Bytes,
    def_data: Bytes,
    rows: Integers,
) -> tuple[Levels | None, Levels | None] | None:
    """Return the levels of single rows where each row has one entry; None where all have to be decoded."""
    picked: list[Levels | None] = []
    for which, data in (("rep", rep_data), ("def", def_data)):
        levels = None
        if len(data):
            encoding, count = _level_encoding(layout, which)
            if encoding is not None and count != page.length:
                return None
            levels = pick_levels(encoding, data, page.length, rows)
            if levels is None:
                return None
        picked.append(levels)
    rep, definition = picked
    if rep is None and definition is None:
        return None
    if rep is not None and bool((rep != sum(layer.is_list for layer in layers)).any()):
        raise CorruptFileError(
            f"a page of {page.length} rows has as many levels, some of which do not start a row"
        )
    return rep, definition


def _row_starts(rep: Levels | None, layers: Sequence[Layer], span: int, num_entries: int) -> Integers:
    if rep is None:
        return np.arange(0, num_entries + 1, span)
    return np.append(find_row_starts(rep, layers), num_entries)


def _build(
    leaf: LeafType,
    layers: Sequence[Layer],
    rep: Levels | None,
    definition: Levels | None,
    num_entries: int,
    one: pa.Array | None,
) -> ColumnRows:
    if one is None:
        return build_piece(leaf, layers, rep, definition, num_entries, None)
    visible = num_entries
    if rep is not None and definition is not None:
        visible = int(np.count_nonzero(definition < visible_below(layers)))
    values = _repeat(one, visible, leaf.data_type)
    return build_piece(leaf, layers, rep, definition, num_entries, values)


def _repeat(one: pa.Array, count: int, data_type: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(data_type):
        zeros = np.zeros(count, dtype=number_dtype(data_type.index_type))
        return pa.DictionaryArray.from_arrays(pa.array(zeros), one)
    return repeat_entry(one, count)


def _level_encoding(layout: pb.ConstantLayout, which: str) -> tuple[pb.CompressiveEncoding | None, int]:
    # None for plain ones, which are not counted.
    if which == "rep":
        found = layout.HasField("rep_compression"), layout.rep_compression, layout.num_rep_values
    else:
        found = layout.HasField("def_compression"), layout.def_compression, layout.num_def_values
    is_compressed, encoding, count = found
    return (encoding, count) if is_compressed else (None, 0)


def _read_levels(layout: pb.ConstantLayout, which: str, data: Bytes) -> Levels | None:
    if not len(data):
        return None
    encoding, count = _level_encoding(layout, which)
    if encoding is None:
        return np.frombuffer(data.tobytes(), dtype="<u2")
    if count > _MAX_ENTRIES:
        raise CorruptFileError(f"a constant page with {count} levels")
    values = decode_block(encoding, data, count)
    if not isinstance(values, Fixed) or values.bits != 16 or not isinstance(values.data, np.ndarray):
        raise CorruptFileError("levels must be 16-bit integers")
    return np.ascontiguousarray(values.data).reshape(-1).view(np.uint16)


def _fixed_value(data: bytes, data_type: pa.DataType) -> pa.Array:
    bits = bit_width(data_type)
    is_empty = data_type == pa.binary(0)
    if (bits == 0 and not is_empty) or len(data) != (bits + 7) // 8:
        raise CorruptFileError(f"a constant of {len(data)} bytes cannot be of type {data_type}")
    return to_arrow(Fixed(bits, 1, pa.py_buffer(data)), data_type)


def _stored_value(data: npt.NDArray[np.uint8], data_type: pa.DataType) -> pa.Array:
    # The number of Arrow buffers, their sizes, and the buffers themselves.
    (count,) = read_words(data, np.zeros(1, dtype=np.int64), 4).tolist()
    if count > len(data):
        raise CorruptFileError(f"a constant of {count} buffers")
    sizes = read_words(data, 4 + 4 * np.arange(count, dtype=np.int64), 4).astype(np.int64)
    ends = 4 + 4 * count + np.cumsum(sizes)
    if count and int(ends[-1]) != len(data):
        raise CorruptFileError("the buffers of a constant do not fill its space")
    parts = [data[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]
    if is_binary_like(data_type) and count == 2 and len(parts[0]) in (8, 16):
        offsets = np.frombuffer(parts[0].tobytes(), dtype=f"<i{len(parts[0]) // 2}").astype(np.int64)
        check_offsets(offsets, len(parts[1]))
        body = pa.py_buffer(parts[1][int(offsets[0]) :])
        return to_arrow(Variable(offsets, body), data_type)
    if bit_width(data_type) and count == 1:
        return _fixed_value(parts[0].tobytes(), data_type)
    raise UnsupportedError(f"a constant of {count} buffers of type {data_type} is not supported")
