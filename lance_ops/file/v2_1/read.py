"""Reading fields of 2.1 and 2.2: finds the columns below a field, decodes them, and has them joined."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_ops.encoding.values.jsonb import decode_jsonb
from lance_ops.errors import CorruptFileError, UnsupportedError, UnsupportedTypeError
from lance_ops.file.io.fetch import Steps, gather
from lance_ops.file.io.page_errors import page_errors
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.layout import ColumnSource
from lance_ops.file.packed_members import pick_members, whole_struct
from lance_ops.file.schema.blob_fields import DESCRIPTOR, is_blob_v2, is_descriptors
from lance_ops.file.schema.extension_types import wrap_extension
from lance_ops.file.schema.logical_types import JSON_TYPE, LIST_TYPES
from lance_ops.file.schema.model import Field
from lance_ops.file.schema.packing import is_packed
from lance_ops.file.v2_1.blob.read_v2 import read_blobs_v2
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType
from lance_ops.file.v2_1.columns import LayoutColumn, LayoutPage, is_leaf
from lance_ops.file.v2_1.join import align_pieces, join_pieces
from lance_ops.file.v2_1.read_alike import LEAST_COLUMNS, AlikeColumns, find_alike, read_alike
from lance_ops.file.v2_1.read_batch import read_parts
from lance_ops.file.v2_1.read_page import read_descriptors, read_page
from lance_ops.file.v2_1.take_column import take_rows

_FIXED_SIZE_STRUCTS = "fixed_size_list:struct:"


_FIELD_BYTES = 512
"""About what is kept of a field, besides its columns."""


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
    leaf: LeafType


@dataclass(frozen=True, slots=True)
class _Fields:
    """A field as an open file has it.

    Attributes:
        field: The field, which is kept, so that no other one gets its identity.
        columns: Physical column of each field id, kept likewise.
        stored: The columns below it.
        arrow_type: Of its values.
    """

    field: Field
    columns: Mapping[int, int]
    stored: tuple[_Stored, ...]
    arrow_type: pa.DataType


def read_field(
    source: ColumnSource, field: Field, columns: Mapping[int, int], rows: RowSelection
) -> Steps[list[pa.Array]]:
    """Read rows of a field as arrays that follow each other; see `Layout.read_field`."""
    # Repeated reads of some rows are likely.
    known = _find_field(source, field, columns, keep=rows.numbers is not None or rows.start > 0)
    return (yield from _read_known(source, known, rows))


def read_fields(
    source: ColumnSource, fields: Sequence[Field], columns: Mapping[int, int], rows: RowSelection
) -> Steps[list[list[pa.Array]]]:
    """Read rows of several fields; see `Layout.read_fields`."""
    keep = rows.numbers is not None or rows.start > 0
    known = [_find_field(source, field, columns, keep=keep) for field in fields]
    plain = [
        (number, one.stored[0].column, one.stored[0].leaf)
        for number, one in enumerate(known)
        if len(one.stored) == 1 and one.stored[0].field is one.field and _is_plain(one.field)
    ]
    groups = list(find_alike(plain, rows)) if len(plain) >= LEAST_COLUMNS and rows.count else []
    together = {number for alike in groups for number in alike.numbers}
    alone = [number for number in range(len(fields)) if number not in together]
    steps: list[Steps[list[list[pa.Array]]]] = [
        _read_alike(source, [known[number] for number in alike.numbers], alike, rows) for alike in groups
    ]
    steps += [_read_one(source, known[number], rows) for number in alone]
    found = yield from gather(steps)
    numbers = [*(alike.numbers for alike in groups), *((number,) for number in alone)]
    arrays: dict[int, list[pa.Array]] = {}
    for some, own in zip(numbers, found, strict=True):
        arrays.update(zip(some, own, strict=True))
    return [arrays[number] for number in range(len(fields))]


def _is_plain(field: Field) -> bool:
    """Return whether the values of a column are those of its field."""
    return not (
        is_blob_v2(field) or is_descriptors(field) or field.logical_type == JSON_TYPE or is_packed(field)
    )


def _read_one(source: ColumnSource, known: _Fields, rows: RowSelection) -> Steps[list[list[pa.Array]]]:
    return [(yield from _read_known(source, known, rows))]


def _read_alike(
    source: ColumnSource, known: Sequence[_Fields], alike: AlikeColumns, rows: RowSelection
) -> Steps[list[list[pa.Array]]]:
    try:
        pieces = yield from read_alike(alike, rows, source.heads)
    except (CorruptFileError, UnsupportedError):
        # Column by column, the error names its page.
        return (yield from gather([_read_known(source, one, rows) for one in known]))
    return [
        [wrap_extension(piece.values, one.arrow_type) for piece in own]
        for one, own in zip(known, pieces, strict=True)
    ]


def _read_known(source: ColumnSource, known: _Fields, rows: RowSelection) -> Steps[list[pa.Array]]:
    field = known.field
    stored, arrow_type = known.stored, known.arrow_type
    if not stored:
        return [pa.nulls(rows.count, arrow_type)] if rows.count else []
    if len(stored) == 1 and stored[0].field is field:
        # Nothing has to be joined.
        own = yield from _read_column(source, stored[0], rows)
        return [wrap_extension(piece.values, arrow_type) for piece in own]
    pieces = yield from gather([_read_column(source, one, rows) for one in stored])
    arrays = []
    for row in align_pieces([one.leaf for one in stored], pieces, source.path):
        found = {one.field.id: piece for one, piece in zip(stored, row, strict=True)}
        array = join_pieces(field, found, row[0].length, source.path)
        arrays.append(wrap_extension(array, arrow_type))
    return arrays


def _find_field(source: ColumnSource, field: Field, columns: Mapping[int, int], *, keep: bool) -> _Fields:
    """Return the columns below a field; kept where few rows are read, of which it is a large part."""
    key = id(field), id(columns)
    known: _Fields | None = source.heads.get(key) if keep else None
    if known is None or known.field is not field or known.columns is not columns:
        stored = _find_columns(source, field, columns, (), ())
        known = _Fields(field, columns, tuple(stored), field.arrow_type)
        if keep:
            size = _FIELD_BYTES + sum(_FIELD_BYTES * (1 + len(one.column.pages)) for one in stored)
            source.heads.put(key, known, size)
    return known


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
        if is_blob_v2(field) or is_descriptors(field):
            data_type = DESCRIPTOR
        elif is_packed(field):
            data_type = whole_struct(source, field).file_type
        else:
            data_type = field.file_type
        leaf = LeafType(data_type, (*lists, False), (*items, 1))
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


def _read_column(source: ColumnSource, stored: _Stored, rows: RowSelection) -> Steps[list[ColumnRows]]:
    heads = source.heads
    if is_blob_v2(stored.field):
        read = _read_blobs
    elif is_descriptors(stored.field):
        read = _read_descriptors
    elif stored.field.logical_type == JSON_TYPE:
        read = _read_json
    elif is_packed(stored.field):
        read = _read_members
    elif rows.numbers is None or len(stored.column.pages) == 1:
        return (yield from read_parts(list(stored.column.parts(rows)), stored.leaf, heads))
    else:
        return (yield from take_rows(stored.column, stored.leaf, rows, heads))
    parts = stored.column.parts(rows)
    return (yield from gather([read(source, stored, page, part) for page, part in parts]))


def _read_members(
    source: ColumnSource, stored: _Stored, page: LayoutPage, rows: RowSelection
) -> Steps[ColumnRows]:
    piece = yield from read_page(page, stored.leaf, rows, source.heads)
    with page_errors(page):
        return ColumnRows(
            piece.nests, pick_members(piece.values, whole_struct(source, stored.field), stored.field)
        )


def _read_json(
    source: ColumnSource, stored: _Stored, page: LayoutPage, rows: RowSelection
) -> Steps[ColumnRows]:
    piece = yield from read_page(page, stored.leaf, rows, source.heads)
    with page_errors(page):
        return ColumnRows(piece.nests, decode_jsonb(piece.values, piece.hidden))


def _read_blobs(
    source: ColumnSource, stored: _Stored, page: LayoutPage, rows: RowSelection
) -> Steps[ColumnRows]:
    piece = yield from read_descriptors(page, stored.leaf, rows, source.heads)
    with page_errors(page):
        data_type = stored.field.storage_type
        values = yield from read_blobs_v2(piece.values, data_type, page.file_size, source.base_uris)
        return ColumnRows(piece.nests, values)


def _read_descriptors(
    source: ColumnSource, stored: _Stored, page: LayoutPage, rows: RowSelection
) -> Steps[ColumnRows]:
    return (yield from read_descriptors(page, stored.leaf, rows, source.heads))
