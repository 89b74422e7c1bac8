"""Physical columns of 2.1 and 2.2, and the descriptions of their pages.

Only fields that hold values have a column, in depth-first order: structs, lists and maps are levels of the
fields below them. A packed struct and a blob have one column each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from google.protobuf.message import DecodeError

from lance_ops.cache import IdentityCache
from lance_ops.encoding.pages.levels import Layer
from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.container.read import Column, Encoding
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.layout import SPARSE
from lance_ops.file.schema.blob_fields import is_blob_v2
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.schema.packing import is_packed
from lance_ops.file.v2_1.planar import PLANAR_LAYOUT_URL, ParsedLayout, parse_planar
from lance_ops.pb import encodings21_pb2 as pb
from lance_ops.pb import encodings23_pb2 as pb23

PAGE_LAYOUT_URL = "/lance.encodings21.PageLayout"
COLUMN_ENCODING_URL = "/lance.encodings.ColumnEncoding"

# Of rows with one value each; see `sparse_from`.
_SPARSE_VALUES = 8

# Bounds what is kept of layouts: those that have a table of symbols are parsed each time.
_SMALL_LAYOUT = 512

# Deeper than any schema that is accepted: a crafted description must not cost more than that.
_MAX_LAYERS = 130

_LAYERS = {
    pb.REPDEF_ALL_VALID_ITEM: Layer(is_list=False),
    pb.REPDEF_ALL_VALID_LIST: Layer(is_list=True),
    pb.REPDEF_NULLABLE_ITEM: Layer(is_list=False, nullable=True),
    pb.REPDEF_NULLABLE_LIST: Layer(is_list=True, nullable=True),
    pb.REPDEF_EMPTYABLE_LIST: Layer(is_list=True, emptyable=True),
    pb.REPDEF_NULL_AND_EMPTY_LIST: Layer(is_list=True, nullable=True, emptyable=True),
}
_LAYER_CODES = {layer: code for code, layer in _LAYERS.items()}


@dataclass(frozen=True, slots=True)
class LayoutPage:
    """One page.

    Attributes:
        path: The file, for errors.
        where: Column and page, for errors.
        start: Number of its first row within the column.
        length: Rows.
        buffers: Position and size in bytes of each buffer.
        layout: Layout of the buffers; empty for sparse structure.
        file_size: In bytes, the bound of everything in the page.
        sparse: Description of a page with sparse structure.
    """

    path: str
    where: str
    start: int
    length: int
    buffers: tuple[tuple[int, int], ...]
    layout: pb.PageLayout
    file_size: int
    sparse: pb23.PlanarLayout | None = None

    def buffer(self, index: int) -> tuple[int, int]:
        """Position and size of a buffer."""
        if not 0 <= index < len(self.buffers):
            raise CorruptFileError(f"a page refers to buffer {index} of {len(self.buffers)}")
        return self.buffers[index]


@dataclass(frozen=True, slots=True)
class LayoutColumn:
    """One physical column.

    Attributes:
        path: The file, for errors.
        where: The column, for errors.
        pages: In the order of their rows.
        starts: First row of each page.
        length: Rows of all pages.
    """

    path: str
    where: str
    pages: tuple[LayoutPage, ...]
    starts: tuple[int, ...]
    length: int

    def in_rows(self, span: int) -> "LayoutColumn":
        """Return the column with its pages counted in rows.

        Below fixed-size lists of structs, pages are counted in structs.

        Args:
            span: Structs of a row.

        Raises:
            CorruptFileError: A page ends within a row.
        """
        if span == 1:
            return self
        for page in self.pages:
            if page.length % span:
                raise CorruptFileError(
                    f"{page.length} values do not make rows of {span}", path=page.path, field=page.where
                )
        pages = tuple(
            replace(page, start=page.start // span, length=page.length // span) for page in self.pages
        )
        starts = tuple(page.start for page in pages)
        return replace(self, pages=pages, starts=starts, length=self.length // span)

    def check_rows(self, rows: RowSelection) -> None:
        """Check that the column has some rows.

        Raises:
            CorruptFileError: It ends earlier.
        """
        if rows.stop > self.length:
            raise CorruptFileError(
                f"rows up to {rows.stop} are expected, but the column has {self.length}",
                path=self.path,
                field=self.where,
            )

    def parts(self, rows: RowSelection) -> Iterator[tuple[LayoutPage, RowSelection]]:
        """Yield each page that has some of the rows, and which of its rows they are.

        Raises:
            CorruptFileError: The column ends earlier.
        """
        self.check_rows(rows)
        for number, part in rows.split(self.starts, self.length):
            yield self.pages[number], part


def parse_column(
    column: Column, index: int, path: str, file_size: int, url: str = PAGE_LAYOUT_URL
) -> LayoutColumn:
    """Parse the descriptions of a column's pages.

    Args:
        column: The column.
        index: Its number, for errors.
        path: The file, for errors.
        file_size: In bytes.
        url: Type of the descriptions.

    Raises:
        CorruptFileError: A message is unreadable.
        UnsupportedError: A message is of another type.
    """
    where = f"column {index}"
    if column.encoding.type_url not in ("", COLUMN_ENCODING_URL):
        raise UnsupportedError(f"a column is encoded as {column.encoding.type_url!r}", path=path, field=where)
    pages = []
    starts = []
    start = 0
    for number, page in enumerate(column.pages):
        own = f"{where}, page {number}"
        parsed = _parse_layout(page.encoding, url, own, path)
        pages.append(
            LayoutPage(path, own, start, page.length, page.buffers, parsed.layout, file_size, parsed.sparse)
        )
        starts.append(start)
        start += page.length
    return LayoutColumn(path, where, tuple(pages), tuple(starts), start)


def join_columns(
    columns: Sequence[LayoutColumn], paths: Sequence[str], moves: Sequence[int]
) -> LayoutColumn | None:
    """Return the columns of several files as one, whose pages follow each other.

    Args:
        columns: At least one; files that describe theirs by the same bytes may share one.
        paths: Of the files.
        moves: How much further back the bytes of each file lie where all files are one.

    Returns:
        The column; None where values lie anywhere in the file.
    """
    pages = []
    start = 0
    for column, path, move in zip(columns, paths, moves, strict=True):
        for page in column.pages:
            if page.layout.WhichOneof("layout") == "blob_layout":
                return None
            buffers = tuple([(position + move, size) for position, size in page.buffers])
            pages.append(
                LayoutPage(
                    path, page.where, start, page.length, buffers, page.layout, page.file_size, page.sparse
                )
            )
            start += page.length
    starts = tuple([page.start for page in pages])
    return LayoutColumn(paths[0], columns[0].where, tuple(pages), starts, start)


def parse_layers(codes: "Sequence[pb.RepDefLayer.ValueType]") -> list[Layer]:
    """Return the layers of a page, from the innermost outwards.

    Raises:
        UnsupportedError: A layer of an unknown kind.
    """
    if len(codes) > _MAX_LAYERS:
        raise CorruptFileError(f"a page with {len(codes)} layers")
    layers = []
    for code in codes:
        layer = _LAYERS.get(code)
        if layer is None:
            raise UnsupportedError(f"a layer of kind {code} is not supported")
        layers.append(layer)
    return layers


def layer_codes(layers: Sequence[Layer]) -> "list[pb.RepDefLayer.ValueType]":
    """Return the layers of a page for its description; the inverse of `parse_layers`."""
    return [_LAYER_CODES[layer] for layer in layers]


def column_bytes(column: LayoutColumn) -> int:
    """Estimate what reading a whole column takes in memory."""
    return sum(_decoded_bytes(page) for page in column.pages)


def sparse_from(column: LayoutColumn) -> int:
    """Return the selectivity below which reading single rows is faster than a whole range.

    Large values are stored individually, so reading single ones is always as fast.
    """
    kinds = {page.layout.WhichOneof("layout") for page in column.pages}
    if kinds <= {"full_zip_layout"}:
        return 1
    return SPARSE if any(_has_lists(page) for page in column.pages) else _SPARSE_VALUES


def _has_lists(page: LayoutPage) -> bool:
    if page.sparse is not None:
        return any(layer.HasField("list") for layer in page.sparse.structure.sparse.layers)
    kind = page.layout.WhichOneof("layout")
    codes = getattr(getattr(page.layout, kind), "layers", ()) if kind else ()
    return any(code in _LAYERS and _LAYERS[code].is_list for code in codes)


def _decoded_bytes(page: LayoutPage) -> int:
    stored = sum(size for _, size in page.buffers)
    if page.sparse is not None:
        return stored + _sparse_bytes(page, page.sparse)
    kind = page.layout.WhichOneof("layout")
    if kind == "blob_layout":
        # The values may be anywhere in the file.
        return page.file_size
    if kind == "constant_layout":
        return stored + _constant_bytes(page, page.layout.constant_layout)
    if kind != "mini_block_layout":
        return stored
    layout = page.layout.mini_block_layout
    return stored + _chunk_bytes(page, layout, layout.value_compression, layout.num_items)


def _chunk_bytes(
    page: LayoutPage,
    layout: pb.MiniBlockLayout | pb23.ChunkedValues,
    values: pb.CompressiveEncoding,
    count: int,
) -> int:
    """Estimate the memory of values in chunks beyond their bytes."""
    if layout.num_dictionary_items:
        dictionary = page.buffers[2][1] if len(page.buffers) > 2 else 0
        return count * 4 * dictionary // layout.num_dictionary_items
    stored = sum(size for _, size in page.buffers)
    return max(stored * (_expansion(values) - 1), count * 4 - stored, 0)


def _sparse_bytes(page: LayoutPage, planar: pb23.PlanarLayout) -> int:
    """Estimate the memory of values with sparse structure beyond their bytes."""
    slots = page.length
    for layer in planar.structure.sparse.layers:
        if layer.HasField("list"):
            slots = layer.list.num_child_slots
    values = planar.values
    if values.HasField("chunked"):
        return _chunk_bytes(page, values.chunked, values.chunked.compression, slots)
    return slots * (len(values.constant.value) + 1)


def _constant_bytes(page: LayoutPage, layout: pb.ConstantLayout) -> int:
    # One value, inline or in a buffer before those of the levels, and two levels an entry.
    value, levels = len(layout.inline_value), sum(size for _, size in page.buffers)
    if not value and len(page.buffers) in (1, 3):
        value = page.buffers[0][1]
        levels -= value
    entries = max(page.length, layout.num_rep_values, layout.num_def_values, levels // 4)
    return entries * (min(value, 1 << 16) + (4 if levels else 0))


def _expansion(encoding: pb.CompressiveEncoding) -> int:
    kind = encoding.WhichOneof("compression")
    return {"fsst": 3, "general": 4, "rle": 8, "inline_bitpacking": 4}.get(kind or "", 1)


def is_leaf(field: Field) -> bool:
    """Return whether a field has a column of its own."""
    return not field.children or is_packed(field) or is_blob_v2(field)


def stored_fields(field: Field) -> Iterator[Field]:
    """Yield the fields that have a physical column of their own, depth first."""
    if is_leaf(field):
        yield field
    else:
        for child in field.children:
            yield from stored_fields(child)


def assign_columns(schema: Schema) -> dict[int, int]:
    """Physical column of each field id in a new file."""
    return dict(_assigned(schema))


def _assign(schema: Schema) -> dict[int, int]:
    stored = (node for top in schema.fields for node in stored_fields(top))
    return {node.id: column for column, node in enumerate(stored)}


_assigned = IdentityCache("column numbers", _assign, 16)


def _parse_layout(encoding: Encoding, url: str, where: str, path: str) -> ParsedLayout:
    if encoding.type_url != url:
        raise UnsupportedError(f"a page is encoded as {encoding.type_url!r}", path=path, field=where)
    try:
        if url == PLANAR_LAYOUT_URL:
            return parse_planar(encoding.value)
        parse = _parse_recurring if len(encoding.value) <= _SMALL_LAYOUT else pb.PageLayout.FromString
        return ParsedLayout(parse(encoding.value))
    except DecodeError as error:
        raise CorruptFileError(f"unreadable page layout: {error}", path=path, field=where) from error
    except (CorruptFileError, UnsupportedError) as error:
        raise type(error)(error.message, path=path, field=where, hint=error.hint) from error


@lru_cache(maxsize=1024)
def _parse_recurring(data: bytes) -> pb.PageLayout:
    # Most small pages of a table have equal layouts. The layout of a page that was read is never changed.
    return pb.PageLayout.FromString(data)
