"""Mini-block head: where the chunks of a page are, which rows they have, and its dictionary.

Every read of the page needs it, so that readers keep it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.chunks import ChunkTable, decode_chunk_table
from lance_ops.encoding.pages.levels import Layer
from lance_ops.encoding.values.values import to_arrow
from lance_ops.errors import CorruptFileError
from lance_ops.file.io.fetch import Steps
from lance_ops.file.io.row_selection import Integers, RowSelection
from lance_ops.file.v2_1.column_rows import LeafType
from lance_ops.file.v2_1.columns import LayoutPage, parse_layers
from lance_ops.file.v2_1.compression.decode import as_bytes, decode_block
from lance_ops.file.v2_1.mini_block.pick import Picker, plan_picker
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


@dataclass(frozen=True, slots=True)
class Head:
    """What every read of a page needs.

    Attributes:
        layers: From the innermost outwards.
        table: Where the chunks are.
        items: The dictionary of the page, None without one.
        rows: Of pages with lists, None for those that do not have it.
        picker: Reads single values, None where chunks have to be decoded.
    """

    layers: list[Layer]
    table: ChunkTable
    items: pa.Array | None
    rows: RowIndex | None
    picker: Picker | None

    @property
    def size(self) -> int:
        """About the bytes it takes."""
        arrays = 32 * len(self.table.starts) + (32 * len(self.table.starts) if self.rows else 0)
        return 512 + arrays + (self.items.nbytes if self.items is not None else 0)


def wants_few(count: int, length: int) -> bool:
    """Whether single values are picked from chunks rather than chunks decoded: less than one row in eight.

    Args:
        count: Of the wanted rows.
        length: Rows of the page.
    """
    return count <= _FEW_ROWS or count * _SPARSE < length


def size_bytes_of(layout: pb.MiniBlockLayout) -> int:
    """Bytes of a chunk's word in the table, and of the size of a value buffer."""
    return 4 if layout.has_large_chunk else 2


def read_head(page: LayoutPage, layout: pb.MiniBlockLayout, leaf: LeafType) -> Steps[Head]:
    """Read the head of a page.

    Args:
        page: The page.
        layout: Of the page.
        leaf: What its column holds.

    Raises:
        CorruptFileError: Its parts do not belong together.
    """
    layers = parse_layers(layout.layers)
    leaf.check(layers)
    described = [page.buffer(TABLE_BUFFER)]
    has_dictionary = layout.HasField("dictionary")
    if has_dictionary:
        described.append(page.buffer(DICTIONARY_BUFFER))
    has_index = leaf.is_repeated and layout.repetition_index_depth > 0
    if has_index:
        described.append(page.buffer(len(page.buffers) - 1))
    fetched = yield described
    table = decode_chunk_table(
        as_bytes(fetched[0]),
        word_bytes=size_bytes_of(layout),
        num_values=layout.num_items,
        size=page.buffer(CHUNKS_BUFFER)[1],
    )
    if not leaf.is_repeated and layout.num_items != page.length * leaf.span:
        raise CorruptFileError(f"a page of {page.length} rows has {layout.num_items} values")
    items = decode_dictionary(layout, fetched[1], leaf.data_type) if has_dictionary else None
    rows = None
    if has_index:
        rows = _decode_index(as_bytes(fetched[-1]), layout.repetition_index_depth, len(table), page.length)
    return Head(layers, table, items, rows, plan_picker(layout))


def decode_dictionary(layout: pb.MiniBlockLayout, data: pa.Buffer, data_type: pa.DataType) -> pa.Array:
    """Decode the dictionary of a page, for a column of a type."""
    if layout.num_dictionary_items >= 2**31:
        raise CorruptFileError(f"a dictionary of {layout.num_dictionary_items} entries")
    items = decode_block(layout.dictionary, as_bytes(data), layout.num_dictionary_items)
    item_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    return to_arrow(items, item_type)


def _decode_index(index: npt.NDArray[np.uint8], depth: int, num_chunks: int, length: int) -> RowIndex:
    # For each chunk: the rows that end in it, and what follows the start of the last row that does not.
    if len(index) != num_chunks * (depth + 1) * _INDEX_WORD:
        raise CorruptFileError(f"a repetition index of {len(index)} bytes for {num_chunks} chunks")
    entries = np.frombuffer(index.tobytes(), dtype="<u8").reshape(num_chunks, depth + 1)
    if int(entries[:, 0].max()) > length:
        raise CorruptFileError("the repetition index has more rows than the page")
    ended = np.concatenate([[0], np.cumsum(entries[:, 0].astype(np.int64))])
    if int(ended[-1]) != length:
        raise CorruptFileError(f"the repetition index has {int(ended[-1])} rows, the page {length}")
    begun = ended.copy()
    begun[1:] += entries[:, 1] > 0
    return RowIndex(begun, ended)


def choose_chunks(head: Head, leaf: LeafType, rows: RowSelection, length: int) -> Integers:
    """Numbers of the chunks that some rows need, ascending.

    Args:
        head: Of the page.
        leaf: What its column holds.
        rows: Which rows.
        length: Rows of the page.
    """
    table = head.table
    if (rows.numbers is None and rows.count == length) or (leaf.is_repeated and head.rows is None):
        return np.arange(len(table))
    if head.rows is not None:
        firsts, lasts = find_chunks(head.rows, rows)
    else:
        slots = rows.spread(leaf.span)
        ends = np.array([slots.start, slots.stop - 1]) if slots.numbers is None else slots.numbers
        found = np.searchsorted(table.first_values, ends, side="right") - 1
        if slots.numbers is not None:
            return found[np.flatnonzero(np.diff(found, prepend=-1))]
        return np.arange(found[0], found[1] + 1)
    if rows.numbers is None:
        return np.arange(firsts[0], lasts[-1])
    return cover_chunks(firsts, lasts, len(table))


def cover_chunks(firsts: Integers, lasts: Integers, count: int) -> Integers:
    """Numbers of the chunks that rows need, ascending.

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
