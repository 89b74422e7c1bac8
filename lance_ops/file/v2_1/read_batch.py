"""Row ranges of a column: small pages with equal descriptions are decoded together.

The cost of a small page is mostly fixed. Small appends create thousands of them, and lists of different
lengths are split into pages by their levels rather than by their bytes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby

import pyarrow as pa

from lance_ops.errors import CorruptFileError, LanceOpsError, UnsupportedError
from lance_ops.file.io.fetch import Steps, gather
from lance_ops.file.io.page_errors import page_errors
from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType
from lance_ops.file.v2_1.columns import LayoutPage
from lance_ops.file.v2_1.compression.decode import has_tables_apart
from lance_ops.file.v2_1.mini_block.head import CHUNKS_BUFFER
from lance_ops.file.v2_1.mini_block.read_whole import is_readable_whole, read_whole_pages
from lance_ops.file.v2_1.read_page import read_page
from lance_ops.pb import encodings21_pb2 as pb

# Layouts of more bytes have something strange in them.
_MAX_LAYOUT = 4096
# Larger pages gain nothing.
_SMALL_BYTES = 1 << 20
_PAGES_AT_ONCE, _BYTES_AT_ONCE, _VALUES_AT_ONCE = 256, 32 << 20, 4 << 20
# Gaps between the parts of adjacent pages: tables of chunks and row indexes.
_GAP = 16 << 10

_Part = tuple[LayoutPage, RowSelection]
_Description = tuple[bytes | None, bool]


def read_parts(parts: Sequence[_Part], leaf: LeafType, heads: PageHeads) -> Steps[list[ColumnRows]]:
    """Read rows of some pages of a column.

    Args:
        parts: Pages that follow each other, each with its own rows.
        leaf: What the column holds.
        heads: Of the open file.

    Returns:
        The rows, in pieces that follow each other.

    Raises:
        CorruptFileError: The bytes do not match the layouts.
        UnsupportedError: A layout or compression that is not implemented, which is named.
    """
    if len(parts) == 1:
        return [(yield from read_page(parts[0][0], leaf, parts[0][1], heads))]
    steps: list[Steps[list[ColumnRows]]] = []
    described: dict[int, _Description] = {}
    for batch_key, found in groupby(parts, key=lambda part: _batch_key(part, leaf, described)):
        run = list(found)
        if batch_key is None:
            steps.append(_read_apart(run, leaf, heads))
        else:
            steps.extend(_read_together(some, leaf, heads) for some in _cut(run))
    return [piece for pieces in (yield from gather(steps)) for piece in pieces]


def page_kind(page: LayoutPage) -> bytes | None:
    """Return the comparable part of the description of a page of mini-blocks; None for any other page."""
    if not is_readable_whole(page) or page.layout.ByteSize() > _MAX_LAYOUT:
        return None
    return _describe(page.layout.SerializeToString(deterministic=True))[0]


def _batch_key(part: _Part, leaf: LeafType, described: dict[int, _Description]) -> bytes | None:
    """Return the key of pages that can be read together; None for a page that must be read separately.

    Args:
        part: The page, and its rows.
        leaf: What the column holds.
        described: By the identity of their layouts, which small pages share, what was found of others.
    """
    page, rows = part
    if rows.numbers is not None or rows.count != page.length:
        return None
    if not is_readable_whole(page) or page.buffers[CHUNKS_BUFFER][1] > _SMALL_BYTES:
        return None
    known = described.get(id(page.layout))
    if known is None:
        known = None, False
        if page.layout.ByteSize() <= _MAX_LAYOUT:
            known = _describe(page.layout.SerializeToString(deterministic=True))
        described[id(page.layout)] = known
    batch_key, has_dictionary = known
    if has_dictionary and pa.types.is_dictionary(leaf.data_type):
        # Their arrays could only be joined under one dictionary.
        return None
    return batch_key


@lru_cache(maxsize=1024)
def _describe(data: bytes) -> _Description:
    """Return the comparable part of a layout, and whether it has a dictionary."""
    layout = pb.PageLayout.FromString(data)
    if layout.WhichOneof("layout") != "mini_block_layout":
        return None, False
    blocks = layout.mini_block_layout
    if not _is_bounded(blocks.value_compression):
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
    """Return whether the memory of values is bounded by their number and their page."""
    is_general = False
    while encoding.WhichOneof("compression") == "general":
        encoding, is_general = encoding.general.values, True
    return not is_general or encoding.WhichOneof("compression") not in ("variable", "fsst")


def _cut(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    """Yield groups of pages with a bounded total memory."""
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
    gap = max(_GAP, parts[0][1].gap)
    try:
        with page_errors(replace(pages[0], where=f"{pages[0].where} to {pages[-1].where}")):
            return (yield from read_whole_pages(pages, leaf, gap))
    except (CorruptFileError, UnsupportedError) as error:
        raise (yield from _find_damage(pages, leaf, gap, error)) from error


def _find_damage(
    pages: Sequence[LayoutPage], leaf: LeafType, gap: int, error: LanceOpsError
) -> Steps[LanceOpsError]:
    """Return the error of the first invalid page; that of the group if each page is valid."""
    for page in pages:
        try:
            with page_errors(page):
                yield from read_whole_pages([page], leaf, gap)
        except (CorruptFileError, UnsupportedError) as found:
            return found
    return error
