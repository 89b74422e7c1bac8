"""Mini-block heads of several pages, decoded at once: what is counted goes on from page to page.

Pages of lists hold so few rows that the fixed cost of a page, not its bytes, is what single rows cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.pages.chunk_tables import decode_chunk_tables
from lance_ops.encoding.pages.levels import Layer
from lance_ops.errors import CorruptFileError
from lance_ops.file.io.fetch import Steps
from lance_ops.file.io.row_selection import Integers, join_lengths
from lance_ops.file.v2_1.column_rows import LeafType
from lance_ops.file.v2_1.columns import LayoutPage, parse_layers
from lance_ops.file.v2_1.mini_block.head import (
    CHUNKS_BUFFER,
    DICTIONARY_BUFFER,
    TABLE_BUFFER,
    RowIndex,
    decode_dictionary,
    size_bytes_of,
)
from lance_ops.file.v2_1.mini_block.pick import Picker
from lance_ops.pb import encodings21_pb2 as pb

_INDEX_WORD = 8


@dataclass(frozen=True, slots=True, eq=False)
class RunHead:
    """What every read of single rows of some pages needs.

    Attributes:
        layers: From the innermost outwards.
        picker: Reads single values.
        starts: First byte of each chunk in the file.
        stops: End of each.
        firsts: Number of the first value of each.
        rows: In which chunks rows begin and end, of pages with lists.
        first_rows: Number of the first row of each page, with the number of all.
        first_values: Number of the first value of each page, with the number of all.
        items: The dictionary of each page; none without.
    """

    layers: list[Layer]
    picker: Picker
    starts: Integers
    stops: Integers
    firsts: Integers
    rows: RowIndex | None
    first_rows: Integers
    first_values: Integers
    items: tuple[pa.Array, ...]

    @property
    def size(self) -> int:
        """About the bytes it takes."""
        arrays = (self.starts, self.stops, self.firsts, self.first_rows, self.first_values)
        index = 2 * self.starts.nbytes if self.rows is not None else 0
        own = sum(array.nbytes for array in arrays)
        return 512 + own + index + sum(int(items.nbytes) for items in self.items)


def read_run_head(
    pages: Sequence[LayoutPage], layouts: Sequence[pb.MiniBlockLayout], leaf: LeafType, picker: Picker
) -> Steps[RunHead]:
    """Read the heads of pages that differ in nothing but their numbers and dictionaries.

    Args:
        pages: In the order of their rows, at least one.
        layouts: Of each.
        leaf: What their column holds.
        picker: Of all of them.

    Raises:
        CorruptFileError: The parts of a page do not belong together.
    """
    layout = layouts[0]
    layers = parse_layers(layout.layers)
    leaf.check(layers)
    tables = [page.buffer(TABLE_BUFFER) for page in pages]
    indices = [page.buffer(len(page.buffers) - 1) for page in pages] if leaf.is_repeated else []
    dictionaries = [page.buffer(DICTIONARY_BUFFER) for page in pages] if layout.HasField("dictionary") else []
    fetched = yield tables + indices + dictionaries
    lengths = [page.length for page in pages]
    sizes = np.array([size for _, size in tables], dtype=np.int64)
    places = np.array([page.buffer(CHUNKS_BUFFER) for page in pages], dtype=np.int64)
    num_values = np.array([one.num_items for one in layouts], dtype=np.int64)
    counts, starts, chunk_sizes, values = decode_chunk_tables(
        np.frombuffer(b"".join(fetched[: len(pages)]), dtype=np.uint8),
        sizes,
        word_bytes=size_bytes_of(layout),
        num_values=num_values,
        room=places[:, 1],
    )
    starts += np.repeat(places[:, 0], counts)
    rows = None
    if leaf.is_repeated:
        found = fetched[len(pages) : 2 * len(pages)]
        rows = _decode_indices(found, layout.repetition_index_depth, counts, lengths)
    elif any(one.num_items != length * leaf.span for one, length in zip(layouts, lengths, strict=True)):
        raise CorruptFileError("a page has not as many values as its rows need")
    items = tuple(
        decode_dictionary(one, data, leaf.data_type)
        for one, data in zip(layouts, fetched[len(tables) + len(indices) :], strict=False)
    )
    return RunHead(
        layers,
        picker,
        starts,
        starts + chunk_sizes,
        np.cumsum(values) - values,
        rows,
        join_lengths(np.array(lengths, dtype=np.int64)),
        join_lengths(num_values),
        items,
    )


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
        raise CorruptFileError("the repetition index has not as many rows as the page")
    begun = ended.copy()
    begun[1:] += entries[:, 1] > 0
    # No row goes on in the next page.
    begun[firsts] = ended[firsts]
    return RowIndex(begun, ended)
