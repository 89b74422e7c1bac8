"""Mini-block heads: positions of the chunks of pages, their rows, and their dictionaries.

Every read needs them, so readers cache them. Pages with equal descriptions share one head, decoded at once:
pages of lists have so few rows that the fixed cost of a page dominates reads of single rows.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.chunks import decode_chunk_tables
from lance_ops.encoding.pages.levels import Layer
from lance_ops.encoding.values.values import to_arrow
from lance_ops.errors import CorruptFileError
from lance_ops.file.io.fetch import Steps
from lance_ops.file.io.row_selection import Integers, RowSelection, join_lengths
from lance_ops.file.v2_1.column_rows import LeafType
from lance_ops.file.v2_1.columns import LayoutPage, parse_layers
from lance_ops.file.v2_1.compression.decode import decode_block
from lance_ops.file.v2_1.compression.decode_rows import as_bytes
from lance_ops.file.v2_1.mini_block.pick import Picker, is_plain_fsst, plan_picker
from lance_ops.pb import encodings21_pb2 as pb

TABLE_BUFFER, CHUNKS_BUFFER, DICTIONARY_BUFFER = 0, 1, 2

_INDEX_WORD = 8
_SPARSE, _FEW_ROWS = 8, 256


@dataclass(frozen=True, slots=True)
class RowIndex:
    """In which chunks rows begin and end.

    Attributes:
        begun: Rows that begin before each chunk, with the number of all.
        ended: Rows that end before each chunk, with the number of all.
    """

    begun: Integers
    ended: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """Data that every read of a page, or of several pages with equal descriptions, needs.

    Attributes:
        layers: From the innermost outwards.
        picker: Reads single values, None where chunks have to be decoded.
        starts: First byte of each chunk in the file.
        stops: End of each.
        firsts: Number of the first value of each chunk, with the number of all.
        rows: In which chunks rows begin and end, None for pages that do not say.
        first_rows: Number of the first row of each page, with the number of all.
        first_values: Number of the first value of each page, with the number of all.
        items: The dictionaries of the pages, in sequence; None without.
        item_starts: First entry of the dictionary of each page, with the number of all.
        symbol_tables: For compressed strings, the table of each page, where these differ; their strings are
            picked as they are stored.
        extent: Bytes from the first chunk to the end of the last; endless where pages are not in their order.
    """

    layers: list[Layer]
    picker: Picker | None
    starts: Integers
    stops: Integers
    firsts: Integers
    rows: RowIndex | None
    first_rows: Integers
    first_values: Integers
    items: pa.Array | None
    item_starts: Integers
    symbol_tables: tuple[bytes, ...]
    extent: int

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def is_packed(self) -> bool:
        """Return whether the values are packed numbers in their chunks, without levels and dictionaries."""
        return self.items is None and self.picker is not None and self.picker.is_packed

    @property
    def has_page_tables(self) -> bool:
        """Return whether each of several pages has a dictionary or a table of symbols of its own."""
        return len(self.item_starts) > 2 or bool(self.symbol_tables)

    @property
    def size(self) -> int:
        """About the bytes it takes."""
        arrays = (self.starts, self.stops, self.firsts, self.first_rows, self.first_values)
        index = 2 * self.starts.nbytes if self.rows is not None else 0
        own = sum(array.nbytes for array in arrays)
        return (
            512
            + own
            + index
            + sum(map(len, self.symbol_tables))
            + (0 if self.items is None else int(self.items.nbytes))
        )


def wants_few(count: int, length: int) -> bool:
    """Return whether to read single values instead of decoding chunks: for less than one row in eight.

    Args:
        count: Of the wanted rows.
        length: Rows of the page.
    """
    return count <= _FEW_ROWS or count * _SPARSE < length


def size_bytes_of(layout: pb.MiniBlockLayout) -> int:
    """Return bytes of a chunk's word in the table, and of the size of a value buffer."""
    return 4 if layout.has_large_chunk else 2


def read_head(
    pages: Sequence[LayoutPage], layouts: Sequence[pb.MiniBlockLayout], leaf: LeafType
) -> Steps[Head]:
    """Read the head of pages that differ in only their numbers, dictionaries and tables of symbols.

    Args:
        pages: In the order of their rows, at least one.
        layouts: Of each.
        leaf: What their column holds.

    Raises:
        CorruptFileError: The parts of a page do not belong together.
    """
    layout = layouts[0]
    layers = parse_layers(layout.layers)
    leaf.check(layers)
    tables = [page.buffer(TABLE_BUFFER) for page in pages]
    has_index = leaf.is_repeated and layout.repetition_index_depth > 0
    indices = [page.buffer(len(page.buffers) - 1) for page in pages] if has_index else []
    dictionaries = [page.buffer(DICTIONARY_BUFFER) for page in pages] if layout.HasField("dictionary") else []
    fetched = yield tables + indices + dictionaries
    lengths = [page.length for page in pages]
    places = [page.buffer(CHUNKS_BUFFER) for page in pages]
    begins, room = np.array(places, dtype=np.int64).T
    num_values = np.array([one.num_items for one in layouts], dtype=np.int64)
    table = decode_chunk_tables(
        np.frombuffer(b"".join(fetched[: len(pages)]), dtype=np.uint8),
        np.array([size for _, size in tables], dtype=np.int64),
        word_bytes=size_bytes_of(layout),
        num_values=num_values,
        room=room,
    )
    rows = None
    if has_index:
        found = fetched[len(pages) : 2 * len(pages)]
        rows = _decode_indices(found, layout.repetition_index_depth, table.numbers, lengths)
    elif not leaf.is_repeated:
        for one, length in zip(layouts, lengths, strict=True):
            if one.num_items != length * leaf.span:
                raise CorruptFileError(f"a page of {length} rows has {one.num_items} values")
    items = [
        decode_dictionary(one, data, leaf.data_type)
        for one, data in zip(layouts, fetched[len(tables) + len(indices) :], strict=False)
    ]
    starts = table.starts + np.repeat(begins, table.numbers)
    stops = starts + table.sizes
    picker = plan_picker(layout)
    symbol_tables: tuple[bytes, ...] = ()
    if len(pages) > 1 and picker is not None and is_plain_fsst(layout.value_compression):
        symbol_tables = tuple([one.value_compression.fsst.symbol_table for one in layouts])
        picker = replace(picker, encoding=layout.value_compression.fsst.values)
    in_order = all(sum(before) <= after[0] for before, after in pairwise(places))
    return Head(
        layers,
        picker,
        starts,
        stops,
        join_lengths(table.counts),
        rows,
        np.array([0, *accumulate(lengths)], dtype=np.int64),
        np.array([0, *accumulate(num_values.tolist())], dtype=np.int64),
        None if not items else items[0] if len(items) == 1 else pa.concat_arrays(items),
        join_lengths(np.array([len(some) for some in items], dtype=np.int64)),
        symbol_tables,
        int(stops[-1] - starts[0]) if in_order else sys.maxsize,
    )


def decode_dictionary(layout: pb.MiniBlockLayout, data: pa.Buffer, data_type: pa.DataType) -> pa.Array:
    """Decode the dictionary of a page, for a column of a type."""
    if layout.num_dictionary_items >= 2**31:
        raise CorruptFileError(f"a dictionary of {layout.num_dictionary_items} entries")
    items = decode_block(layout.dictionary, as_bytes(data), layout.num_dictionary_items)
    item_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    return to_arrow(items, item_type)


def _decode_indices(
    indices: Sequence[pa.Buffer], depth: int, counts: Integers, lengths: Sequence[int]
) -> RowIndex:
    # For each chunk: the rows that end in it, and what follows the start of the last row that does not.
    for index, count in zip(indices, counts.tolist(), strict=True):
        if index.size != count * (depth + 1) * _INDEX_WORD:
            raise CorruptFileError(f"a repetition index of {index.size} bytes for {count} chunks")
    entries: npt.NDArray[np.uint64] = np.frombuffer(b"".join(indices), dtype="<u8").reshape(-1, depth + 1)
    if int(entries[:, 0].max()) > max(lengths):
        raise CorruptFileError("the repetition index has more rows than the page")
    ended = join_lengths(entries[:, 0].astype(np.int64))
    firsts = np.cumsum(counts) - counts
    if bool((np.add.reduceat(np.diff(ended), firsts) != lengths).any()):
        raise CorruptFileError("the rows of the repetition index do not match those of the page")
    begun = ended.copy()
    begun[1:] += entries[:, 1] > 0
    # Rows never continue in the next page.
    begun[firsts] = ended[firsts]
    return RowIndex(begun, ended)


def choose_chunks(head: Head, leaf: LeafType, rows: RowSelection, length: int) -> Integers:
    """Return numbers of the chunks that some rows need, ascending.

    Args:
        head: Of one page.
        leaf: What its column holds.
        rows: Which rows.
        length: Rows of the page.
    """
    if (rows.numbers is None and rows.count == length) or (leaf.is_repeated and head.rows is None):
        return np.arange(len(head))
    if head.rows is not None:
        firsts, lasts = find_chunks(head.rows, rows)
    else:
        slots = rows.spread(leaf.span)
        ends = np.array([slots.start, slots.stop - 1]) if slots.numbers is None else slots.numbers
        found = np.searchsorted(head.firsts, ends, side="right") - 1
        if slots.numbers is not None:
            return found[np.flatnonzero(np.diff(found, prepend=-1))]
        return np.arange(found[0], found[1] + 1)
    if rows.numbers is None:
        return np.arange(firsts[0], lasts[-1])
    return cover_chunks(firsts, lasts, len(head))


def cover_chunks(firsts: Integers, lasts: Integers, count: int) -> Integers:
    """Return numbers of the chunks that rows need, ascending.

    Args:
        firsts: The first chunk of each row.
        lasts: The end of its chunks.
        count: Of all chunks.
    """
    # One more for each row that needs a chunk, one less behind the last chunk that it needs.
    steps = np.bincount(firsts, minlength=count + 1) - np.bincount(lasts, minlength=count + 1)
    return np.flatnonzero(np.cumsum(steps[:-1]))


def find_chunks(index: RowIndex, rows: RowSelection) -> tuple[Integers, Integers]:
    """The first chunk and the end of the chunks of each row; of a range, of its first and its last row."""
    wanted = np.array([rows.start, rows.stop - 1]) if rows.numbers is None else rows.numbers
    firsts = np.searchsorted(index.begun[:-1], wanted, side="right") - 1
    lasts = np.searchsorted(index.ended, wanted + 1, side="left")
    return firsts, np.maximum(lasts, firsts + 1)
