"""Whole mini-block pages, decoded together: all chunks of a batch of pages, of which a single one is a batch.

What a small page costs is mostly fixed, so that what is counted goes on from page to page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.chunks import ChunkBuffer, decode_chunk_tables, split_chunks
from lance_ops.encoding.memory import empty
from lance_ops.encoding.pages.levels import Layer, visible_below
from lance_ops.encoding.values.binary import is_binary_like, is_large
from lance_ops.encoding.values.end_offsets import Extents
from lance_ops.encoding.values.values import Fixed, Values
from lance_ops.errors import CorruptFileError
from lance_ops.file.io.extents import fetch_extents
from lance_ops.file.io.fetch import Request, Steps, gather
from lance_ops.file.io.row_selection import Integers, join_lengths
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType, build_piece, leaf_array, look_up
from lance_ops.file.v2_1.columns import LayoutPage, parse_layers
from lance_ops.file.v2_1.compression.decode import (
    decode_chunk_values,
    decode_chunks_by_tables,
    decode_levels,
    has_tables_apart,
)
from lance_ops.file.v2_1.compression.decode_rows import as_bytes
from lance_ops.file.v2_1.mini_block.head import (
    CHUNKS_BUFFER,
    DICTIONARY_BUFFER,
    TABLE_BUFFER,
    decode_dictionary,
    size_bytes_of,
)
from lance_ops.pb import encodings21_pb2 as pb

Levels = npt.NDArray[np.uint16]

# Where compiled loops can read words of neighbouring pages.
_ALIGNMENT = 8
_ENTRY_BYTES_AT_ONCE = 256 << 20
_INDEX_BITS = (8, 16, 32, 64)
_FIRST = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _Chunks:
    """The chunks of some pages.

    Attributes:
        parts: Their bytes.
        counts: Values of each.
        firsts: Number of the first chunk of each page.
    """

    parts: ChunkBuffer
    counts: Integers
    firsts: Integers


def is_readable_whole(page: LayoutPage) -> bool:
    """Return whether a page can be read in a batch: mini-blocks with the alignment of writers."""
    if len(page.buffers) <= CHUNKS_BUFFER or page.buffers[CHUNKS_BUFFER][0] % _ALIGNMENT:
        return False
    return page.layout.mini_block_layout.num_items > 0


def read_whole_pages(pages: Sequence[LayoutPage], leaf: LeafType, gap: int) -> Steps[list[ColumnRows]]:
    """Read all rows of pages.

    Args:
        pages: In the order of their rows, at least one; all are described alike except for their numbers,
            their dictionaries and their tables of symbols.
        leaf: What their column holds.
        gap: Bytes that may be read for nothing.

    Returns:
        The rows, in one piece usually.

    Raises:
        CorruptFileError: The bytes of a page are not what its layout says.
        UnsupportedError: A compression that is not implemented, which is named.
    """
    layouts = [page.layout.mini_block_layout for page in pages]
    layout = layouts[0]
    layers = parse_layers(layout.layers)
    leaf.check(layers)
    dictionaries = [page.buffer(DICTIONARY_BUFFER) for page in pages] if layout.HasField("dictionary") else []
    chunks, fetched = yield from _fetch(pages, layouts, dictionaries, gap)
    # None without dictionaries.
    items = [decode_dictionary(*pair, leaf.data_type) for pair in zip(layouts, fetched, strict=False)]
    num_items = np.array([one.num_items for one in layouts], dtype=np.int64)
    if len(pages) > 1 and _longest(items) * int(num_items.sum()) > _ENTRY_BYTES_AT_ONCE:
        # Decoded dictionaries might take far more memory than their pages.
        alone = yield from gather([read_whole_pages([page], leaf, gap) for page in pages])
        return [piece for pieces in alone for piece in pieces]
    parts = split_chunks(
        chunks.parts,
        has_rep=layout.HasField("rep_compression"),
        has_def=layout.HasField("def_compression"),
        num_buffers=layout.num_buffers,
        size_bytes=size_bytes_of(layout),
    )
    rep = definition = None
    if parts.rep is not None:
        rep = decode_levels(layout.rep_compression, parts.rep, parts.num_levels)
    if parts.definition is not None:
        definition = decode_levels(layout.def_compression, parts.definition, parts.num_levels)
    _check_pages(
        pages, leaf, layers, rep, definition, np.add.reduceat(parts.num_levels, chunks.firsts), num_items
    )
    if has_tables_apart(layout.value_compression):
        encodings = [one.value_compression for one in layouts]
        values = decode_chunks_by_tables(encodings, chunks.firsts, parts.values, chunks.counts)
    else:
        values = decode_chunk_values(layout.value_compression, parts.values, chunks.counts)
    if dictionaries:
        array = _look_up(values, items, num_items, leaf.data_type)
    else:
        array = leaf_array(values, leaf.data_type)
    count = len(array) if rep is None and definition is None else int(parts.num_levels.sum())
    piece = build_piece(leaf, layers, rep, definition, count, array)
    if piece.values.type != leaf.data_type or piece.length != sum(page.length for page in pages):
        # Arrow aborts the process when it builds a parent over children of a wrong type.
        raise CorruptFileError(f"pages of {leaf.data_type} hold values of {piece.values.type}")
    return [piece]


def _fetch(
    pages: Sequence[LayoutPage], layouts: Sequence[pb.MiniBlockLayout], others: list[Request], gap: int
) -> Steps[tuple[_Chunks, list[pa.Buffer]]]:
    """Return the chunks of pages, and other ranges."""
    counts = np.array([one.num_items for one in layouts], dtype=np.int64)
    word_bytes = size_bytes_of(layouts[0])
    if len(pages) == 1:
        # Nothing to join: the store merges adjacent ranges.
        words, data, *fetched = yield [*pages[0].buffers[: CHUNKS_BUFFER + 1], *others]
        sizes, room = np.array([[words.size], [data.size]], dtype=np.int64)
        table = decode_chunk_tables(
            as_bytes(words), sizes, word_bytes=word_bytes, num_values=counts, room=room
        )
        return _Chunks(ChunkBuffer(as_bytes(data), table.starts, table.sizes), table.counts, _FIRST), fetched
    places = np.array([page.buffers[: CHUNKS_BUFFER + 1] for page in pages], dtype=np.int64)
    starts, sizes = places[:, :, 0].reshape(-1), places[:, :, 1]
    extents = fetch_extents(starts, starts + sizes.reshape(-1), gap)
    steps: list[Steps[Any]] = [extents, _fetch_all(others)]
    (data, found), fetched = yield from gather(steps)
    everything = as_bytes(data)
    tables = ChunkBuffer(everything, found[TABLE_BUFFER::2], sizes[:, TABLE_BUFFER])
    table = decode_chunk_tables(
        tables.join_prefixes(tables.sizes),
        tables.sizes,
        word_bytes=word_bytes,
        num_values=counts,
        room=sizes[:, CHUNKS_BUFFER],
    )
    begins = table.starts + np.repeat(found[CHUNKS_BUFFER::2], table.numbers)
    return _Chunks(ChunkBuffer(everything, begins, table.sizes), table.counts, table.firsts), fetched


def _fetch_all(requests: list[Request]) -> Steps[list[pa.Buffer]]:
    return (yield requests)


def _check_pages(
    pages: Sequence[LayoutPage],
    leaf: LeafType,
    layers: Sequence[Layer],
    rep: Levels | None,
    definition: Levels | None,
    num_levels: Integers,
    num_items: Integers,
) -> None:
    """Check the row and value counts of each page; other properties are checked for all of them."""
    lengths = np.array([page.length for page in pages], dtype=np.int64)
    if rep is None:
        same = num_items == lengths * leaf.span
        if definition is not None:
            same &= num_levels == num_items
        if not bool(same.all()):
            raise CorruptFileError("a page has different numbers of values and rows")
        return
    highest, visible = sum(layer.is_list for layer in layers), visible_below(layers)
    cuts = join_lengths(num_levels).tolist()
    for (first, last), length, count in zip(
        pairwise(cuts), lengths.tolist(), num_items.tolist(), strict=True
    ):
        some = rep[first:last]
        if last > len(rep) or first == last or int(some[0]) != highest:
            raise CorruptFileError("a page does not begin with a row")
        if int(np.count_nonzero(some == highest)) != length:
            raise CorruptFileError("page row count does not match its metadata")
        shown = last - first
        if definition is not None:
            shown = int(np.count_nonzero(definition[first:last] < visible))
        if shown != count:
            raise CorruptFileError("number of values of a page does not match its levels")


def _look_up(
    values: Values, items: Sequence[pa.Array], num_items: Integers, data_type: pa.DataType
) -> pa.Array:
    """Return values by their positions in the dictionaries of their pages."""
    if not isinstance(values, Fixed) or values.bits not in _INDEX_BITS or isinstance(values.data, pa.Buffer):
        raise CorruptFileError("dictionary indices must be integers")
    positions = np.ascontiguousarray(values.data).reshape(-1).view(f"<u{values.bits // 8}")
    cuts = join_lengths(num_items).tolist()
    if len(positions) < cuts[-1]:
        raise CorruptFileError("pages have fewer values than their metadata say")
    if len(items) == 1:
        return look_up(Fixed(values.bits, cuts[-1], positions[: cuts[-1]]), items[0], data_type)
    entries = pa.concat_arrays(items)
    moved = empty(cuts[-1], np.uint32)
    before = 0
    for (first, last), item in zip(pairwise(cuts), items, strict=True):
        some = positions[first:last]
        if len(some) and int(some.max()) >= len(item):
            raise CorruptFileError(f"a value points outside of its dictionary of {len(item)} entries")
        np.add(some, before, out=moved[first:last], casting="unsafe")
        before += len(item)
    return look_up(Fixed(32, len(moved), moved), entries, data_type)


def _longest(dictionaries: Sequence[pa.Array]) -> int:
    """About the bytes of the longest entry of some dictionaries."""
    return max((_longest_of(entries) for entries in dictionaries if len(entries)), default=0)


def _longest_of(entries: pa.Array) -> int:
    if is_binary_like(entries.type):
        return int(np.diff(Extents.of_array(entries, large=is_large(entries.type)).offsets).max())
    return -(-int(entries.nbytes) // len(entries))
