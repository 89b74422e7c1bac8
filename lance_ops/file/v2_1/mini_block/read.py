"""Mini-block pages, read: small values in compressed chunks, of which only those needed are fetched."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.bits.bitpacking import unpack_inline
from lance_ops.encoding.chunks import ChunkBuffer, Chunks, split_chunks
from lance_ops.encoding.kernels.pages import picking
from lance_ops.encoding.pages.levels import find_first_row, find_row_starts, visible_below
from lance_ops.encoding.values.values import Fixed
from lance_ops.errors import CorruptFileError
from lance_ops.file.io.extents import fetch_extents
from lance_ops.file.io.fetch import Steps
from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.io.row_selection import Integers, RowSelection, join_extents
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType, build_piece, leaf_array
from lance_ops.file.v2_1.columns import LayoutPage
from lance_ops.file.v2_1.compression.decode import decode_chunk_values, decode_levels
from lance_ops.file.v2_1.compression.decode_rows import as_bytes
from lance_ops.file.v2_1.mini_block.head import (
    Head,
    choose_chunks,
    find_chunks,
    read_head,
    size_bytes_of,
    wants_few,
)
from lance_ops.file.v2_1.mini_block.pick_rows import pick_rows, to_array
from lance_ops.file.v2_1.mini_block.read_whole import is_readable_whole, read_whole_pages
from lance_ops.pb import encodings21_pb2 as pb

# Selectivity below which single values are also read from decoded chunks.
_SPARSE = 8
_NO_CUTS = np.zeros(0, dtype=np.int64)

Bytes = npt.NDArray[np.uint8]
Levels = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class _Read:
    """Chunks whose levels are decoded.

    Attributes:
        numbers: Of the chunks, ascending.
        counts: Values of each.
        num_levels: Levels of each.
        rep: Repetition levels of all.
        definition: Definition levels of all.
        whole: Their bytes.
        values: Their value buffers.
    """

    numbers: Integers
    counts: Integers
    num_levels: Integers
    rep: Levels | None
    definition: Levels | None
    whole: ChunkBuffer
    values: tuple[ChunkBuffer, ...]


def read_mini_block(
    page: LayoutPage, layout: pb.MiniBlockLayout, leaf: LeafType, rows: RowSelection, heads: PageHeads
) -> Steps[ColumnRows]:
    """Read rows of a mini-block page; see `read_page`."""
    if rows.count == page.length and is_readable_whole(page):
        # Reading all rows does not need the chunk positions first.
        (piece,) = yield from read_whole_pages([page], leaf, rows.gap)
        return piece
    # Files that are read as one may each have a page of this name.
    key = (page.where, page.buffers, leaf)
    head: Head | None = heads.get(key)
    if head is None:
        head = yield from read_head([page], [layout], leaf)
        heads.put(key, head, head.size)
    if wants_few(rows.count, page.length if rows.numbers is not None else 0):
        picked = yield from pick_rows(head, leaf, rows.indices, rows.gap)
        if picked is not None:
            return picked
    if rows.numbers is None and head.is_packed and leaf.span == 1:
        return (yield from _read_packed(layout, leaf, head, rows))
    numbers = choose_chunks(head, leaf, rows, page.length)
    starts, stops = head.starts[numbers], head.stops[numbers]
    data, found = yield from fetch_extents(starts, stops, rows.gap)
    whole = ChunkBuffer(as_bytes(data), found, stops - starts)
    chunks = split_chunks(
        whole,
        has_rep=layout.HasField("rep_compression"),
        has_def=layout.HasField("def_compression"),
        num_buffers=layout.num_buffers,
        size_bytes=size_bytes_of(layout),
    )
    read = _decode_levels(layout, head, numbers, whole, chunks)
    if rows.numbers is None and (leaf.span == 1 or rows.count == page.length):
        return _cut_rows(page, layout, leaf, head, read, rows)
    if read.rep is not None:
        return _decode_lists(layout, leaf, head, read, read.rep, rows)
    # Rows of several values each may begin anywhere in a chunk.
    slots = _find_slots(head, read, rows.spread(leaf.span))
    definition = None if read.definition is None else read.definition[slots]
    array = _decode_values(layout, leaf, head, read).take(pa.array(slots))
    return build_piece(leaf, head.layers, None, definition, len(slots), array)


def _read_packed(
    layout: pb.MiniBlockLayout, leaf: LeafType, head: Head, rows: RowSelection
) -> Steps[ColumnRows]:
    """Return a range of packed numbers without nulls, the usual case for columns of numbers."""
    first = int(np.searchsorted(head.firsts, rows.start, side="right")) - 1
    last = int(np.searchsorted(head.firsts, rows.stop))
    if not 0 <= first < last <= len(head):
        raise CorruptFileError("the chunks of a page do not match its repetition index")
    starts, stops = head.starts[first:last], head.stops[first:last]
    low = int(starts[0])
    (data,) = yield [(low, int(stops[-1]) - low)]
    whole = ChunkBuffer(as_bytes(data), starts - low, stops - starts)
    size_bytes = size_bytes_of(layout)
    chunks = split_chunks(whole, has_rep=False, has_def=False, num_buffers=1, size_bytes=size_bytes)
    bits = layout.value_compression.inline_bitpacking.uncompressed_bits_per_value
    firsts = head.firsts[first : last + 1]
    words = unpack_inline(chunks.values[0], firsts[1:] - firsts[:-1], bits)
    before = int(firsts[0])
    array = leaf_array(
        Fixed(bits, rows.count, words[rows.start - before : rows.stop - before]), leaf.data_type
    )
    return build_piece(leaf, head.layers, None, None, rows.count, array)


def _decode_levels(
    layout: pb.MiniBlockLayout, head: Head, numbers: Integers, whole: ChunkBuffer, chunks: Chunks
) -> _Read:
    counts = head.firsts[numbers + 1] - head.firsts[numbers]
    rep = definition = None
    if chunks.rep is not None:
        rep = decode_levels(layout.rep_compression, chunks.rep, chunks.num_levels)
    if chunks.definition is not None:
        definition = decode_levels(layout.def_compression, chunks.definition, chunks.num_levels)
    return _Read(numbers, counts, chunks.num_levels, rep, definition, whole, chunks.values)


def _decode_values(layout: pb.MiniBlockLayout, leaf: LeafType, head: Head, read: _Read) -> pa.Array:
    values = decode_chunk_values(layout.value_compression, read.values, read.counts)
    return to_array(values, head, leaf, _NO_CUTS)


def _cut_rows(
    page: LayoutPage,
    layout: pb.MiniBlockLayout,
    leaf: LeafType,
    head: Head,
    read: _Read,
    rows: RowSelection,
) -> ColumnRows:
    """Return the rows of a range, from all chunks that it touches."""
    rep, definition, array = read.rep, read.definition, _decode_values(layout, leaf, head, read)
    num_entries = len(array) if rep is None and definition is None else int(read.num_levels.sum())
    first = int(read.numbers[0])
    if rep is not None and first > 0:
        # The first chunk may begin within a row that belongs to the chunks before.
        entry, value = find_first_row(rep, definition, head.layers)
        rep = rep[entry:]
        definition = None if definition is None else definition[entry:]
        num_entries -= entry
        array = _rebase(array.slice(value))
    piece = build_piece(leaf, head.layers, rep, definition, num_entries, array)
    if len(read.numbers) == len(head) and piece.length != page.length:
        raise CorruptFileError(f"a page of {page.length} rows holds {piece.length}")
    if leaf.is_repeated:
        before = 0 if head.rows is None else int(head.rows.begun[first])
    else:
        before = int(head.firsts[first]) // leaf.span
    if rows.start < before or rows.stop - before > piece.length:
        raise CorruptFileError("the chunks of a page do not match its repetition index")
    return piece.slice(rows.start - before, rows.stop - before, leaf.items)


def _decode_lists(
    layout: pb.MiniBlockLayout, leaf: LeafType, head: Head, read: _Read, rep: Levels, rows: RowSelection
) -> ColumnRows:
    """Single rows of lists, from all chunks that have some of them."""
    found = _find_rows(head, read, rep, rows)
    entries = join_extents(found[:, 0], found[:, 1])
    slots = join_extents(found[:, 2], found[:, 3])
    total = int(read.counts.sum())
    if len(slots) and int(slots[-1]) >= total:
        raise CorruptFileError("a chunk has fewer values than its levels require")
    if head.picker is not None and len(slots) * _SPARSE < total:
        starts, firsts = read.whole.starts, np.cumsum(read.counts) - read.counts
        values, _ = head.picker.pick(read.whole.data, starts, starts + read.whole.sizes, firsts, slots)
        array = to_array(values, head, leaf, _NO_CUTS)
    else:
        array = _decode_values(layout, leaf, head, read).take(pa.array(slots))
    definition = None if read.definition is None else read.definition[entries]
    return build_piece(leaf, head.layers, rep[entries], definition, len(entries), array)


def _find_slots(head: Head, read: _Read, slots: RowSelection) -> Integers:
    """Return the positions of values among those of the decoded chunks."""
    firsts = head.firsts[read.numbers]
    chunks = np.searchsorted(firsts, slots.indices, side="right") - 1
    moved = firsts - (np.cumsum(read.counts) - read.counts)
    found: Integers = slots.indices - moved[chunks]
    return found


def _find_rows(head: Head, read: _Read, rep: Levels, rows: RowSelection) -> Integers:
    """First level, end of the levels, first value, and end of the values of each row, among what was read."""
    wanted, definition = rows.indices, read.definition
    if head.rows is not None:
        firsts, lasts = find_chunks(head.rows, rows)
        found = np.empty((len(wanted), 4), dtype=np.int64)
        result = picking.find_rows(
            rep=rep,
            definition=rep[:0] if definition is None else definition,
            highest=sum(layer.is_list for layer in head.layers),
            visible=visible_below(head.layers),
            ends=np.cumsum(read.num_levels),
            firsts=np.searchsorted(read.numbers, firsts),
            lasts=np.searchsorted(read.numbers, lasts - 1),
            numbers=wanted - head.rows.begun[firsts],
            found=found,
        )
        if result < 0:
            raise CorruptFileError("the chunks of a page do not match its repetition index")
        return found
    starts, stops = _find_entries(head, read, rep, rows)
    if definition is None:
        return np.stack([starts, stops, starts, stops], axis=1)
    before = np.zeros(len(definition) + 1, dtype=np.int64)
    np.cumsum(definition < visible_below(head.layers), out=before[1:])
    return np.stack([starts, stops, before[starts], before[stops]], axis=1)


def _find_entries(head: Head, read: _Read, rep: Levels, rows: RowSelection) -> tuple[Integers, Integers]:
    wanted = rows.indices
    row_starts = np.append(find_row_starts(rep, head.layers), len(rep))
    if head.rows is None:
        if int(wanted[-1]) + 1 >= len(row_starts):
            raise CorruptFileError("a page has fewer rows than its metadata say")
        return row_starts[wanted], row_starts[wanted + 1]
    firsts, lasts = find_chunks(head.rows, rows)
    ends = np.cumsum(read.num_levels)
    first_chunks = np.searchsorted(read.numbers, firsts)
    last_chunks = np.searchsorted(read.numbers, lasts - 1)
    # Chunks have the number of rows that begin before them: the rest is counting.
    begun = np.searchsorted(row_starts[:-1], (ends - read.num_levels)[first_chunks])
    found = begun + wanted - head.rows.begun[firsts]
    if int(found.max()) >= len(row_starts) - 1 or bool((row_starts[found] >= ends[first_chunks]).any()):
        raise CorruptFileError("the chunks of a page do not match its repetition index")
    return row_starts[found], np.minimum(row_starts[found + 1], ends[last_chunks])


def _rebase(array: pa.Array) -> pa.Array:
    # Validity is added to arrays without an offset only.
    return pa.concat_arrays([array, array.slice(0, 0)]) if array.offset else array
