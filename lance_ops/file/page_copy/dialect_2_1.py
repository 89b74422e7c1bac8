"""Pages of 2.1 and 2.2: one column a leaf; a page holds whole rows, whatever they hold."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from lance_ops.encoding.levels import Layer
from lance_ops.errors import UnsupportedError
from lance_ops.file.container import Encoding
from lance_ops.file.page_copy.constant import keep_constant
from lance_ops.file.page_copy.dialect import NewPage, ReadPart
from lance_ops.file.page_copy.full_zip import entry_format, keep_full_zip
from lance_ops.file.page_copy.merge_2_1 import merge_pages
from lance_ops.file.page_copy.mini_block import keep_mini_block
from lance_ops.file.page_copy.obstacles import assigned_columns, parse_layout
from lance_ops.file.page_copy.plan import Shape
from lance_ops.file.page_copy.rechunk import CannotRechunk
from lance_ops.file.page_copy.removed import Removed
from lance_ops.file.page_copy.source import OpenSource
from lance_ops.file.schema import Field
from lance_ops.file.v2_1.columns import PAGE_LAYOUT_URL, is_leaf, parse_layers
from lance_ops.file.v2_1.compressed import EncodedPage
from lance_ops.file.v2_1.projection import leaf_paths
from lance_ops.file.v2_1.steady_layers import steady_layers
from lance_ops.pb import encodings21_pb2 as pb

_FIXED_SIZE_STRUCTS = "fixed_size_list:struct:"


class Dialect21:
    """See `Dialect` for the methods."""

    def find_lengths(self, source: OpenSource) -> list[int | None]:
        """Every column has as many values for each row, lists not counted."""
        return [source.num_rows * span for span in column_spans(source)]

    def find_removed(self, source: OpenSource) -> list[Removed]:
        """Rows go from every column; below fixed-size lists of structs a row is several values."""
        spans = column_spans(source)
        return [source.removed.spread(spans[column]) for column in range(len(source.columns))]

    def is_header(self, source: OpenSource, column: int) -> bool:
        """Structs have no columns."""
        del source, column
        return False

    def steady_layers(self, source: OpenSource) -> list[tuple[bool, ...]]:
        """Structs above lists; see `lance_ops.file.v2_1.steady_layers`."""
        columns = assigned_columns(source)
        found: list[tuple[bool, ...]] = [()] * len(source.columns)
        for top in source.schema.fields:
            for path in leaf_paths(top):
                found[columns[path.leaf.id]] = steady_layers(path.fields)
        return found

    def shape(self, encoding: Encoding) -> Shape:
        """Plain rows are full-zip values of fixed width, with the levels of each in front of it."""
        return _shape(encoding.type_url, encoding.value)

    def resize(self, encoding: Encoding, length: int) -> Encoding:
        """Count the entries anew."""
        layout = pb.PageLayout()
        layout.CopyFrom(parse_layout(encoding))
        layout.full_zip_layout.num_items = length
        layout.full_zip_layout.num_visible_items = length
        return describe_page(layout)

    def keep(self, page: ReadPart) -> list[NewPage]:
        """Drop rows from a page without decoding it, where that is possible."""
        assert page.keep is not None
        layout = parse_layout(page.part.page.encoding, page.where, page.path)
        buffers = list(page.buffers)
        version = page.source.version.name
        kind = layout.WhichOneof("layout")
        try:
            if kind == "mini_block_layout":
                kept = keep_mini_block(layout.mini_block_layout, buffers, page.keep, version)
            elif kind == "full_zip_layout":
                changed, parts = keep_full_zip(layout.full_zip_layout, buffers, page.keep)
                kept = EncodedPage(pb.PageLayout(full_zip_layout=changed), parts, page.part.kept)
            elif kind == "constant_layout":
                kept = keep_constant(layout.constant_layout, buffers, page.keep, version)
            else:
                raise UnsupportedError(f"the page layout {kind!r} is not supported")
        except CannotRechunk:
            return self.merge([page])
        return [NewPage(describe_page(kept.layout), kept.buffers, page.part.kept)]

    def merge(self, pages: Sequence[ReadPart]) -> list[NewPage]:
        """Decode pages and write their rows anew."""
        return merge_pages(pages)


def describe_page(layout: pb.PageLayout) -> Encoding:
    """The description of a page."""
    return Encoding(PAGE_LAYOUT_URL, layout.SerializeToString(deterministic=True))


@lru_cache(maxsize=256)
def _shape(type_url: str, value: bytes) -> Shape:
    layout = parse_layout(Encoding(type_url, value))
    return replace(_find_shape(layout), nullable=tuple(layer.nullable for layer in _layers(layout)))


def _layers(layout: pb.PageLayout) -> list[Layer]:
    kind = layout.WhichOneof("layout")
    if kind == "full_zip_layout":
        return parse_layers(layout.full_zip_layout.layers)
    if kind == "mini_block_layout":
        return parse_layers(layout.mini_block_layout.layers)
    return parse_layers(layout.constant_layout.layers) if kind == "constant_layout" else []


def _find_shape(layout: pb.PageLayout) -> Shape:
    kind = layout.WhichOneof("layout")
    if kind == "full_zip_layout":
        width = entry_format(layout.full_zip_layout).stride
        if width:
            same = pb.PageLayout()
            same.CopyFrom(layout)
            same.full_zip_layout.ClearField("num_items")
            same.full_zip_layout.ClearField("num_visible_items")
            return Shape(key=same.SerializeToString(deterministic=True), row_bytes=width)
        return Shape(has_symbols=_has_symbols(layout.full_zip_layout.value_compression))
    if kind == "mini_block_layout":
        return Shape(has_symbols=_has_symbols(layout.mini_block_layout.value_compression))
    return Shape(can_merge=kind == "constant_layout", repeats=True)


def _has_symbols(encoding: pb.CompressiveEncoding) -> bool:
    while encoding.WhichOneof("compression") == "general":
        encoding = encoding.general.values
    return bool(encoding.WhichOneof("compression") == "fsst")


def column_spans(source: OpenSource) -> list[int]:
    """Values of a row in each physical column, lists not counted."""
    columns = assigned_columns(source)
    spans = [1] * len(source.columns)

    def visit(field: Field, span: int) -> None:
        if is_leaf(field):
            spans[columns[field.id]] = span
            return
        if field.logical_type.startswith(_FIXED_SIZE_STRUCTS):
            span *= int(np.int64(field.storage_type.list_size))
        for child in field.children:
            visit(child, span)

    for field in source.schema.fields:
        visit(field, 1)
    return spans
