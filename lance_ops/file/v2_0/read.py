"""Fields of 2.0, read: follows structs and lists down to the columns that hold values."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.bits.bitmap import encode_bitmap
from lance_ops.encoding.values.binary import decode_binary, is_binary_like
from lance_ops.encoding.values.jsonb import decode_jsonb
from lance_ops.encoding.values.lists import decode_list
from lance_ops.encoding.values.values import null_array
from lance_ops.errors import CorruptFileError, UnsupportedTypeError
from lance_ops.file.io.fetch import Request, Steps, gather
from lance_ops.file.io.page_errors import page_errors
from lance_ops.file.io.row_selection import RowSelection, join_extents
from lance_ops.file.layout import ColumnSource
from lance_ops.file.packed_members import pick_members, whole_struct
from lance_ops.file.schema.extension_types import wrap_extension
from lance_ops.file.schema.logical_types import JSON_FILE_TYPE, JSON_TYPE, LIST_TYPES
from lance_ops.file.schema.model import Field
from lance_ops.file.v2_0.arrays import Extents, read_end_offsets, read_rows
from lance_ops.file.v2_0.columns import ArrayColumn, ArrayPage
from lance_ops.file.v2_0.whole_pages import read_parts

# No field has it.
_ITEM_ID = -(1 << 31)

_BLOB_DESCRIPTION = pa.struct([pa.field("position", pa.uint64()), pa.field("size", pa.uint64())])

# A chunk of lists is split after this many items, so that items of any width stay below what 32-bit offsets
# can address.
_MAX_ITEMS_PER_CHUNK = 4 << 20


def read_field(
    source: ColumnSource, field: Field, columns: Mapping[int, int], rows: RowSelection
) -> Steps[list[pa.Array]]:
    """Read rows of a field as arrays that follow each other; see `Layout.read_field`."""
    if not any(node.id in columns for node in field.walk()):
        return [pa.nulls(rows.count, field.arrow_type)] if rows.count else []
    if field.logical_type == "struct":
        chunks = yield from _read_struct(source, field, columns, rows)
    elif field.logical_type in LIST_TYPES:
        chunks = yield from _read_list(source, field, columns, rows)
    elif field.children:
        raise UnsupportedTypeError(
            f"storage version 2.0 has no columns of type {field.logical_type!r}",
            field=field.name,
            path=source.path,
        )
    elif field.logical_type == JSON_TYPE:
        documents = yield from _read_values(_column(source, field, columns), JSON_FILE_TYPE, rows)
        chunks = [decode_jsonb(chunk) for chunk in documents]
    elif _is_text_as_lists(source, field, columns):
        chunks = yield from _read_text(source, field, columns, rows)
    else:
        chunks = yield from _read_values(_column(source, field, columns), field.storage_type, rows)
    data_type = field.arrow_type
    return [wrap_extension(chunk, data_type) for chunk in chunks]


def _column(source: ColumnSource, field: Field, columns: Mapping[int, int]) -> ArrayColumn:
    if field.id not in columns:
        raise CorruptFileError("the file has no column for a field", path=source.path, field=field.name)
    column = source.column(columns[field.id])
    assert isinstance(column, ArrayColumn)
    return column


def _read_values(column: ArrayColumn, data_type: pa.DataType, rows: RowSelection) -> Steps[list[pa.Array]]:
    parts = [(column.pages[number], part) for number, part in column.parts(rows)]
    if column.is_blob and not pa.types.is_struct(data_type):
        return (yield from gather([_read_blobs(page, data_type, part) for page, part in parts]))
    return (yield from read_parts(parts, data_type))


def _is_text_as_lists(source: ColumnSource, field: Field, columns: Mapping[int, int]) -> bool:
    """Return whether strings or bytes are lists of bytes, as up to pylance 0.13."""
    if not is_binary_like(field.storage_type):
        return False
    pages = _column(source, field, columns).pages
    return bool(pages) and pages[0].encoding.HasField("list")


def _read_text(
    source: ColumnSource, field: Field, columns: Mapping[int, int], rows: RowSelection
) -> Steps[list[pa.Array]]:
    """Strings or bytes as lists of bytes, whose items have the next column."""
    below = columns[field.id] + 1
    item = Field(_ITEM_ID, field.id, "item", "uint8", nullable=False)
    lists = Field(field.id, field.parent_id, field.name, "list", field.nullable, children=(item,))
    chunks = yield from _read_list(source, lists, {field.id: columns[field.id], _ITEM_ID: below}, rows)
    return [_text_of(chunk, field.storage_type) for chunk in chunks]


def _text_of(lists: pa.ListArray, data_type: pa.DataType) -> pa.Array:
    data = lists.values
    if data.null_count:
        raise CorruptFileError("a text is a list of bytes, some of which are null")
    validity, ends = lists.buffers()[:2]
    content = data.buffers()[1]
    buffers = [validity, ends, None if content is None else content.slice(data.offset)]
    small = pa.Array.from_buffers(pa.binary(), len(lists), buffers, lists.null_count, lists.offset)
    try:
        return small.cast(data_type)
    except pa.ArrowInvalid as error:
        raise CorruptFileError(f"a text cannot be read: {error}") from error


def _read_struct(
    source: ColumnSource, field: Field, columns: Mapping[int, int], rows: RowSelection
) -> Steps[list[pa.Array]]:
    if field.id in columns:
        header = _column(source, field, columns)
        if any(page.encoding.HasField("packed_struct") for page in header.pages):
            return (yield from _read_packed(source, header, field, rows))
        if rows.stop > header.length:
            raise CorruptFileError(
                f"rows up to {rows.stop} are expected, but the struct has {header.length}",
                path=source.path,
                field=header.where,
            )
    members = list(field.storage_type)
    if not members:
        return [pa.Array.from_buffers(pa.struct([]), rows.count, [None])] if rows.count else []
    children = yield from gather([read_field(source, child, columns, rows) for child in field.children])
    return [pa.StructArray.from_arrays(arrays, fields=members) for arrays in align_chunks(children)]


def _read_packed(
    source: ColumnSource, column: ArrayColumn, field: Field, rows: RowSelection
) -> Steps[list[pa.Array]]:
    whole = whole_struct(source, field)
    chunks = yield from _read_values(column, whole.file_type, rows)
    return [pick_members(chunk, whole, field) for chunk in chunks]


def _read_list(
    source: ColumnSource, field: Field, columns: Mapping[int, int], rows: RowSelection
) -> Steps[list[pa.Array]]:
    column = _column(source, field, columns)
    chunks = yield from gather(
        [_read_list_page(source, field, columns, column, number, part) for number, part in column.parts(rows)]
    )
    return [chunk for part in chunks for chunk in part]


def _read_list_page(
    source: ColumnSource,
    field: Field,
    columns: Mapping[int, int],
    column: ArrayColumn,
    number: int,
    rows: RowSelection,
) -> Steps[list[pa.Array]]:
    page = column.pages[number]
    data_type = field.storage_type
    if not page.encoding.HasField("list"):
        raise CorruptFileError("a page of a list column holds no lists", path=page.path, field=page.where)
    described = page.encoding.list
    with page_errors(page):
        extents = yield from read_end_offsets(
            page, described.offsets, described.null_offset_adjustment, described.num_items, rows
        )
        offsets, validity = extents.offsets, extents.validity
        cuts = _cut_rows(offsets)
    base = column.item_starts[number]
    (child,) = field.children
    items = yield from gather(
        [
            read_field(source, child, columns, _select_items(extents, first, last, rows).moved(base))
            for first, last in cuts
        ]
    )
    item_type = data_type.value_type
    with page_errors(page):
        return [
            decode_list(
                offsets[first : last + 1],
                None if validity is None else validity.slice(first // 8, (last - first + 7) // 8),
                join_chunks(parts, item_type),
                data_type,
            )
            for (first, last), parts in zip(cuts, items, strict=True)
        ]


def _select_items(extents: Extents, first: int, last: int, rows: RowSelection) -> RowSelection:
    starts, stops = extents.starts[first:last], extents.stops[first:last]
    if rows.numbers is None:
        return RowSelection(int(starts[0]), int(stops[-1]))
    return RowSelection.some(join_extents(starts, stops), rows.gap)


def _cut_rows(offsets: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    # Cuts at multiples of 8, because the validity bitmap is sliced at the same rows.
    rows = len(offsets) - 1
    cuts = []
    first = 0
    while first < rows:
        fitting = int(np.searchsorted(offsets, offsets[first] + _MAX_ITEMS_PER_CHUNK, side="right")) - 1
        last = min(max(first + 8, fitting - (fitting - first) % 8), rows)
        cuts.append((first, last))
        first = last
    return cuts


def _read_blobs(page: ArrayPage, data_type: pa.DataType, rows: RowSelection) -> Steps[pa.Array]:
    if not is_binary_like(data_type):
        raise CorruptFileError(
            f"values outside of their page must be binary, got {data_type}", path=page.path
        )
    described = yield from read_rows(page, _BLOB_DESCRIPTION, rows)
    members = [described.field(number) for number in (0, 1)]
    if any(member.null_count for member in members):
        raise CorruptFileError(
            "a value outside of its page has no position", path=page.path, field=page.where
        )
    positions, sizes = (member.to_numpy() for member in members)
    # Without a size, position 0 is the empty value and position 1 is null.
    valid = (sizes > 0) | (positions == 0)
    # One by one first, because the sum wraps around.
    if bool((sizes > page.file_size).any()) or int(sizes.sum()) > page.file_size:
        raise CorruptFileError("values overlap each other", path=page.path, field=page.where)
    requests: list[Request] = [
        (int(position), int(size)) for position, size in zip(positions, sizes, strict=True) if size
    ]
    values = yield requests
    with page_errors(page):
        offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:], dtype=np.int64)
        data = values[0] if len(values) == 1 else pa.py_buffer(b"".join(values))
        validity = None if bool(valid.all()) else encode_bitmap(valid)
        return decode_binary(offsets, validity, data, data_type)


def align_chunks(columns: Sequence[Sequence[pa.Array]]) -> list[list[pa.Array]]:
    """Cut the chunks of several columns at the same rows, without copying.

    Args:
        columns: Chunks of each column; all columns have the same number of rows.

    Returns:
        One list of arrays, one a column, for each common chunk.
    """
    table = pa.Table.from_arrays(
        [pa.chunked_array(chunks) for chunks in columns if chunks],
        names=[str(n) for n, c in enumerate(columns) if c],
    )
    if table.num_columns and table.num_columns != len(columns):
        raise CorruptFileError("the members of a struct do not have the same number of rows")
    return [batch.columns for batch in table.to_batches()]


def join_chunks(chunks: Sequence[pa.Array], data_type: pa.DataType) -> pa.Array:
    """Join chunks into one array, copied only if there are several."""
    if len(chunks) == 1:
        return chunks[0]
    if not chunks:
        return null_array(data_type, 0)
    return pa.concat_arrays(chunks)
