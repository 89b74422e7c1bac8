"""Runs: decode consecutive small mini-block pages as if they were one page.

For small pages the fixed cost of a page exceeds the cost of its values. Pages with equal descriptions are
concatenated, and their chunks are decoded at once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.arrays import number_dtype
from lance_ops.encoding.arrow_arrays import from_numpy
from lance_ops.encoding.chunks import (
    CHUNK_ROOM,
    ChunkBuffer,
    Chunks,
    ChunkTable,
    decode_chunk_tables,
    measure_values,
    split_chunks,
)
from lance_ops.encoding.memory import empty
from lance_ops.encoding.pages.levels import Levels
from lance_ops.encoding.values.filter_values import keep_values
from lance_ops.encoding.values.values import Fixed, Values, add_validity, as_words, to_arrow
from lance_ops.errors import CorruptFileError
from lance_ops.file.page_copy.dialect import ReadPart
from lance_ops.file.page_copy.obstacles import parse_layout
from lance_ops.file.page_copy.removed import Ranges, outside
from lance_ops.file.v2_1.column_rows import LeafType, leaf_array
from lance_ops.file.v2_1.compression.decode import decode_block, decode_chunk_values, decode_levels
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_TABLE, _CHUNKS, _DICTIONARY = 0, 1, 2
_ITEM_LAYERS = ([pb.REPDEF_ALL_VALID_ITEM], [pb.REPDEF_NULLABLE_ITEM])
_MAX_DICTIONARY = 1 << 31


def decode_run(
    pages: Sequence[ReadPart], leaf: LeafType, decode_page: Callable[[ReadPart], pa.Array]
) -> Iterator[pa.Array]:
    """Decode pages of one column.

    Args:
        pages: In the order of their rows.
        leaf: What the column holds.
        decode_page: Decodes pages that cannot be concatenated.

    Yields:
        Consecutive arrays. Pages with a dictionary become dictionary arrays, whatever the type.

    Raises:
        CorruptFileError: The bytes do not match the layouts.
        UnsupportedError: A compression that is not implemented.
    """
    is_plain = leaf.lists == (False,)

    def key(page: ReadPart) -> bytes:
        return alike(page.part.page.encoding.value) if is_plain else b""

    for found, group in groupby(pages, key):
        if found:
            yield from _decode_alike(list(group), leaf)
        else:
            yield from (decode_page(page) for page in group)


@lru_cache(maxsize=256)
def alike(description: bytes, *, in_structs: bool = False) -> bytes:
    """Return the common key of pages that can be concatenated; empty for those that cannot.

    Args:
        description: Of a page.
        in_structs: True if values within structs may be concatenated, too, whose levels are not just null
            flags.
    """
    layout = pb.PageLayout.FromString(description)
    if layout.WhichOneof("layout") != "mini_block_layout":
        return b""
    common = layout.mini_block_layout
    if common.HasField("rep_compression") or (list(common.layers) not in _ITEM_LAYERS and not in_structs):
        return b""
    common.ClearField("num_items")
    common.ClearField("num_dictionary_items")
    if has_symbols(common):
        common.value_compression.fsst.ClearField("symbol_table")
    return common.SerializeToString(deterministic=True)


def has_symbols(layout: pb.MiniBlockLayout) -> bool:
    """Return whether a page has strings compressed by its own symbol table."""
    return layout.value_compression.WhichOneof("compression") == "fsst" and not layout.HasField("dictionary")


@dataclass(frozen=True, slots=True, eq=False)
class SideBySide:
    """Concatenated pages with equal descriptions.

    Attributes:
        pages: At least one, in the order of their rows.
        layouts: Of each.
        lengths: Values of each.
        table: Positions of the chunks.
        chunks: Levels and values of each chunk.
        levels: The definition level of each value, None if all are 0.
    """

    pages: Sequence[ReadPart]
    layouts: Sequence[pb.MiniBlockLayout]
    lengths: Integers
    table: ChunkTable
    chunks: Chunks
    levels: Levels | None

    @property
    def valid(self) -> Mask | None:
        """Mask of values that are not null, None for all; only for pages without structs and lists."""
        return None if self.levels is None else self.levels == 0

    @property
    def common(self) -> pb.MiniBlockLayout:
        """Properties shared by all pages, except for their numbers and symbols."""
        return self.layouts[0]

    @property
    def gone(self) -> Ranges | None:
        """Starts and stops of the deleted values; None for none."""
        return gone_of(self.pages, self.lengths)

    @property
    def keep(self) -> Mask | None:
        """Mask of the kept values, None for all."""
        gone = self.gone
        return None if gone is None else outside(*gone, int(self.lengths.sum()))


def gone_of(pages: Sequence[ReadPart], lengths: Integers) -> Ranges | None:
    """Return starts and stops of the deleted values of consecutive pages; None for none."""
    found = [
        (page.gone[0] + first, page.gone[1] + first)
        for page, first in zip(pages, (np.cumsum(lengths) - lengths).tolist(), strict=True)
        if page.gone is not None
    ]
    if not found:
        return None
    starts, stops = zip(*found, strict=True)
    return np.concatenate(starts), np.concatenate(stops)


def lay_side_by_side(pages: Sequence[ReadPart]) -> SideBySide:
    """Concatenate pages with equal `alike` keys.

    Raises:
        CorruptFileError: The bytes do not match the layouts.
        UnsupportedError: Levels of a compression that is not implemented.
    """
    layouts, lengths, table = describe_pages(pages)
    common = layouts[0]
    chunks = split_chunks(
        _join_chunks(pages, table),
        has_rep=False,
        has_def=common.HasField("def_compression"),
        num_buffers=common.num_buffers,
        size_bytes=_word_bytes(common),
    )
    levels: Levels | None = None
    if chunks.definition is not None:
        levels = decode_levels(common.def_compression, chunks.definition, chunks.num_levels)
        if bool((chunks.num_levels != table.counts).any()):
            raise CorruptFileError("number of levels of a chunk does not match its values")
    return SideBySide(pages, layouts, lengths, table, chunks, levels)


def describe_pages(pages: Sequence[ReadPart]) -> tuple[list[pb.MiniBlockLayout], Integers, ChunkTable]:
    """Parse the descriptions of pages with equal `alike` keys.

    Returns:
        The layout of each, its number of values, and the positions of its chunks.

    Raises:
        CorruptFileError: The bytes do not match the layouts.
    """
    layouts = [_layout(page) for page in pages]
    for page, layout in zip(pages, layouts, strict=True):
        has_dictionary = layout.HasField("dictionary")
        if len(page.buffers) < 2 + has_dictionary:
            raise CorruptFileError(f"a mini-block page must not have {len(page.buffers)} buffers")
        if layout.num_items != page.part.page.length:
            raise CorruptFileError(
                "number of values of a page does not match its rows (expected "
                f"{page.part.page.length}, got {layout.num_items})"
            )
    lengths = np.fromiter((layout.num_items for layout in layouts), dtype=np.int64, count=len(layouts))
    tables = [page.buffers[_TABLE] for page in pages]
    table = decode_chunk_tables(
        np.concatenate(tables),
        np.fromiter(map(len, tables), np.int64, len(tables)),
        word_bytes=_word_bytes(layouts[0]),
        num_values=lengths,
        room=_chunk_bytes(pages),
    )
    return layouts, lengths, table


def find_strings(
    pages: Sequence[ReadPart], table: ChunkTable, common: pb.MiniBlockLayout
) -> tuple[npt.NDArray[np.uint64], Integers]:
    """Return the locations of values of pages without levels, which need not be concatenated.

    Args:
        pages: They cache the result.
        table: Result of `describe_pages`.
        common: Of one of the pages, which have one value buffer.

    Returns:
        The address of the values of each chunk, and their bytes.

    Raises:
        CorruptFileError: A chunk is damaged.
    """
    firsts = np.fromiter((page.buffers[_CHUNKS].ctypes.data for page in pages), np.uint64, len(pages))
    addresses = np.repeat(firsts, table.numbers) + table.starts.astype(np.uint64)
    sizes = measure_values(addresses, table.sizes, size_bytes=_word_bytes(common))
    return addresses + np.uint64(CHUNK_ROOM), sizes


def _decode_alike(pages: Sequence[ReadPart], leaf: LeafType) -> Iterator[pa.Array]:
    laid = lay_side_by_side(pages)
    layouts, lengths, table, chunks = laid.layouts, laid.lengths, laid.table, laid.chunks
    common, valid, keep = laid.common, laid.valid, laid.keep
    if has_symbols(common):
        # Each page has its own table.
        stops = np.cumsum(lengths)
        bounds = zip(table.firsts, table.firsts + table.numbers, stops - lengths, stops, strict=True)
        for layout, (first, last, start, stop) in zip(layouts, bounds, strict=True):
            parts = tuple(
                ChunkBuffer(part.data, part.starts[first:last], part.sizes[first:last])
                for part in chunks.values
            )
            values = decode_chunk_values(layout.value_compression, parts, table.counts[first:last])
            own = slice(start, stop)
            yield _build_array(
                values, leaf, None if valid is None else valid[own], keep if keep is None else keep[own]
            )
        return
    values = decode_chunk_values(common.value_compression, chunks.values, table.counts)
    if not common.HasField("dictionary"):
        yield _build_array(values, leaf, valid, keep)
        return
    if not isinstance(values, Fixed) or values.bits not in (8, 16, 32, 64):
        raise CorruptFileError("dictionary indices must be integers")
    positions = as_words(values)
    stops = np.cumsum(lengths).tolist()
    for page, layout, start, stop in zip(pages, layouts, [0, *stops], stops, strict=False):
        shown = slice(start, stop)
        own_valid = None if valid is None else valid[shown]
        own_keep = None if keep is None else keep[shown]
        yield _dictionary_array(page, layout, leaf, positions[shown], own_valid, own_keep)


def _build_array(values: Values, leaf: LeafType, valid: Mask | None, keep: Mask | None) -> pa.Array:
    if keep is not None:
        values = keep_values(values, keep)
        valid = None if valid is None else valid[keep]
    return add_validity(leaf_array(values, leaf.data_type), valid)


def _layout(page: ReadPart) -> pb.MiniBlockLayout:
    return parse_layout(page.part.page.encoding, page.where, page.path).mini_block_layout


def _join_chunks(pages: Sequence[ReadPart], table: ChunkTable) -> ChunkBuffer:
    """Concatenate the chunks of all pages."""
    spaces = _chunk_bytes(pages)
    data = np.concatenate([page.buffers[_CHUNKS] for page in pages], out=empty(int(spaces.sum()), np.uint8))
    return ChunkBuffer(data, table.starts + np.repeat(np.cumsum(spaces) - spaces, table.numbers), table.sizes)


def _chunk_bytes(pages: Sequence[ReadPart]) -> Integers:
    return np.fromiter((len(page.buffers[_CHUNKS]) for page in pages), np.int64, len(pages))


def _word_bytes(layout: pb.MiniBlockLayout) -> int:
    return 4 if layout.has_large_chunk else 2


def _dictionary_array(
    page: ReadPart,
    layout: pb.MiniBlockLayout,
    leaf: LeafType,
    positions: npt.NDArray[np.unsignedinteger],
    valid: Mask | None,
    keep: Mask | None,
) -> pa.Array:
    count = layout.num_dictionary_items
    if count >= _MAX_DICTIONARY:
        raise CorruptFileError(f"a dictionary must not have {count} entries")
    data_type = leaf.data_type
    is_dictionary = pa.types.is_dictionary(data_type)
    items = to_arrow(
        decode_block(layout.dictionary, page.buffers[_DICTIONARY], count),
        data_type.value_type if is_dictionary else data_type,
    )
    if len(positions) and int(positions.max()) >= len(items):
        raise CorruptFileError(f"a dictionary index exceeds the {len(items)} entries of its dictionary")
    index_type = data_type.index_type if is_dictionary else pa.int32()
    indices = from_numpy(positions.astype(number_dtype(index_type)), mask=None if valid is None else ~valid)
    if keep is not None:
        indices = indices.filter(from_numpy(keep))
    return pa.DictionaryArray.from_arrays(indices, items)
