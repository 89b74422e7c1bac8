"""Page merge of 2.1 and 2.2: decode pages and encode their rows as one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import groupby

import numpy as np
import pyarrow as pa

from lance_ops.encoding.pages.ravel import ravel
from lance_ops.errors import CorruptFileError
from lance_ops.file.container.read import Encoding
from lance_ops.file.io.fetch import run
from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.io.pending_rows import join_rows, split_rows
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.page_copy.dialect import NewPage, ReadPart
from lance_ops.file.page_copy.merge_strings import merge_strings
from lance_ops.file.page_copy.obstacles import assigned_columns, parse_layout
from lance_ops.file.page_copy.runs import alike, decode_run, has_symbols
from lance_ops.file.schema.logical_types import LIST_TYPES
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType
from lance_ops.file.v2_1.columns import PAGE_LAYOUT_URL, LayoutPage
from lance_ops.file.v2_1.compression.encoded import EncodedPage
from lance_ops.file.v2_1.encode_page import LeafColumn, encode_page
from lance_ops.file.v2_1.leaves import LeafPath, leaf_paths, weigh
from lance_ops.file.v2_1.options import FieldOptions
from lance_ops.file.v2_1.peer_workarounds import declare_layers
from lance_ops.file.v2_1.read_page import read_page
from lance_ops.file.v2_1.self_check import check_page
from lance_ops.pb import encodings21_pb2 as pb

_PAGE_BYTES = 8 << 20
_DICTIONARY_DIVISOR = 8
_MAX_DICTIONARY = 1 << 16
_FIXED_SIZE_STRUCTS = "fixed_size_list:struct:"


def merge_pages(
    pages: Sequence[ReadPart], keep: Callable[[ReadPart], list[NewPage]], *, largest: int
) -> list[NewPage]:
    """Encode the rows of several pages of one column again.

    Args:
        pages: In the order of their rows.
        keep: Drops rows from a page without other changes.
        largest: Bytes above which strings without a common symbol table are unchanged, because compressing
            them again would take longer than reading their pages.

    Returns:
        One page, or several consecutive ones.

    Raises:
        CorruptFileError: The bytes do not match the layouts.
        UnsupportedError: A layout or compression that is not implemented.
    """
    path = _find_path(pages[0])
    leaf = _leaf(path)
    recodes = not any(leaf.lists) and leaf.span == 1 and not any(pages[0].part.always_nullable)

    def key(page: ReadPart) -> bytes:
        return _symbols_key(page.part.page.encoding.value) if recodes else b""

    written: list[NewPage] = []
    for common, found in groupby(pages, key):
        group = list(found)
        if common and len(group) > 1:
            merged = merge_strings(group, pages[0].source.version.name)
            if merged is not None:
                check_page(merged, merged.num_rows, pages[0].source.version.name, path.name)
                written.append(_new_page(merged, merged.num_rows))
                continue
            for is_large, some in groupby(group, lambda page: page.part.num_bytes >= largest):
                if is_large:
                    written += [new for page in some for new in _leave(page, keep)]
                else:
                    written += _write_anew(list(some), path, leaf)
            continue
        written += _write_anew(group, path, leaf)
    return written


@lru_cache(maxsize=64)
def _symbols_key_of(found: bytes) -> bytes:
    return found if has_symbols(pb.MiniBlockLayout.FromString(found)) else b""


def _symbols_key(description: bytes) -> bytes:
    """Return the common description of string pages with symbol tables; empty for other pages."""
    found = alike(description, in_structs=True)
    return _symbols_key_of(found) if found else b""


def _leave(page: ReadPart, keep: Callable[[ReadPart], list[NewPage]]) -> list[NewPage]:
    old = page.part.page
    return [NewPage(old.encoding, page.buffers, old.length)] if page.gone is None else keep(page)


def _write_anew(pages: Sequence[ReadPart], path: LeafPath, leaf: LeafType) -> list[NewPage]:
    arrays = list(decode_run(pages, leaf, lambda page: _decode(page, leaf)))
    options = FieldOptions.of_field(path.leaf, path.fields[0])
    column = LeafColumn(path.name, path.leaf.storage_type, options, pages[0].source.version.name)
    return [
        page
        for joined in _join(arrays, leaf)
        for piece, _ in split_rows(joined, _PAGE_BYTES, partial(weigh, path=path))
        for page in _encode(
            replace(column, data_type=_stored_type(piece, path)), piece, path, pages[0].part.always_nullable
        )
    ]


def _join(arrays: Sequence[pa.Array], leaf: LeafType) -> Iterator[pa.Array]:
    if leaf.lists != (False,) or pa.types.is_dictionary(leaf.data_type):
        yield from join_rows(arrays)
        return
    for has_dictionary, group in groupby(arrays, lambda array: pa.types.is_dictionary(array.type)):
        for joined in join_rows(list(group)):
            # The dictionaries of all pages together, if a writer would have used one.
            entries = len(joined.dictionary) if has_dictionary else 0
            pays = entries <= min(len(joined) // _DICTIONARY_DIVISOR, _MAX_DICTIONARY)
            yield joined if pays else joined.dictionary_decode()


def _stored_type(array: pa.Array, path: LeafPath) -> pa.DataType:
    # A dictionary of plain values is stored like that of an Arrow dictionary.
    return array.type if pa.types.is_dictionary(array.type) else path.leaf.storage_type


def _encode(
    column: LeafColumn, array: pa.Array, path: LeafPath, always_nullable: Sequence[bool]
) -> Iterator[NewPage]:
    raveled = ravel(array, path.straight)
    raveled = declare_layers(raveled, always_nullable or [False] * len(raveled.layers))
    # Below fixed-size lists of structs, pages are counted in structs.
    span = 1 if raveled.rep is not None else raveled.num_entries // raveled.num_rows
    for page in encode_page(column, raveled):
        check_page(page, page.num_rows * span, column.version, column.name)
        yield _new_page(page, page.num_rows * span)


def _new_page(page: EncodedPage, length: int) -> NewPage:
    encoding = Encoding(PAGE_LAYOUT_URL, page.layout.SerializeToString(deterministic=True))
    return NewPage(encoding, page.buffers, length)


def _find_path(page: ReadPart) -> LeafPath:
    columns = assigned_columns(page.source)
    for top in page.source.schema.fields:
        for path in leaf_paths(top):
            if columns[path.leaf.id] == page.part.column:
                return path
    raise CorruptFileError(
        "no field of the schema has this column", path=page.source.path, field=page.part.where
    )


def _leaf(path: LeafPath) -> LeafType:
    lists, items = [], []
    for field in path.fields[:-1]:
        lists.append(field.logical_type in LIST_TYPES or field.logical_type == "map")
        fixed = field.logical_type.startswith(_FIXED_SIZE_STRUCTS)
        items.append(int(field.storage_type.list_size) if fixed else 1)
    return LeafType(path.leaf.storage_type, (*lists, False), (*items, 1))


def _decode(page: ReadPart, leaf: LeafType) -> pa.Array:
    described = page.part.page
    whole = LayoutPage(
        path=page.source.path,
        where=page.part.where,
        start=0,
        length=described.length // leaf.span,
        buffers=described.buffers,
        layout=parse_layout(described.encoding, page.part.where, page.source.path),
        file_size=page.source.size,
    )
    rows = RowSelection(0, whole.length)
    keep = page.keep
    if keep is not None:
        rows = RowSelection.some(np.flatnonzero(keep[:: leaf.span]))
    piece = run(read_page(whole, leaf, rows, PageHeads()), page.serve)
    return _nested_array(piece, leaf, 0)


def _nested_array(piece: ColumnRows, leaf: LeafType, depth: int) -> pa.Array:
    """Return the rows of a column as an array without siblings at any level."""
    if depth == len(piece.nests) - 1:
        return piece.values
    nest = piece.nests[depth]
    child = _nested_array(piece, leaf, depth + 1)
    validity = nest.validity
    null_count = 0 if validity is None else -1
    if nest.offsets is not None:
        offsets = pa.py_buffer((nest.offsets - nest.offsets[0]).astype(np.int64))
        return pa.Array.from_buffers(
            pa.large_list(child.type),
            nest.length,
            [validity, offsets],
            null_count=null_count,
            children=[child],
        )
    width = leaf.items[depth]
    kind = pa.list_(child.type, width) if width > 1 else pa.struct([pa.field("", child.type)])
    return pa.Array.from_buffers(kind, nest.length, [validity], null_count=null_count, children=[child])
