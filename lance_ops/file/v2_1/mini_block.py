"""Mini-block pages: small values in compressed chunks, of which a reader fetches only those that it needs."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.chunks import ChunkTable, decode_chunk_table, split_chunks
from lance_ops.encoding.levels import find_first_row
from lance_ops.encoding.values import to_arrow
from lance_ops.errors import CorruptFileError
from lance_ops.file.fetch import Steps, fetch
from lance_ops.file.v2_1.columns import LayoutPage, parse_layers
from lance_ops.file.v2_1.compressions import as_bytes, decode_block, decode_chunk_values, decode_levels
from lance_ops.file.v2_1.pieces import Leaf, Piece, build_piece, leaf_array, look_up
from lance_ops.pb import encodings21_pb2 as pb

_TABLE, _CHUNKS, _DICTIONARY = 0, 1, 2
_INDEX_WORD = 8


@dataclass(frozen=True, slots=True)
class _Selection:
    """Which chunks to read.

    Attributes:
        first: First chunk.
        last: End of the chunks.
        row: Number of the first row that begins in the first chunk.
    """

    first: int
    last: int
    row: int


def read_mini_block(
    page: LayoutPage, layout: pb.MiniBlockLayout, leaf: Leaf, start: int, stop: int
) -> Steps[Piece]:
    """Read rows of a mini-block page; see `read_page`."""
    layers = parse_layers(layout.layers)
    leaf.check(layers)
    wide = layout.has_large_chunk
    described = [page.buffer(_TABLE)]
    has_dictionary = layout.HasField("dictionary")
    if has_dictionary:
        described.append(page.buffer(_DICTIONARY))
    has_index = leaf.is_repeated and layout.repetition_index_depth > 0
    if has_index:
        described.append(page.buffer(len(page.buffers) - 1))
    fetched = yield described
    position, size = page.buffer(_CHUNKS)
    table = decode_chunk_table(
        as_bytes(fetched[0]), word_bytes=4 if wide else 2, num_values=layout.num_items, size=size
    )
    if not leaf.is_repeated and layout.num_items != page.length * leaf.span:
        raise CorruptFileError(f"a page of {page.length} rows has {layout.num_items} values")
    index = as_bytes(fetched[-1]) if has_index else None
    chosen = _select(page, layout, table, leaf, index, start, stop)
    low, high = int(table.starts[chosen.first]), int(table.starts[chosen.last])
    data = yield from fetch(position + low, high - low)
    chunks = split_chunks(
        as_bytes(data),
        table.starts[chosen.first : chosen.last + 1] - low,
        has_rep=layout.HasField("rep_compression"),
        has_def=layout.HasField("def_compression"),
        num_buffers=layout.num_buffers,
        size_bytes=4 if wide else 2,
    )
    counts = np.diff(table.first_values[chosen.first : chosen.last + 1])
    rep = None if chunks.rep is None else decode_levels(layout.rep_compression, chunks.rep, chunks.num_levels)
    definition = (
        None
        if chunks.definition is None
        else decode_levels(layout.def_compression, chunks.definition, chunks.num_levels)
    )
    values = decode_chunk_values(layout.value_compression, chunks.values, counts)
    if has_dictionary:
        items = _read_dictionary(layout, fetched[1], leaf.data_type)
        array = look_up(values, items, leaf.data_type)
    else:
        array = leaf_array(values, leaf.data_type)
    num_entries = int(chunks.num_levels.sum()) if rep is not None or definition is not None else len(array)
    if rep is not None and chosen.first > 0:
        # The first chunk may begin within a row that belongs to the chunks before.
        entry, value = find_first_row(rep, definition, layers)
        rep = rep[entry:]
        definition = None if definition is None else definition[entry:]
        num_entries -= entry
        array = _rebase(array.slice(value))
    piece = build_piece(leaf, layers, rep, definition, num_entries, array)
    if chosen.first == 0 and chosen.last == len(table) and piece.length != page.length:
        raise CorruptFileError(f"a page of {page.length} rows holds {piece.length}")
    if start < chosen.row or stop - chosen.row > piece.length:
        raise CorruptFileError("the chunks of a page do not hold the rows that its index says")
    return piece.slice(start - chosen.row, stop - chosen.row, leaf.items)


def _read_dictionary(layout: pb.MiniBlockLayout, data: pa.Buffer, data_type: pa.DataType) -> pa.Array:
    if layout.num_dictionary_items >= 2**31:
        raise CorruptFileError(f"a dictionary of {layout.num_dictionary_items} entries")
    items = decode_block(layout.dictionary, as_bytes(data), layout.num_dictionary_items)
    item_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    return to_arrow(items, item_type)


def _select(
    page: LayoutPage,
    layout: pb.MiniBlockLayout,
    table: ChunkTable,
    leaf: Leaf,
    index: npt.NDArray[np.uint8] | None,
    start: int,
    stop: int,
) -> _Selection:
    everything = _Selection(0, len(table), 0)
    if start == 0 and stop == page.length:
        return everything
    if leaf.is_repeated:
        if index is None:
            return everything
        return _select_by_index(page, layout.repetition_index_depth, table, index, start, stop)
    if leaf.span > 1:
        # Rows of several values each may begin anywhere in a chunk.
        return everything
    first = int(np.searchsorted(table.first_values, start, side="right")) - 1
    last = int(np.searchsorted(table.first_values, stop, side="left"))
    return _Selection(first, last, int(table.first_values[first]))


def _select_by_index(
    page: LayoutPage,
    depth: int,
    table: ChunkTable,
    index: npt.NDArray[np.uint8],
    start: int,
    stop: int,
) -> _Selection:
    # For each chunk: the rows that end in it, and what follows the start of the last row that does not.
    if len(index) != len(table) * (depth + 1) * _INDEX_WORD:
        raise CorruptFileError(f"a repetition index of {len(index)} bytes for {len(table)} chunks")
    entries = np.frombuffer(index.tobytes(), dtype="<u8").reshape(len(table), depth + 1)
    if int(entries[:, 0].max()) > page.length:
        raise CorruptFileError("the repetition index has more rows than the page")
    ended = np.concatenate([[0], np.cumsum(entries[:, 0].astype(np.int64))])
    if int(ended[-1]) != page.length:
        raise CorruptFileError(f"the repetition index has {int(ended[-1])} rows, the page {page.length}")
    begun = ended.copy()
    begun[1:] += entries[:, 1] > 0
    first = int(np.searchsorted(begun[:-1], start, side="right")) - 1
    last = int(np.searchsorted(ended, stop, side="left"))
    return _Selection(first, max(last, first + 1), int(begun[first]))


def _rebase(array: pa.Array) -> pa.Array:
    # Validity is added to arrays without an offset only.
    return pa.concat_arrays([array, array.slice(0, 0)]) if array.offset else array
