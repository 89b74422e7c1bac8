"""Ranges of rows of a column: small pages that are described alike are decoded together.

What a small page costs is mostly fixed. Appends of few rows leave thousands of them.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

import numpy as np

from lance_ops.encoding.chunks import ChunkBuffer, read_words, split_apart
from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.extents import fetch_extents
from lance_ops.file.fetch import Steps, gather
from lance_ops.file.page_errors import page_errors
from lance_ops.file.page_heads import PageHeads
from lance_ops.file.row_selection import RowSelection
from lance_ops.file.v2_1.columns import LayoutPage, parse_layers
from lance_ops.file.v2_1.compressions import as_bytes, decode_chunk_values, decode_levels
from lance_ops.file.v2_1.mini_block_head import CHUNKS_BUFFER, TABLE_BUFFER, size_bytes_of
from lance_ops.file.v2_1.pages import read_page
from lance_ops.file.v2_1.pieces import Leaf, Piece, build_piece, leaf_array
from lance_ops.pb import encodings21_pb2 as pb

# A word of the table: the bytes of the chunk in units of 8, less one, and its values as a power of two.
_UNIT, _COUNT_BITS = 8, 4
_MAX_COUNT = 1 << 15
# Layouts of more bytes have symbol tables, which no two pages share.
_MAX_LAYOUT = 256
# Larger pages gain nothing, and as views of a mapped file they need no copy.
_SMALL_BYTES = 64 << 10
_PAGES_AT_ONCE = 256

_Part = tuple[LayoutPage, RowSelection]


def read_parts(parts: Sequence[_Part], leaf: Leaf, heads: PageHeads) -> Steps[list[Piece]]:
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
    steps: list[Steps[list[Piece]]] = []
    for likeness, found in groupby(parts, key=lambda part: _likeness(part, leaf)):
        run = list(found)
        if likeness is None or len(run) == 1:
            steps.append(_read_apart(run, leaf, heads))
            continue
        cuts = range(0, len(run), _PAGES_AT_ONCE)
        steps.extend(_read_together(run[first : first + _PAGES_AT_ONCE], leaf, heads) for first in cuts)
    return [piece for pieces in (yield from gather(steps)) for piece in pieces]


def _likeness(part: _Part, leaf: Leaf) -> bytes | None:
    """What pages have in common that can be read together; None of a page that is to be read by itself."""
    page, rows = part
    if leaf.is_repeated or rows.numbers is not None or rows.count != page.length:
        return None
    if page.layout.ByteSize() > _MAX_LAYOUT or len(page.buffers) != CHUNKS_BUFFER + 1:
        return None
    (_, words), (position, size) = page.buffers
    if size > _SMALL_BYTES:
        return None
    likeness, word, num_values = _describe(page.layout.SerializeToString(deterministic=True))
    if word != words or position % _UNIT or num_values != page.length * leaf.span:
        return None
    return likeness


@lru_cache(maxsize=1024)
def _describe(data: bytes) -> tuple[bytes | None, int, int]:
    """What a layout has in common with others, the size of a table of one chunk, and the number of values."""
    layout = pb.PageLayout.FromString(data)
    if layout.WhichOneof("layout") != "mini_block_layout":
        return None, 0, 0
    blocks = layout.mini_block_layout
    count = blocks.num_items
    if blocks.HasField("dictionary") or blocks.HasField("rep_compression") or not 0 < count <= _MAX_COUNT:
        return None, 0, 0
    blocks.ClearField("num_items")
    return layout.SerializeToString(deterministic=True), size_bytes_of(blocks), count


def _read_apart(parts: Sequence[_Part], leaf: Leaf, heads: PageHeads) -> Steps[list[Piece]]:
    return (yield from gather([read_page(page, leaf, rows, heads) for page, rows in parts]))


def _read_together(parts: Sequence[_Part], leaf: Leaf, heads: PageHeads) -> Steps[list[Piece]]:
    pages = [page for page, _ in parts]
    try:
        with page_errors(pages[0]):
            piece = yield from _read_chunks(pages, leaf, parts[0][1].gap)
    except (CorruptFileError, UnsupportedError):
        # Which page it is shows when each is read by itself.
        return (yield from _read_apart(parts, leaf, heads))
    return [piece]


def _read_chunks(pages: Sequence[LayoutPage], leaf: Leaf, gap: int) -> Steps[Piece]:
    """All rows of pages of one chunk each."""
    layout = pages[0].layout.mini_block_layout
    layers = parse_layers(layout.layers)
    leaf.check(layers)
    places = np.array([page.buffers for page in pages], dtype=np.int64)
    starts = places[:, :, 0].reshape(-1)
    data, found = yield from fetch_extents(starts, starts + places[:, :, 1].reshape(-1), gap)
    everything, word = as_bytes(data), size_bytes_of(layout)
    words = read_words(everything, found[TABLE_BUFFER::2], word).astype(np.int64)
    sizes = ((words >> _COUNT_BITS) + 1) * _UNIT
    if bool((sizes > places[:, CHUNKS_BUFFER, 1]).any()):
        raise CorruptFileError("a chunk does not fit into its page")
    chunks = split_apart(
        ChunkBuffer(everything, np.ascontiguousarray(found[CHUNKS_BUFFER::2]), sizes),
        has_rep=False,
        has_def=layout.HasField("def_compression"),
        num_buffers=layout.num_buffers,
        size_bytes=word,
    )
    counts = np.array([page.length for page in pages], dtype=np.int64) * leaf.span
    definition = None
    if chunks.definition is not None:
        if bool((chunks.num_levels != counts).any()):
            raise CorruptFileError("a chunk has not as many levels as its page has values")
        definition = decode_levels(layout.def_compression, chunks.definition, counts)
    values = leaf_array(decode_chunk_values(layout.value_compression, chunks.values, counts), leaf.data_type)
    count = int(counts.sum())
    piece = build_piece(leaf, layers, None, definition, count, values)
    if piece.values.type != leaf.data_type or len(values) != count:
        # Arrow aborts the process when it builds a parent over children of a wrong type.
        raise CorruptFileError(f"pages of {leaf.data_type} hold values of {piece.values.type}")
    return piece
