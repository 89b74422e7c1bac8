"""Page reading: rows of a page of any layout."""

from collections.abc import Sequence

from lance_ops.encoding.bits.bitmap import apply_validity
from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.io.fetch import Steps
from lance_ops.file.io.page_errors import page_errors
from lance_ops.file.io.page_heads import PageHeads
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.v2_1.blob.read import DESCRIPTION, read_blobs
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType
from lance_ops.file.v2_1.columns import LayoutPage
from lance_ops.file.v2_1.constant.read import read_constant
from lance_ops.file.v2_1.full_zip.read import read_full_zip
from lance_ops.file.v2_1.mini_block.read import read_mini_block
from lance_ops.file.v2_1.sparse.read import read_sparse
from lance_ops.pb import encodings21_pb2 as pb

# No page of a sane file has more rows than Arrow's 32-bit offsets can count.
_MAX_LENGTH = 2**31 - 1


def read_page(page: LayoutPage, leaf: LeafType, rows: RowSelection, heads: PageHeads) -> Steps[ColumnRows]:
    """Read rows of a page.

    Args:
        page: The page.
        leaf: What its column holds.
        rows: Which rows within the page.
        heads: Of the open file.

    Raises:
        CorruptFileError: The bytes do not match the layouts.
        UnsupportedError: A layout or compression that is not implemented, which is named.
    """
    with page_errors(page):
        if rows.count > _MAX_LENGTH:
            raise UnsupportedError(
                f"a page of {rows.count} rows is too large", hint="read fewer rows at once"
            )
        if page.sparse is not None:
            piece = yield from read_sparse(page, page.sparse, leaf, rows, heads)
        else:
            piece = yield from _read(page, page.layout, leaf, rows, heads)
        if piece.values.type != leaf.data_type or piece.length != rows.count:
            # Arrow aborts the process when it builds a parent over children of a wrong type.
            raise CorruptFileError(f"a page of {leaf.data_type} holds values of {piece.values.type}")
        return piece


def read_descriptors(
    page: LayoutPage, leaf: LeafType, rows: RowSelection, heads: PageHeads
) -> Steps[ColumnRows]:
    """Read rows of a page of blob descriptors; see `read_page`.

    Some writers of 2.2 list a layer for the parts of the descriptors, which are never null, below that of the
    descriptors themselves.
    """
    if len(layout_layers(page.layout)) != len(leaf.lists) + 1:
        return (yield from read_page(page, leaf, rows, heads))
    deeper = LeafType(leaf.data_type, (*leaf.lists, False), (*leaf.items, 1))
    piece = yield from read_page(page, deeper, rows, heads)
    *outer, own, parts = piece.nests
    if parts.validity is not None:
        raise CorruptFileError("the parts of a blob's description are null", path=page.path, field=page.where)
    values = piece.values if own.validity is None else apply_validity(piece.values, own.validity)
    return ColumnRows((*outer, own), values)


def layout_layers(layout: pb.PageLayout) -> "Sequence[pb.RepDefLayer.ValueType]":
    """Return the layers of a page, from the innermost outwards; none for an unknown layout."""
    kind = layout.WhichOneof("layout")
    return getattr(getattr(layout, kind), "layers", ()) if kind else ()


def _read(
    page: LayoutPage, layout: pb.PageLayout, leaf: LeafType, rows: RowSelection, heads: PageHeads
) -> Steps[ColumnRows]:
    kind = layout.WhichOneof("layout")
    if kind == "mini_block_layout":
        return (yield from read_mini_block(page, layout.mini_block_layout, leaf, rows, heads))
    if kind == "full_zip_layout":
        return (yield from read_full_zip(page, layout.full_zip_layout, leaf, rows))
    if kind == "constant_layout":
        return (yield from read_constant(page, layout.constant_layout, leaf, rows))
    if kind == "blob_layout":
        inner = layout.blob_layout.inner_layout
        if inner.WhichOneof("layout") == "blob_layout":
            raise CorruptFileError("a blob page within a blob page")
        if leaf.is_repeated:
            raise UnsupportedError("blobs within lists are not supported in storage version 2.1")
        description = LeafType(DESCRIPTION, lists=(False,), items=(1,))
        described = yield from _read(page, inner, description, rows, heads)
        return (yield from read_blobs(page, layout.blob_layout, leaf, described))
    raise UnsupportedError(f"the page layout {kind!r} is not supported")
