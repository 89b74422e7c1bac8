"""Reading fields of 0.1: batch by batch, down through structs and lists to the pages that hold values.

Only strings and byte strings can be null: a nullable one of length zero is, so that the empty value and null
cannot be told apart (format text, "Variable-Length Binary Encoding"). Everything else has lost its nulls when
it was written, and reads as what lay under them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_ops.encoding.binary import decode_binary, is_binary_like, is_large
from lance_ops.encoding.bitmap import encode_bitmap
from lance_ops.encoding.dictionary import decode_dictionary
from lance_ops.encoding.fixed_size_list import decode_fixed_size_list, rebase_nested
from lance_ops.encoding.flat import bit_width, decode_flat
from lance_ops.encoding.jsonb import decode_jsonb
from lance_ops.encoding.lists import decode_list
from lance_ops.errors import CorruptFileError, UnsupportedError, UnsupportedTypeError
from lance_ops.file.extension_types import wrap_extension
from lance_ops.file.extents import fetch_bits, fetch_extents, fetch_fixed, gather_fixed
from lance_ops.file.fetch import Steps, fetch, gather
from lance_ops.file.layout import ColumnSource
from lance_ops.file.logical_types import JSON_FILE_TYPE, JSON_TYPE, LIST_TYPES
from lance_ops.file.page_errors import page_errors
from lance_ops.file.row_selection import Integers, RowSelection, join_extents, join_lengths
from lance_ops.file.schema import Field
from lance_ops.file.v0_1.columns import BatchColumn

# What 32-bit offsets can count; no batch has more rows.
_MAX_LENGTH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Reading:
    """What stays the same while the rows of a field are read."""

    source: ColumnSource
    columns: Mapping[int, int]
    dictionaries: Mapping[int, pa.Array]

    def has_column(self, field: Field) -> bool:
        return any(node.id in self.columns for node in field.walk())

    def column(self, field: Field) -> BatchColumn:
        if field.id not in self.columns:
            raise CorruptFileError(
                "the file has no column for a field", path=self.source.path, field=field.name
            )
        column = self.source.column(self.columns[field.id])
        assert isinstance(column, BatchColumn)
        return column


def read_field(
    source: ColumnSource, field: Field, columns: Mapping[int, int], rows: RowSelection
) -> Steps[list[pa.Array]]:
    """Read rows of a field, one array for each batch that has some; see `Layout.read_field`."""
    present = [node for node in field.walk() if node.id in columns]
    if not present:
        return [pa.nulls(rows.count, field.arrow_type)] if rows.count else []
    coded = [node for node in present if node.logical_type.startswith("dict:")]
    values = yield from gather([_read_dictionary(source, node, columns) for node in coded])
    reading = _Reading(source, columns, {node.id: items for node, items in zip(coded, values, strict=True)})
    batches = reading.column(present[0]).parts(rows)
    return (yield from gather([_read(reading, field, batch, part) for batch, part in batches]))


def _read(reading: _Reading, field: Field, batch: int, rows: RowSelection) -> Steps[pa.Array]:
    """Read values of a field's page in a batch."""
    if not reading.has_column(field):
        return pa.nulls(rows.count, field.arrow_type)
    if field.logical_type == "struct":
        array = yield from _read_struct(reading, field, batch, rows)
    elif field.logical_type in LIST_TYPES:
        array = yield from _read_list(reading, field, batch, rows)
    elif field.children:
        raise UnsupportedTypeError(
            f"storage version 0.1 has no columns of type {field.logical_type!r}",
            field=field.name,
            path=reading.source.path,
        )
    else:
        array = yield from _read_values(reading, field, batch, rows)
    return wrap_extension(array, field.arrow_type)


def _read_struct(reading: _Reading, field: Field, batch: int, rows: RowSelection) -> Steps[pa.Array]:
    members = list(field.storage_type)
    if not members:
        return pa.Array.from_buffers(pa.struct([]), rows.count, [None])
    children = yield from gather([_read(reading, child, batch, rows) for child in field.children])
    return pa.StructArray.from_arrays(children, fields=members)


def _read_list(reading: _Reading, field: Field, batch: int, rows: RowSelection) -> Steps[pa.Array]:
    column = reading.column(field)
    data_type = field.storage_type
    word: np.dtype[np.signedinteger] = np.dtype(np.int64 if is_large(data_type) else np.int32)
    with page_errors(column):
        position = column.page(batch, rows.stop + 1)
        starts, stops = yield from _read_extents(position, word, rows)
        if rows.count and int(starts[0]) < 0:
            raise CorruptFileError("a list starts before the first item")
    if rows.count and rows.numbers is None:
        wanted = RowSelection(int(starts[0]), int(stops[-1]))
    else:
        wanted = RowSelection.some(join_extents(starts, stops), rows.gap)
    (child,) = field.children
    items = yield from _read(reading, child, batch, wanted)
    offsets = join_lengths(stops - starts)
    with page_errors(column):
        return decode_list(offsets, None, items, data_type)


def _read_values(reading: _Reading, field: Field, batch: int, rows: RowSelection) -> Steps[pa.Array]:
    column = reading.column(field)
    is_json = field.logical_type == JSON_TYPE
    data_type = JSON_FILE_TYPE if is_json else field.storage_type
    with page_errors(column):
        position = column.page(batch, rows.stop)
        if pa.types.is_null(data_type):
            return pa.nulls(rows.count)
        if is_binary_like(data_type):
            array = yield from _read_binary(
                position, data_type, rows, column.file_size, nullable=field.nullable
            )
            return decode_jsonb(array) if is_json else array
        if pa.types.is_dictionary(data_type):
            numbers = yield from _read_flat(position, data_type.index_type, rows)
            return decode_dictionary(numbers, reading.dictionaries[field.id], data_type)
        return (yield from _read_flat(position, data_type, rows))


def _read_dictionary(source: ColumnSource, field: Field, columns: Mapping[int, int]) -> Steps[pa.Array]:
    # The table's manifest has the field too, but there the position is one in the manifest's own file.
    stored = source.schema.by_id(field.id)
    if stored is None or stored.dictionary is None:
        raise UnsupportedError(
            "the values of a dictionary column are not in its file", path=source.path, field=field.name
        )
    column = source.column(columns[field.id])
    assert isinstance(column, BatchColumn)
    position, length = stored.dictionary
    if not (0 <= position <= column.file_size and 0 <= length <= 8 * column.file_size):
        raise CorruptFileError(
            f"a dictionary of {length} values at {position} cannot be in a file of {column.file_size} bytes",
            path=source.path,
            field=field.name,
        )
    everything = RowSelection(0, length)
    data_type = field.storage_type.value_type
    with page_errors(column):
        if is_binary_like(data_type):
            return (yield from _read_binary(position, data_type, everything, column.file_size, nullable=True))
        return (yield from _read_flat(position, data_type, everything))


def _read_flat(position: int, data_type: pa.DataType, rows: RowSelection) -> Steps[pa.Array]:
    """Read values of a fixed width, of which the first in the page is at `position`."""
    bits = bit_width(data_type)
    if not bits:
        raise UnsupportedTypeError(f"storage version 0.1 has no columns of type {data_type}")
    if rows.count > _MAX_LENGTH:
        raise UnsupportedError(f"a batch of {rows.count} values is too large")
    if not bits % 8:
        data = yield from fetch_fixed(position, bits // 8, rows)
        return _decode_flat(data, data_type, rows.count)
    if rows.numbers is not None:
        picked = yield from fetch_bits(position, rows.spread(bits))
        return _decode_flat(encode_bitmap(picked), data_type, rows.count)
    # From a multiple of 8 on, so that bitmaps can be viewed where they lie.
    skipped = rows.start % 8
    first = rows.start - skipped
    data = yield from fetch(position + first * bits // 8, ((rows.stop - first) * bits + 7) // 8)
    array = _decode_flat(data, data_type, rows.stop - first)
    return rebase_nested(array.slice(skipped)) if skipped else array


def _decode_flat(data: pa.Buffer, data_type: pa.DataType, length: int) -> pa.Array:
    if not pa.types.is_fixed_size_list(data_type):
        return decode_flat(data, data_type, length)
    items = _decode_flat(data, data_type.value_type, length * data_type.list_size)
    return decode_fixed_size_list(items, data_type)


def _read_binary(
    position: int, data_type: pa.DataType, rows: RowSelection, file_size: int, *, nullable: bool
) -> Steps[pa.Array]:
    """Read strings or byte strings, whose offsets are at `position` and count from the file's start."""
    starts, stops = yield from _read_extents(position, np.dtype(np.int64), rows)
    first, last = int(starts[0]) if len(starts) else 0, int(stops[-1]) if len(stops) else 0
    if not 0 <= first <= last <= file_size:
        raise CorruptFileError(f"bytes {first} to {last} lie outside of the {file_size} that there are")
    validity = None
    if nullable:
        valid = stops > starts
        validity = None if bool(valid.all()) else encode_bitmap(valid)
    offsets = join_lengths(stops - starts)
    if rows.numbers is None:
        data = yield from fetch(first, last - first)
    else:
        whole, found = yield from fetch_extents(starts, stops, rows.gap)
        data = pa.py_buffer(np.frombuffer(whole, np.uint8)[join_extents(found, found + (stops - starts))])
    return decode_binary(offsets, validity, data, data_type)


def _read_extents(
    position: int, word: np.dtype[np.signedinteger], rows: RowSelection
) -> Steps[tuple[Integers, Integers]]:
    """Where values start and stop, from offsets that lie at `position`."""
    width = word.itemsize
    if rows.numbers is None:
        count = rows.count + 1
        data = yield from fetch(position + rows.start * width, count * width)
        offsets = np.frombuffer(data, dtype=word, count=count).astype(np.int64, copy=False)
        starts, stops = offsets[:-1], offsets[1:]
    else:
        at = position + rows.numbers * width
        data, found = yield from fetch_extents(at, at + 2 * width, rows.gap)
        pairs = gather_fixed(np.frombuffer(data, dtype=np.uint8), found, 2 * width)
        offsets = pairs.view(word).astype(np.int64, copy=False)
        starts, stops = offsets[::2], offsets[1::2]
    if bool((offsets[1:] < offsets[:-1]).any()):
        raise CorruptFileError("offsets decrease")
    return starts, stops
