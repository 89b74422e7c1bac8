"""Dialect of 2.1 and 2.2: one column a leaf; a page has complete rows."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from lance_ops.errors import UnsupportedError
from lance_ops.file.container.read import Encoding
from lance_ops.file.page_copy.constant import keep_constant
from lance_ops.file.page_copy.dialect import NewPage, ReadPart
from lance_ops.file.page_copy.full_zip import entry_format, keep_full_zip
from lance_ops.file.page_copy.merge_2_1 import merge_pages
from lance_ops.file.page_copy.mini_block import keep_mini_block, keep_plain_strings
from lance_ops.file.page_copy.obstacles import (
    SameSchema,
    assign_to_schema,
    assigned_columns,
    parse_layout,
)
from lance_ops.file.page_copy.plan import Shape
from lance_ops.file.page_copy.rechunk import CannotRechunk
from lance_ops.file.page_copy.removed import Removed
from lance_ops.file.page_copy.rules import DEFAULT_RULE
from lance_ops.file.page_copy.runs import has_symbols
from lance_ops.file.page_copy.source import OpenSource
from lance_ops.file.schema.model import Field
from lance_ops.file.v2_1.columns import PAGE_LAYOUT_URL, is_leaf, parse_layers
from lance_ops.file.v2_1.compression.encoded import EncodedPage
from lance_ops.file.v2_1.leaves import leaf_paths
from lance_ops.file.v2_1.peer_workarounds import always_nullable_layers, is_misread
from lance_ops.file.versions import StorageVersion
from lance_ops.pb import encodings21_pb2 as pb

# Descriptions are equal from page to page unless they have a symbol table.
_RECURRING_BYTES = 256
_FIXED_SIZE_STRUCTS = "fixed_size_list:struct:"


class Dialect21:
    """See `Dialect` for the methods."""

    def find_lengths(self, source: OpenSource) -> list[int | None]:
        """Return row counts; every column has as many values for each row, not counting lists."""
        return [source.num_rows * span for span in column_spans(source)]

    def find_removed(self, source: OpenSource) -> list[Removed]:
        """Return the deleted rows of every column; within fixed-size lists, several values a row."""
        spans = column_spans(source)
        return [source.removed.spread(spans[column]) for column in range(len(source.columns))]

    def is_header(self, source: OpenSource, column: int) -> bool:
        """Return False: structs have no columns."""
        del source, column
        return False

    def always_nullable_layers(self, source: OpenSource) -> list[tuple[bool, ...]]:
        """Structs above lists; see `lance_ops.file.v2_1.peer_workarounds`."""
        columns = assigned_columns(source)
        found: list[tuple[bool, ...]] = [()] * len(source.columns)
        for top in source.schema.fields:
            for path in leaf_paths(top):
                found[columns[path.leaf.id]] = always_nullable_layers(path.fields)
        return found

    def shape(self, encoding: Encoding) -> Shape:
        """Return the shape; plain rows are full-zip values of fixed width, each after its levels."""
        if encoding.type_url == PAGE_LAYOUT_URL and len(encoding.value) <= _RECURRING_BYTES:
            return _shape(encoding.value)
        return _find_shape(parse_layout(encoding))

    def resize(self, encoding: Encoding, length: int) -> Encoding:
        """Recompute the number of entries."""
        layout = pb.PageLayout()
        layout.CopyFrom(parse_layout(encoding))
        layout.full_zip_layout.num_items = length
        layout.full_zip_layout.num_visible_items = length
        return describe_page(layout)

    def keep(self, page: ReadPart) -> list[NewPage]:
        """Drop rows from a page without decoding it, if possible."""
        assert page.gone is not None
        layout = parse_layout(page.part.page.encoding, page.where, page.path)
        buffers = list(page.buffers)
        version = page.source.version.name
        kind = layout.WhichOneof("layout")
        if kind == "mini_block_layout" and layout.mini_block_layout.num_items == page.part.page.length:
            found = keep_plain_strings(layout.mini_block_layout, page.buffers, page.gone, version)
            if found is not None:
                return [NewPage(describe_page(found.layout), found.buffers, page.part.kept)]
        keep = page.keep
        assert keep is not None
        try:
            if kind == "mini_block_layout":
                kept = keep_mini_block(layout.mini_block_layout, buffers, keep, version)
            elif kind == "full_zip_layout":
                changed, parts = keep_full_zip(layout.full_zip_layout, buffers, keep)
                kept = EncodedPage(pb.PageLayout(full_zip_layout=changed), parts, page.part.kept)
            elif kind == "constant_layout":
                kept = keep_constant(layout.constant_layout, buffers, keep, version)
            else:
                raise UnsupportedError(f"the page layout {kind!r} is not supported")
        except CannotRechunk:
            return self.merge([page])
        return [NewPage(describe_page(kept.layout), kept.buffers, page.part.kept)]

    def merge(self, pages: Sequence[ReadPart]) -> list[NewPage]:
        """Decode pages and encode their rows again."""
        return merge_pages(pages, self.keep, largest=DEFAULT_RULE.small_text_bytes)


def describe_page(layout: pb.PageLayout) -> Encoding:
    """Serialise the description of a page."""
    return Encoding(PAGE_LAYOUT_URL, layout.SerializeToString(deterministic=True))


@lru_cache(maxsize=256)
def _shape(value: bytes) -> Shape:
    return _find_shape(parse_layout(Encoding(PAGE_LAYOUT_URL, value)))


def _find_shape(layout: pb.PageLayout) -> Shape:
    kind = layout.WhichOneof("layout")
    if kind == "mini_block_layout":
        mini_block = layout.mini_block_layout
        recodes = has_symbols(mini_block) and not mini_block.HasField("rep_compression")
        symbols = _has_symbols(mini_block.value_compression)
        return _mini_block_shape(symbols, recodes, *mini_block.layers)
    if kind == "full_zip_layout":
        full_zip = layout.full_zip_layout
        nullable, misread = _levels(full_zip.layers)
        width = entry_format(full_zip).stride
        if not width:
            symbols = _has_symbols(full_zip.value_compression)
            return Shape(has_symbols=symbols, nullable=nullable, is_misread=misread)
        same = pb.PageLayout()
        same.CopyFrom(layout)
        same.full_zip_layout.ClearField("num_items")
        same.full_zip_layout.ClearField("num_visible_items")
        key = same.SerializeToString(deterministic=True)
        return Shape(key=key, row_bytes=width, nullable=nullable, is_misread=misread)
    if kind == "constant_layout":
        nullable, misread = _levels(layout.constant_layout.layers)
        return Shape(repeats=True, nullable=nullable, is_misread=misread)
    return Shape(can_merge=False, repeats=True)


@lru_cache(maxsize=256)
def _mini_block_shape(symbols: bool, recodes: bool, *layers: "pb.RepDefLayer.ValueType") -> Shape:
    nullable, misread = _levels(layers)
    return Shape(has_symbols=symbols, recodes=recodes, nullable=nullable, is_misread=misread)


def _levels(codes: "Sequence[pb.RepDefLayer.ValueType]") -> tuple[tuple[bool, ...], bool]:
    """Return which layers can be null, and whether pylance misreads them."""
    layers = parse_layers(codes)
    return tuple(layer.nullable for layer in layers), is_misread(layers)


def _has_symbols(encoding: pb.CompressiveEncoding) -> bool:
    while encoding.WhichOneof("compression") == "general":
        encoding = encoding.general.values
    return bool(encoding.WhichOneof("compression") == "fsst")


def column_spans(source: OpenSource) -> Sequence[int]:
    """Return the values per row of each physical column, not counting lists."""
    return _find_spans(source.version, SameSchema(source.schema))


@lru_cache(maxsize=16)
def _find_spans(version: StorageVersion, same: SameSchema) -> Sequence[int]:
    columns = assign_to_schema(version, same)
    spans = [1] * len(columns)

    def visit(field: Field, span: int) -> None:
        if is_leaf(field):
            spans[columns[field.id]] = span
            return
        if field.logical_type.startswith(_FIXED_SIZE_STRUCTS):
            span *= int(np.int64(field.storage_type.list_size))
        for child in field.children:
            visit(child, span)

    for field in same.schema.fields:
        visit(field, 1)
    return tuple(spans)
