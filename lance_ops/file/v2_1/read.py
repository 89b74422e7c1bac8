"""Reading fields of 2.1 and 2.2: decodes the columns below a field and joins them along the schema."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_ops.encoding.binary import is_large
from lance_ops.encoding.end_offsets import narrow_offsets
from lance_ops.encoding.levels import Nest
from lance_ops.errors import CorruptFileError, UnsupportedTypeError
from lance_ops.file.blob_fields import DESCRIPTOR, is_blob_v2
from lance_ops.file.extension_types import wrap_extension
from lance_ops.file.fetch import Steps, gather
from lance_ops.file.layout import ColumnSource
from lance_ops.file.logical_types import LIST_TYPES
from lance_ops.file.page_errors import page_errors
from lance_ops.file.page_heads import PageHeads
from lance_ops.file.row_selection import RowSelection
from lance_ops.file.schema import Field
from lance_ops.file.v2_1.blob_v2 import read_blobs_v2
from lance_ops.file.v2_1.columns import LayoutColumn, LayoutPage, is_leaf
from lance_ops.file.v2_1.pages import read_descriptors, read_page
from lance_ops.file.v2_1.pieces import Leaf, Piece

_FIXED_SIZE_STRUCTS = "fixed_size_list:struct:"


@dataclass(frozen=True, slots=True)
class _Stored:
    """A column below a field.

    Attributes:
        field: The field that has the column.
        column: The column.
        leaf: What it holds.
    """

    field: Field
    column: LayoutColumn
    leaf: Leaf


def read_field(
    source: ColumnSource, field: Field, columns: Mapping[int, int], rows: RowSelection
) -> Steps[list[pa.Array]]:
    """Read rows of a field as arrays that follow each other; see `Layout.read_field`."""
    stored = _find_columns(source, field, columns, (), ())
    if not stored:
        return [pa.nulls(rows.count, field.arrow_type)] if rows.count else []
    pieces = yield from gather([_read_column(one, rows, source.heads) for one in stored])
    arrays = []
    for row in _align(stored, pieces, source.path):
        found = {one.field.id: piece for one, piece in zip(stored, row, strict=True)}
        array = _build(field, found, 0, row[0].length, source.path)
        arrays.append(wrap_extension(array, field.arrow_type))
    return arrays


def _find_columns(
    source: ColumnSource,
    field: Field,
    columns: Mapping[int, int],
    lists: tuple[bool, ...],
    items: tuple[int, ...],
) -> list[_Stored]:
    if is_leaf(field):
        if field.id not in columns:
            return []
        column = source.column(columns[field.id])
        assert isinstance(column, LayoutColumn)
        data_type = DESCRIPTOR if is_blob_v2(field) else field.storage_type
        leaf = Leaf(data_type, (*lists, False), (*items, 1))
        return [_Stored(field, column.in_rows(leaf.span), leaf)]
    if field.id in columns:
        raise CorruptFileError(
            "a field that holds no values has a column", path=source.path, field=field.name
        )
    is_list = field.logical_type in LIST_TYPES or field.logical_type == "map"
    width = 1
    if field.logical_type.startswith(_FIXED_SIZE_STRUCTS):
        width = int(field.storage_type.list_size)
    elif not is_list and field.logical_type != "struct":
        raise UnsupportedTypeError(
            f"storage versions 2.1 and 2.2 have no columns of type {field.logical_type!r}",
            field=field.name,
            path=source.path,
        )
    return [
        found
        for child in field.children
        for found in _find_columns(source, child, columns, (*lists, is_list), (*items, width))
    ]


def _read_column(stored: _Stored, rows: RowSelection, heads: PageHeads) -> Steps[list[Piece]]:
    read = _read_blobs if is_blob_v2(stored.field) else _read_values
    parts = stored.column.parts(rows)
    return (yield from gather([read(stored, page, part, heads) for page, part in parts]))


def _read_values(stored: _Stored, page: LayoutPage, rows: RowSelection, heads: PageHeads) -> Steps[Piece]:
    return (yield from read_page(page, stored.leaf, rows, heads))


def _read_blobs(stored: _Stored, page: LayoutPage, rows: RowSelection, heads: PageHeads) -> Steps[Piece]:
    piece = yield from read_descriptors(page, stored.leaf, rows, heads)
    with page_errors(page):
        data_type = stored.field.storage_type
        values = yield from read_blobs_v2(piece.values, data_type, page.file_size)
        return Piece(piece.nests, values)


def _align(stored: Sequence[_Stored], pieces: Sequence[Sequence[Piece]], path: str) -> list[list[Piece]]:
    """Cut the pieces of all columns at the same rows."""
    if len(stored) == 1:
        return [[piece] for piece in pieces[0]]
    ends = [np.cumsum([piece.length for piece in column], dtype=np.int64) for column in pieces]
    if len({int(column[-1]) if len(column) else 0 for column in ends}) > 1:
        raise CorruptFileError("the columns of a struct do not have the same number of rows", path=path)
    cuts = np.unique(np.concatenate(ends)).tolist()
    rows: list[list[Piece]] = []
    first = 0
    for last in cuts:
        row = []
        for one, column, column_ends in zip(stored, pieces, ends, strict=True):
            number = int(np.searchsorted(column_ends, first, side="right"))
            begin = int(column_ends[number]) - column[number].length
            row.append(column[number].slice(first - begin, last - begin, one.leaf.items))
        rows.append(row)
        first = last
    return rows


def _build(field: Field, found: Mapping[int, Piece], depth: int, length: int, path: str) -> pa.Array:
    if is_leaf(field):
        if field.id not in found:
            return pa.nulls(length, field.storage_type)
        return found[field.id].values
    below = [found[node.id] for node in field.walk() if node.id in found]
    if not below:
        return pa.nulls(length, field.storage_type)
    data_type = field.storage_type
    nest = below[0].nests[depth]
    if nest.length != length:
        raise CorruptFileError(
            f"{nest.length} values where {length} are expected", path=path, field=field.name
        )
    validity = nest.validity
    null_count = 0 if validity is None else -1
    if nest.offsets is None:
        width = data_type.list_size if pa.types.is_fixed_size_list(data_type) else 1
        children = [
            wrap_extension(_build(child, found, depth + 1, length * width, path), child.arrow_type)
            for child in field.children
        ]
        return pa.Array.from_buffers(data_type, length, [validity], null_count=null_count, children=children)
    for other in below[1:]:
        if not _same_lists(nest, other.nests[depth]):
            raise CorruptFileError(
                "the members of a list of structs are not of the same length", path=path, field=field.name
            )
    offsets = nest.offsets
    (child,) = field.children
    items = wrap_extension(
        _build(child, found, depth + 1, int(offsets[-1] - offsets[0]), path), child.arrow_type
    )
    buffers = [validity, narrow_offsets(offsets, large=is_large(data_type))]
    return pa.Array.from_buffers(data_type, length, buffers, null_count=null_count, children=[items])


def _same_lists(one: Nest, other: Nest) -> bool:
    if one.offsets is None or other.offsets is None or len(one.offsets) != len(other.offsets):
        return False
    return bool((one.offsets == other.offsets).all())
