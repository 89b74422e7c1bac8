"""Picking rows: single rows of mini-block pages, straight from their chunks, and from as few as they need."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.fsst import decode_fsst
from lance_ops.encoding.pages.levels import visible_below
from lance_ops.encoding.values.values import Fixed, Values, Variable
from lance_ops.errors import CorruptFileError
from lance_ops.file.io.extents import fetch_extents
from lance_ops.file.io.fetch import SparseRequest, Steps
from lance_ops.file.io.row_selection import Integers, RowSelection, join_lengths
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType, build_piece, leaf_array, look_up
from lance_ops.file.v2_1.compression.decode_rows import as_bytes
from lance_ops.file.v2_1.mini_block.head import Head, RowIndex, cover_chunks, find_chunks
from lance_ops.file.v2_1.mini_block.pick import Picker

Bytes = npt.NDArray[np.uint8]

# Bytes that are decoded in the time that it takes to pick a row.
_PICKED_BYTES = 64

_WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def pick_rows(head: Head, leaf: LeafType, rows: Integers, gap: int) -> Steps[ColumnRows | None]:
    """Read single rows.

    Args:
        head: Of their pages.
        leaf: What their column holds.
        rows: Their numbers from the first row of the first page on, ascending, at least one.
        gap: Bytes that may be read for nothing.

    Returns:
        The rows; None where chunks have to be decoded for them.

    Raises:
        CorruptFileError: The chunks do not hold these rows.
    """
    if head.picker is None:
        return None
    if not leaf.is_repeated:
        return (yield from _pick_values(head, head.picker, leaf, rows, gap))
    if head.rows is None or not head.picker.rep_bits:
        return None
    return (yield from _pick_lists(head, head.picker, head.rows, leaf, rows, gap))


def _pick_values(
    head: Head, picker: Picker, leaf: LeafType, rows: Integers, gap: int
) -> Steps[ColumnRows | None]:
    slots = _all(rows).spread(leaf.span).indices
    numbers = None
    if gap < head.extent:
        chunks = np.searchsorted(head.firsts, slots, side="right") - 1
        is_first = np.ones(len(chunks), np.bool_)
        np.not_equal(chunks[1:], chunks[:-1], out=is_first[1:])
        numbers = chunks[is_first]
    data, starts, stops = yield from _fetch_chunks(head, numbers, gap, len(rows))
    firsts = head.firsts[:-1] if numbers is None else head.firsts[numbers]
    values, definition = picker.pick(data, starts, stops, firsts, slots)
    cuts = np.searchsorted(slots, head.first_values) if head.has_page_tables else slots[:0]
    array = to_array(values, head, leaf, cuts)
    return build_piece(leaf, head.layers, None, definition, len(slots), array)


def _pick_lists(
    head: Head, picker: Picker, index: RowIndex, leaf: LeafType, rows: Integers, gap: int
) -> Steps[ColumnRows | None]:
    numbers = None
    begun, ended = index.begun, index.ended
    if gap < head.extent:
        numbers = cover_chunks(*find_chunks(index, _all(rows)), len(head))
        begun, ended = begun[numbers], np.concatenate([ended[numbers[:1]], ended[numbers + 1]])
    else:
        begun = begun[:-1]
    data, starts, stops = yield from _fetch_chunks(head, numbers, gap, len(rows))
    highest, visible = sum(layer.is_list for layer in head.layers), visible_below(head.layers)
    picked = picker.pick_lists(data, starts, stops, begun, ended, rows, highest, visible)
    if picked is None:
        return None
    values, rep, definition = picked
    cuts = np.zeros(0, dtype=np.int64)
    if head.has_page_tables:
        starts_of_rows = np.append(np.flatnonzero(rep == highest), len(rep))
        cuts = starts_of_rows[np.searchsorted(rows, head.first_rows)]
        if definition is not None:
            cuts = join_lengths((definition < visible).astype(np.int64))[cuts]
    array = to_array(values, head, leaf, cuts)
    return build_piece(leaf, head.layers, rep, definition, len(rep), array)


def _all(rows: Integers) -> RowSelection:
    # Row by row, even if they leave nothing out.
    return RowSelection(int(rows[0]), int(rows[-1]) + 1, rows)


def _fetch_chunks(
    head: Head, numbers: Integers | None, gap: int, rows: int
) -> Steps[tuple[Bytes, Integers, Integers]]:
    """Return bytes with some chunks, or with all if that is cheaper; and their positions in these."""
    if numbers is None:
        low = int(head.starts[0])
        (data,) = yield [SparseRequest(low, head.extent, rows * _PICKED_BYTES)]
        return as_bytes(data), head.starts - low, head.stops - low
    starts, stops = head.starts[numbers], head.stops[numbers]
    data, found = yield from fetch_extents(starts, stops, gap)
    return as_bytes(data), found, found + (stops - starts)


def to_array(values: Values, head: Head, leaf: LeafType, cuts: Integers) -> pa.Array:
    """Return values of pages as an array.

    Args:
        values: The values, or their positions in the dictionaries.
        head: Of the pages.
        leaf: What their column holds.
        cuts: The values of each page lie between two of these; not looked at for a single page.
    """
    if head.symbol_tables:
        values = _decompress(values, head.symbol_tables, cuts)
    if head.items is None:
        return leaf_array(values, leaf.data_type)
    if len(head.item_starts) == 2:
        return look_up(values, head.items, leaf.data_type)
    if not isinstance(values, Fixed) or not isinstance(values.data, np.ndarray) or values.bits not in _WORDS:
        raise CorruptFileError("dictionary indices must be integers")
    positions = np.ascontiguousarray(values.data).reshape(-1).view(_WORDS[values.bits]).astype(np.uint64)
    counts = np.diff(cuts)
    if bool((positions >= np.repeat(np.diff(head.item_starts), counts).astype(np.uint64)).any()):
        raise CorruptFileError("a value points outside of the dictionary of its page")
    positions += np.repeat(head.item_starts[:-1], counts).astype(np.uint64)
    return look_up(Fixed(64, len(positions), positions), head.items, leaf.data_type)


def _decompress(values: Values, symbol_tables: Sequence[bytes], cuts: Integers) -> Variable:
    """Decompress strings of pages, each under the table of its page; `cuts` as in `to_array`."""
    if not isinstance(values, Variable):
        raise CorruptFileError("compressed strings of fixed width")
    offsets, base = values.offsets, int(values.offsets[0])
    lengths: list[Integers] = []
    plain: list[pa.Buffer] = []
    for symbol_table, (first, last) in zip(symbol_tables, pairwise(cuts.tolist()), strict=True):
        if first < last:
            own = offsets[first : last + 1]
            some = decode_fsst(symbol_table, own, values.data.slice(int(own[0]) - base))
            start, stop = int(some.offsets[0]), int(some.offsets[-1])
            lengths.append(np.diff(some.offsets).astype(np.int64, copy=False))
            plain.append(some.data.slice(0, stop - start))
    joined = np.concatenate(lengths) if lengths else np.zeros(0, dtype=np.int64)
    return Variable(join_lengths(joined), pa.py_buffer(b"".join(plain)))
