"""Ranges of rows of a column: small pages that are described alike are decoded together.

What a small page costs is mostly fixed. Appends of few rows leave thousands of them, and lists whose lengths
differ are cut into pages by their levels rather than by their bytes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.chunks import ChunkBuffer, split_apart
from lance_ops.encoding.memory import empty
from lance_ops.encoding.pages.chunk_tables import decode_chunk_tables
from lance_ops.encoding.pages.levels import Layer, visible_below
from lance_ops.encoding.values.binary import is_binary_like
from lance_ops.encoding.values.values import Fixed, Values
from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.io.extents import fetch_extents
from lance_ops.file.io.fetch import Request, Steps, gather
from lance_ops.file.io.page_errors import page_errors
from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.io.row_selection import Integers, RowSelection, join_lengths
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType, build_piece, leaf_array, look_up
from lance_ops.file.v2_1.columns import LayoutPage, parse_layers
from lance_ops.file.v2_1.compression.decode import (
    as_bytes,
    decode_chunk_values,
    decode_chunks_by_tables,
    decode_levels,
    has_tables_apart,
)
from lance_ops.file.v2_1.mini_block.head import (
    CHUNKS_BUFFER,
    DICTIONARY_BUFFER,
    TABLE_BUFFER,
    decode_dictionary,
    size_bytes_of,
)
from lance_ops.file.v2_1.read_page import read_page
from lance_ops.pb import encodings21_pb2 as pb

Levels = npt.NDArray[np.uint16]

# Where compiled loops can read words of neighbouring pages.
_ALIGNMENT = 8
# Layouts of more bytes have something strange in them.
_MAX_LAYOUT = 4096
# Larger pages gain nothing.
_SMALL_BYTES = 1 << 20
_PAGES_AT_ONCE, _BYTES_AT_ONCE, _VALUES_AT_ONCE = 256, 32 << 20, 4 << 20
# What lies between the parts of a page and of its neighbours: tables of chunks and indexes of rows.
_GAP = 16 << 10

_ENTRY_BYTES_AT_ONCE = 256 << 20
_INDEX_BITS = (8, 16, 32, 64)

_Part = tuple[LayoutPage, RowSelection]


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


def read_parts(parts: Sequence[_Part], leaf: LeafType, heads: PageHeads) -> Steps[list[ColumnRows]]:
    """Read rows of some pages of a column.

    Args:
        parts: Pages that follow each other, each with its own rows.
        leaf: What the column holds.
        heads: Of the open file.

    Returns:
        The rows, in pieces that follow each other.

    Raises:
        CorruptFileError: The bytes are not what the layout says.
        UnsupportedError: A layout or compression that is not implemented, which is named.
    """
    if len(parts) == 1:
        return [(yield from read_page(parts[0][0], leaf, parts[0][1], heads))]
    steps: list[Steps[list[ColumnRows]]] = []
    for batch_key, found in groupby(parts, key=lambda part: _batch_key(part, leaf)):
        run = list(found)
        if batch_key is None:
            steps.append(_read_apart(run, leaf, heads))
        else:
            steps.extend(_read_together(some, leaf, heads) for some in _cut(run))
    return [piece for pieces in (yield from gather(steps)) for piece in pieces]


def _batch_key(part: _Part, leaf: LeafType) -> bytes | None:
    """What pages have in common that can be read together; None of a page that is to be read by itself."""
    page, rows = part
    if rows.numbers is not None or rows.count != page.length:
        return None
    if page.layout.ByteSize() > _MAX_LAYOUT or len(page.buffers) <= CHUNKS_BUFFER:
        return None
    if page.buffers[CHUNKS_BUFFER][1] > _SMALL_BYTES or page.buffers[CHUNKS_BUFFER][0] % _ALIGNMENT:
        return None
    batch_key, has_dictionary = _describe(page.layout.SerializeToString(deterministic=True))
    if has_dictionary and pa.types.is_dictionary(leaf.data_type):
        # Their arrays could only be joined under one dictionary.
        return None
    return batch_key


@lru_cache(maxsize=1024)
def _describe(data: bytes) -> tuple[bytes | None, bool]:
    """What a layout has in common with others, and whether it has a dictionary."""
    layout = pb.PageLayout.FromString(data)
    if layout.WhichOneof("layout") != "mini_block_layout":
        return None, False
    blocks = layout.mini_block_layout
    if not blocks.num_items or not _is_bounded(blocks.value_compression):
        return None, False
    blocks.ClearField("num_items")
    blocks.ClearField("num_dictionary_items")
    if has_tables_apart(blocks.value_compression):
        blocks.value_compression.fsst.ClearField("symbol_table")
    has_dictionary = blocks.HasField("dictionary")
    if has_dictionary:
        blocks.dictionary.Clear()
    return layout.SerializeToString(deterministic=True), has_dictionary


def _is_bounded(encoding: pb.CompressiveEncoding) -> bool:
    """Whether values cannot take far more memory than their number and their page say."""
    is_general = False
    while encoding.WhichOneof("compression") == "general":
        encoding, is_general = encoding.general.values, True
    return not is_general or encoding.WhichOneof("compression") not in ("variable", "fsst")


def _cut(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    """Pages that take no more memory at once than a large one."""
    some: list[_Part] = []
    size = values = 0
    for page, rows in parts:
        size += page.buffers[CHUNKS_BUFFER][1]
        values += page.layout.mini_block_layout.num_items
        if some and (len(some) == _PAGES_AT_ONCE or size > _BYTES_AT_ONCE or values > _VALUES_AT_ONCE):
            yield some
            some = []
            size, values = page.buffers[CHUNKS_BUFFER][1], page.layout.mini_block_layout.num_items
        some.append((page, rows))
    yield some


def _read_apart(parts: Sequence[_Part], leaf: LeafType, heads: PageHeads) -> Steps[list[ColumnRows]]:
    return (yield from gather([read_page(page, leaf, rows, heads) for page, rows in parts]))


def _read_together(parts: Sequence[_Part], leaf: LeafType, heads: PageHeads) -> Steps[list[ColumnRows]]:
    if len(parts) == 1:
        return (yield from _read_apart(parts, leaf, heads))
    pages = [page for page, _ in parts]
    try:
        with page_errors(pages[0]):
            piece = yield from _read_chunks(pages, leaf, max(_GAP, parts[0][1].gap))
    except (CorruptFileError, UnsupportedError):
        # Which page it is shows when each is read by itself.
        return (yield from _read_apart(parts, leaf, heads))
    return [piece]


def _read_chunks(pages: Sequence[LayoutPage], leaf: LeafType, gap: int) -> Steps[ColumnRows]:
    layouts = [page.layout.mini_block_layout for page in pages]
    layout = layouts[0]
    layers = parse_layers(layout.layers)
    leaf.check(layers)
    dictionaries = [page.buffer(DICTIONARY_BUFFER) for page in pages] if layout.HasField("dictionary") else []
    chunks, fetched = yield from _fetch(pages, layouts, dictionaries, gap)
    parts = split_apart(
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
    num_items = np.array([one.num_items for one in layouts], dtype=np.int64)
    _check_pages(
        pages, leaf, layers, rep, definition, np.add.reduceat(parts.num_levels, chunks.firsts), num_items
    )
    if has_tables_apart(layout.value_compression):
        encodings = [one.value_compression for one in layouts]
        values = decode_chunks_by_tables(encodings, chunks.firsts, parts.values, chunks.counts)
    else:
        values = decode_chunk_values(layout.value_compression, parts.values, chunks.counts)
    if dictionaries:
        items = [
            decode_dictionary(one, data, leaf.data_type) for one, data in zip(layouts, fetched, strict=True)
        ]
        array = _look_up(values, items, num_items, leaf.data_type)
    else:
        array = leaf_array(values, leaf.data_type)
    count = len(array) if rep is None and definition is None else int(parts.num_levels.sum())
    piece = build_piece(leaf, layers, rep, definition, count, array)
    if piece.values.type != leaf.data_type or piece.length != sum(page.length for page in pages):
        # Arrow aborts the process when it builds a parent over children of a wrong type.
        raise CorruptFileError(f"pages of {leaf.data_type} hold values of {piece.values.type}")
    return piece


def _fetch(
    pages: Sequence[LayoutPage], layouts: Sequence[pb.MiniBlockLayout], others: list[Request], gap: int
) -> Steps[tuple[_Chunks, list[pa.Buffer]]]:
    """The chunks of pages, and other ranges."""
    places = np.array([page.buffers[: CHUNKS_BUFFER + 1] for page in pages], dtype=np.int64)
    starts, sizes = places[:, :, 0].reshape(-1), places[:, :, 1]
    extents = fetch_extents(starts, starts + sizes.reshape(-1), gap)
    steps: list[Steps[Any]] = [extents, _fetch_all(others)]
    (data, found), fetched = yield from gather(steps)
    everything = as_bytes(data)
    tables = ChunkBuffer(everything, found[TABLE_BUFFER::2], sizes[:, TABLE_BUFFER])
    numbers, chunk_starts, chunk_sizes, counts = decode_chunk_tables(
        tables.join_prefixes(tables.sizes),
        tables.sizes,
        word_bytes=size_bytes_of(layouts[0]),
        num_values=np.array([one.num_items for one in layouts], dtype=np.int64),
        room=sizes[:, CHUNKS_BUFFER],
    )
    chunk_starts += np.repeat(found[CHUNKS_BUFFER::2], numbers)
    firsts = np.cumsum(numbers) - numbers
    return _Chunks(ChunkBuffer(everything, chunk_starts, chunk_sizes), counts, firsts), fetched


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
    """Check that each page has as many rows and values as it says; the rest is checked of all of them."""
    lengths = np.array([page.length for page in pages], dtype=np.int64)
    if rep is None:
        same = num_items == lengths * leaf.span
        if definition is not None:
            same &= num_levels == num_items
        if not bool(same.all()):
            raise CorruptFileError("a page has not as many values as rows")
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
            raise CorruptFileError("a page has not as many rows as it says")
        shown = last - first
        if definition is not None:
            shown = int(np.count_nonzero(definition[first:last] < visible))
        if shown != count:
            raise CorruptFileError("a page has not as many values as its levels say")


def _look_up(
    values: Values, items: Sequence[pa.Array], num_items: Integers, data_type: pa.DataType
) -> pa.Array:
    """Values by their positions in the dictionaries of their pages."""
    if not isinstance(values, Fixed) or values.bits not in _INDEX_BITS or isinstance(values.data, pa.Buffer):
        raise CorruptFileError("positions in a dictionary that are no integers")
    positions = np.ascontiguousarray(values.data).reshape(-1).view(f"<u{values.bits // 8}")
    cuts = join_lengths(num_items).tolist()
    if len(positions) < cuts[-1]:
        raise CorruptFileError("pages have fewer values than they say")
    entries = pa.concat_arrays(items)
    if _longest(entries) * cuts[-1] > _ENTRY_BYTES_AT_ONCE:
        raise UnsupportedError("values of pages of long entries are too many to be looked up at once")
    moved = empty(cuts[-1], np.uint32)
    before = 0
    for (first, last), item in zip(pairwise(cuts), items, strict=True):
        some = positions[first:last]
        if len(some) and int(some.max()) >= len(item):
            raise CorruptFileError(f"a value points outside of its dictionary of {len(item)} entries")
        np.add(some, before, out=moved[first:last], casting="unsafe")
        before += len(item)
    return look_up(Fixed(32, len(moved), moved), entries, data_type)


def _longest(entries: pa.Array) -> int:
    """About the bytes of the longest of some values."""
    if not len(entries):
        return 0
    if is_binary_like(entries.type):
        return int(pc.max(pc.binary_length(entries)).as_py())
    return -(-int(entries.nbytes) // len(entries))
