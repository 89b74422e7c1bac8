"""Reading rows of a page of any layout."""

from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.fetch import Steps
from lance_ops.file.page_errors import page_errors
from lance_ops.file.page_heads import PageHeads
from lance_ops.file.row_selection import RowSelection
from lance_ops.file.v2_1.blob import DESCRIPTION, read_blobs
from lance_ops.file.v2_1.columns import LayoutPage
from lance_ops.file.v2_1.constant import read_constant
from lance_ops.file.v2_1.full_zip import read_full_zip
from lance_ops.file.v2_1.mini_block import read_mini_block
from lance_ops.file.v2_1.pieces import Leaf, Piece
from lance_ops.pb import encodings21_pb2 as pb

# No page of a sane file has more rows than Arrow's 32-bit offsets can count.
_MAX_LENGTH = 2**31 - 1


def read_page(page: LayoutPage, leaf: Leaf, rows: RowSelection, heads: PageHeads) -> Steps[Piece]:
    """Read rows of a page.

    Args:
        page: The page.
        leaf: What its column holds.
        rows: Which rows within the page.
        heads: Of the open file.

    Raises:
        CorruptFileError: The bytes are not what the layout says.
        UnsupportedError: A layout or compression that is not implemented, which is named.
    """
    with page_errors(page):
        if rows.count > _MAX_LENGTH:
            raise UnsupportedError(
                f"a page of {rows.count} rows is too large", hint="read fewer rows at once"
            )
        piece = yield from _read(page, page.layout, leaf, rows, heads)
        if piece.values.type != leaf.data_type or piece.length != rows.count:
            # Arrow aborts the process when it builds a parent over children of a wrong type.
            raise CorruptFileError(f"a page of {leaf.data_type} holds values of {piece.values.type}")
        return piece


def _read(
    page: LayoutPage, layout: pb.PageLayout, leaf: Leaf, rows: RowSelection, heads: PageHeads
) -> Steps[Piece]:
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
        description = Leaf(DESCRIPTION, lists=(False,), items=(1,))
        described = yield from _read(page, inner, description, rows, heads)
        return (yield from read_blobs(page, layout.blob_layout, leaf, described))
    raise UnsupportedError(f"the page layout {kind!r} is not supported")
