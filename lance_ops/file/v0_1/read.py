"""Fields of 0.1, read batch by batch, down through structs and lists to the pages that hold values.

Only strings and byte strings can be null: a nullable one of length zero is, so that the empty value and null
cannot be distinguished (format text, "Variable-Length Binary Encoding"). Everything else has lost its nulls
when it was written, and reads as what lay under them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_ops.encoding.bits.bitmap import encode_bitmap
from lance_ops.encoding.chunks import ChunkBuffer, copy_parts
from lance_ops.encoding.values.binary import decode_binary, is_binary_like, is_large
from lance_ops.encoding.values.dictionary import decode_dictionary
from lance_ops.encoding.values.fixed_size_list import decode_fixed_size_list
from lance_ops.encoding.values.flat import bit_width, decode_flat
from lance_ops.encoding.values.jsonb import decode_jsonb
from lance_ops.encoding.values.lists import decode_list
from lance_ops.errors import CorruptFileError, UnsupportedError, UnsupportedTypeError
from lance_ops.file.io.extents import fetch_extents, pick_bits
from lance_ops.file.io.fetch import Steps, gather
from lance_ops.file.io.page_errors import page_errors
from lance_ops.file.io.row_selection import Integers, RowSelection, join_extents, join_lengths
from lance_ops.file.layout import ColumnSource
from lance_ops.file.schema.extension_types import wrap_extension
from lance_ops.file.schema.logical_types import JSON_FILE_TYPE, JSON_TYPE, LIST_TYPES
from lance_ops.file.schema.model import Field
from lance_ops.file.v0_1.columns import BatchColumn, Slices, plan_slices

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
    """Read rows of a field; see `Layout.read_field`."""
    present = [node for node in field.walk() if node.id in columns]
    if not present:
        return [pa.nulls(rows.count, field.arrow_type)] if rows.count else []
    coded = [node for node in present if node.logical_type.startswith("dict:")]
    values = yield from gather([_read_dictionary(source, node, columns) for node in coded])
    reading = _Reading(source, columns, {node.id: items for node, items in zip(coded, values, strict=True)})
    groups = plan_slices(reading.column(present[0]), rows)
    return (yield from gather([_read(reading, field, slices) for slices in groups]))


def _read(reading: _Reading, field: Field, slices: Slices) -> Steps[pa.Array]:
    """Read values of a field's pages."""
    if not reading.has_column(field):
        return pa.nulls(slices.count, field.arrow_type)
    if field.logical_type == "struct":
        array = yield from _read_struct(reading, field, slices)
    elif field.logical_type in LIST_TYPES:
        array = yield from _read_list(reading, field, slices)
    elif field.children:
        raise UnsupportedTypeError(
            f"storage version 0.1 has no columns of type {field.logical_type!r}",
            field=field.name,
            path=reading.source.path,
        )
    else:
        array = yield from _read_values(reading, field, slices)
    return wrap_extension(array, field.arrow_type)


def _read_struct(reading: _Reading, field: Field, slices: Slices) -> Steps[pa.Array]:
    members = list(field.storage_type)
    if not members:
        return pa.Array.from_buffers(pa.struct([]), slices.count, [None])
    children = yield from gather([_read(reading, child, slices) for child in field.children])
    return pa.StructArray.from_arrays(children, fields=members)


def _read_list(reading: _Reading, field: Field, slices: Slices) -> Steps[pa.Array]:
    column = reading.column(field)
    data_type = field.storage_type
    word: np.dtype[np.signedinteger] = np.dtype(np.int64 if is_large(data_type) else np.int32)
    with page_errors(column):
        positions = column.pages(slices, more=1)
        offsets = yield from _read_offsets(positions, word, slices, column.file_size)
        if bool((offsets.lows < 0).any()):
            raise CorruptFileError("a list starts before the first item")
    (child,) = field.children
    items = yield from _read(reading, child, slices.below(offsets.lows, offsets.highs))
    with page_errors(column):
        return decode_list(join_lengths(offsets.lengths), None, items, data_type)


def _read_values(reading: _Reading, field: Field, slices: Slices) -> Steps[pa.Array]:
    column = reading.column(field)
    is_json = field.logical_type == JSON_TYPE
    data_type = JSON_FILE_TYPE if is_json else field.storage_type
    with page_errors(column):
        positions, size = column.pages(slices), column.file_size
        if pa.types.is_null(data_type):
            return pa.nulls(slices.count)
        if is_binary_like(data_type):
            array = yield from _read_binary(positions, data_type, slices, size, nullable=field.nullable)
            return decode_jsonb(array) if is_json else array
        if pa.types.is_dictionary(data_type):
            numbers = yield from _read_flat(positions, data_type.index_type, slices, size)
            return decode_dictionary(numbers, reading.dictionaries[field.id], data_type)
        return (yield from _read_flat(positions, data_type, slices, size))


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
    everything, positions = Slices.one(0, length), np.array([position], dtype=np.int64)
    data_type = field.storage_type.value_type
    with page_errors(column):
        if is_binary_like(data_type):
            return (
                yield from _read_binary(positions, data_type, everything, column.file_size, nullable=True)
            )
        return (yield from _read_flat(positions, data_type, everything, column.file_size))


def _read_flat(
    positions: Integers, data_type: pa.DataType, slices: Slices, file_size: int
) -> Steps[pa.Array]:
    """Read values of a fixed width, of which the first of each slice's page is at its position."""
    bits = bit_width(data_type)
    if not bits:
        raise UnsupportedTypeError(f"storage version 0.1 has no columns of type {data_type}")
    _check_numbers(slices, file_size)
    if slices.count > _MAX_LENGTH:
        raise UnsupportedError(f"{slices.count} values are too many", hint="read fewer rows at once")
    if not bits % 8:
        starts = positions + slices.starts * (bits // 8)
        data = yield from _fetch_joined(
            starts, (slices.stops - slices.starts) * (bits // 8), slices, file_size
        )
        return _decode_flat(data, data_type, slices.count)
    # Bits that are no whole bytes do not lie where Arrow wants them.
    first, last = slices.starts * bits, slices.stops * bits
    starts, stops = positions + (first >> 3), positions + ((last + 7) >> 3)
    _check_extents(starts, stops, file_size)
    data, found = yield from fetch_extents(starts, stops, slices.gap)
    if len(starts) == 1 and not int(first[0]) & 7:
        return _decode_flat(data.slice(int(found[0])), data_type, slices.count)
    numbers = join_extents(first, last)
    bytes_ = np.repeat(found - (first >> 3), last - first) + (numbers >> 3)
    picked = pick_bits(np.frombuffer(data, dtype=np.uint8), bytes_, numbers)
    return _decode_flat(encode_bitmap(picked), data_type, slices.count)


def _check_numbers(slices: Slices, file_size: int) -> None:
    # No value takes less than a bit; numbers beyond that could overflow when they become positions.
    if len(slices.stops) and int(slices.stops.max()) > 8 * file_size:
        raise CorruptFileError(f"{int(slices.stops.max())} values cannot be in {file_size} bytes")


def _check_extents(starts: Integers, stops: Integers, file_size: int) -> None:
    # A page may claim any length: nothing is allocated for what cannot be there.
    if len(starts) and (int(starts.min()) < 0 or int(stops.max()) > file_size):
        raise CorruptFileError(
            f"bytes {int(starts.min())} to {int(stops.max())} lie outside of the {file_size} that there are"
        )
    if int((stops - starts).sum()) > file_size + len(starts):
        raise CorruptFileError("values overlap each other")


def _fetch_joined(starts: Integers, sizes: Integers, slices: Slices, file_size: int) -> Steps[pa.Buffer]:
    """Return bytes of extents, in sequence; not copied where they lie like that."""
    _check_extents(starts, starts + sizes, file_size)
    data, found = yield from fetch_extents(starts, starts + sizes, slices.gap)
    if not len(found):
        return data
    if bool((found[1:] == found[:-1] + sizes[:-1]).all()):
        return data.slice(int(found[0]), int(sizes.sum()))
    joined = np.empty(int(sizes.sum()), dtype=np.uint8)
    parts = ChunkBuffer(np.frombuffer(data, dtype=np.uint8), found, sizes)
    copy_parts(parts, joined, np.cumsum(sizes) - sizes)
    return pa.py_buffer(joined)


def _decode_flat(data: pa.Buffer, data_type: pa.DataType, length: int) -> pa.Array:
    if not pa.types.is_fixed_size_list(data_type):
        return decode_flat(data, data_type, length)
    items = _decode_flat(data, data_type.value_type, length * data_type.list_size)
    return decode_fixed_size_list(items, data_type)


def _read_binary(
    positions: Integers, data_type: pa.DataType, slices: Slices, file_size: int, *, nullable: bool
) -> Steps[pa.Array]:
    """Read strings or byte strings, whose offsets are at the positions and count from the file's start."""
    offsets = yield from _read_offsets(positions, np.dtype(np.int64), slices, file_size)
    validity = None
    if nullable:
        valid = offsets.lengths > 0
        validity = None if bool(valid.all()) else encode_bitmap(valid)
    data = yield from _fetch_joined(offsets.lows, offsets.highs - offsets.lows, slices, file_size)
    return decode_binary(join_lengths(offsets.lengths), validity, data, data_type)


@dataclass(frozen=True, slots=True)
class _Offsets:
    """Where the values of slices are in what they point into.

    Attributes:
        lows: Where the first value of each slice starts.
        highs: Where the last one of it stops.
        lengths: Of all values.
    """

    lows: Integers
    highs: Integers
    lengths: Integers


def _read_offsets(
    positions: Integers, word: np.dtype[np.signedinteger], slices: Slices, file_size: int
) -> Steps[_Offsets]:
    _check_numbers(slices, file_size)
    width = word.itemsize
    counts = slices.stops - slices.starts + 1
    data = yield from _fetch_joined(positions + slices.starts * width, counts * width, slices, 2 * file_size)
    found = np.frombuffer(data, dtype=word).astype(np.int64, copy=False)
    last = np.cumsum(counts) - 1
    inside = np.ones(len(found), dtype=np.bool_)
    inside[last] = False
    lengths = np.diff(found, append=0)[inside]
    if bool((lengths < 0).any()):
        raise CorruptFileError("offsets decrease")
    return _Offsets(found[last - (counts - 1)], found[last], lengths)
