"""Fields of 2.0, written: collects the rows of each column until they fill a page."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from lance_ops.encoding.values.end_offsets import Extents, encode_extents
from lance_ops.encoding.values.lists import encode_list
from lance_ops.errors import SchemaMismatchError, UnsupportedTypeError
from lance_ops.file.container.read import Encoding
from lance_ops.file.io.pending_rows import (
    CHEAP_BYTES,
    join_rows,
    page_limit,
    split_rows,
    unpin,
    unpin_extents,
)
from lance_ops.file.layout import PageSink
from lance_ops.file.schema.json_values import encode_json
from lance_ops.file.schema.logical_types import JSON_TYPE, LIST_TYPES
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.schema.packing import is_packed_2_0
from lance_ops.file.v2_0.columns import is_blob
from lance_ops.file.v2_0.encode import (
    Compression,
    EncodedPage,
    blob_column,
    encode_list_page,
    encode_packed_page,
    encode_page,
    encode_struct_page,
    page_encoding,
    values_column,
)

_END_BYTES = 8


class _FieldWriter(Protocol):
    """Takes the rows of one field."""

    def write(self, array: pa.Array, row: int) -> None:
        """Write rows; `row` is the top-level row of the first."""

    def finish(self, num_rows: int) -> None:
        """Write what is left; `num_rows` is the number of top-level rows."""

    def encodings(self) -> Iterator[Encoding]:
        """Encodings of the columns of this field and its children, depth first."""

    @property
    def pending_bytes(self) -> int:
        """Bytes not in a page yet."""


class Fields20Writer:
    """Writes batches as 2.0 pages.

    Args:
        schema: Of the file.
        columns: Physical column of each field id.
        sink: Takes the pages.
        page_bytes: Size at which a column's page is full.
    """

    def __init__(self, schema: Schema, columns: Mapping[int, int], sink: PageSink, page_bytes: int) -> None:
        self._writers = [_open(top, columns, sink, page_bytes, top.name) for top in schema.fields]

    def write(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Write rows."""
        for writer, array in zip(self._writers, batch.columns, strict=True):
            writer.write(array, first_row)

    def finish(self, num_rows: int) -> None:
        """Write what is left."""
        for writer in self._writers:
            writer.finish(num_rows)

    @property
    def pending_bytes(self) -> int:
        """Bytes taken that are not in a page yet."""
        return sum(writer.pending_bytes for writer in self._writers)

    @property
    def column_encodings(self) -> Sequence[Encoding]:
        """Encoding of each physical column."""
        return [encoding for writer in self._writers for encoding in writer.encodings()]


def _open(
    field: Field, columns: Mapping[int, int], sink: PageSink, page_bytes: int, path: str
) -> _FieldWriter:
    column = _ColumnSink(sink, columns[field.id])
    if is_packed_2_0(field):
        return _PackedWriter(field, column, page_bytes, path)
    if field.logical_type == "struct":
        children = [
            _open(child, columns, sink, page_bytes, f"{path}.{child.name}") for child in field.children
        ]
        return _StructWriter(children, column, path)
    if field.logical_type in LIST_TYPES:
        (child,) = field.children
        items = _open(child, columns, sink, page_bytes, f"{path}.{child.name}")
        return _ListWriter(field, items, column, page_bytes, path)
    if is_blob(field):
        return _BlobWriter(field, column, page_bytes, path)
    return _ValuesWriter(field, column, page_bytes, path)


class _ColumnSink:
    """Adds pages to one column and counts their rows."""

    def __init__(self, sink: PageSink, column: int) -> None:
        self._sink = sink
        self._column = column

    def add(self, page: EncodedPage, length: int, row: int) -> None:
        buffers = [self._sink.write_buffer(data) for data in page.buffers]
        self._sink.add_page(self._column, buffers, length, row, page_encoding(page))

    def write_buffer(self, data: pa.Buffer) -> tuple[int, int]:
        return self._sink.write_buffer(data)


class _ValuesWriter:
    """A column that holds values."""

    def __init__(self, field: Field, column: _ColumnSink, page_bytes: int, path: str) -> None:
        self._field = field
        self._column = column
        self._page_bytes = page_bytes
        self._path = path
        self._compression = Compression.of_field(field)
        self._waiting: list[pa.Array] = []
        self._unpinned = 0
        self._row = 0
        self.pending_bytes = 0

    def write(self, array: pa.Array, row: int) -> None:
        _check_nulls(array, self._field, self._path)
        if self._field.logical_type == JSON_TYPE:
            array = encode_json(array, self._path)
        self._unpin()
        for piece, weight in split_rows(array, self._page_bytes, _weight):
            if self.pending_bytes + weight > page_limit(self._page_bytes):
                self._flush()
            if not self._waiting:
                self._row = row
            self._waiting.append(piece)
            self.pending_bytes += weight
            if self.pending_bytes >= self._page_bytes:
                self._flush()
        if self.pending_bytes <= CHEAP_BYTES:
            self._unpin()

    def _unpin(self) -> None:
        self._waiting[self._unpinned :] = map(unpin, self._waiting[self._unpinned :])
        self._unpinned = len(self._waiting)

    def finish(self, num_rows: int) -> None:  # noqa: ARG002 - other fields need it
        self._flush()

    def encodings(self) -> Iterator[Encoding]:
        yield values_column()

    def _flush(self) -> None:
        if self._waiting:
            for array in join_rows(self._waiting):
                self._add(array)
        self._waiting, self._unpinned = [], 0
        self.pending_bytes = 0

    def _add(self, array: pa.Array) -> None:
        page = self._encode(array)
        if page is not None:
            self._column.add(page, len(array), self._row)
            return
        half = len(array) // 2
        self._add(array.slice(0, half))
        self._add(array.slice(half))

    def _encode(self, array: pa.Array) -> EncodedPage | None:
        return encode_page(array, self._compression)


class _PackedWriter(_ValuesWriter):
    """Writer of a packed struct, whose members are stored together."""

    def write(self, array: pa.Array, row: int) -> None:
        _check_struct(array, self._path)
        for number, child in enumerate(self._field.children):
            if array.field(number).null_count:
                raise UnsupportedTypeError(
                    "a packed struct of storage version 2.0 cannot hold nulls",
                    field=f"{self._path}.{child.name}",
                    hint="fill the nulls, or do not pack the struct",
                )
        super().write(array, row)

    def _encode(self, array: pa.Array) -> EncodedPage:
        return encode_packed_page(array)


class _StructWriter:
    """Writer of a struct: its column only has the number of rows."""

    def __init__(self, children: Sequence[_FieldWriter], column: _ColumnSink, path: str) -> None:
        self._children = children
        self._column = column
        self._path = path
        self._length = 0

    def write(self, array: pa.Array, row: int) -> None:
        _check_struct(array, self._path)
        for number, child in enumerate(self._children):
            child.write(array.field(number), row)
        self._length += len(array)

    def finish(self, num_rows: int) -> None:
        # Exactly one page: readers of the format do not expect another.
        self._column.add(encode_struct_page(), self._length, 0)
        for child in self._children:
            child.finish(num_rows)

    def encodings(self) -> Iterator[Encoding]:
        yield values_column()
        for child in self._children:
            yield from child.encodings()

    @property
    def pending_bytes(self) -> int:
        return sum(child.pending_bytes for child in self._children)


class _ListWriter:
    """Writer of a list: its column has the end offset of each row within the items of the page."""

    def __init__(
        self, field: Field, items: _FieldWriter, column: _ColumnSink, page_bytes: int, path: str
    ) -> None:
        self._field = field
        self._items = items
        self._column = column
        self._page_rows = max(page_bytes // _END_BYTES, 1)
        self._path = path
        self._waiting: list[Extents] = []
        self._lengths: list[int] = []
        self._rows = 0
        self._row = 0

    def write(self, array: pa.Array, row: int) -> None:
        _check_nulls(array, self._field, self._path)
        for start in range(0, len(array), self._page_rows):
            piece = array.slice(start, self._page_rows)
            extents, items = encode_list(piece)
            self._items.write(items, row)
            if not self._waiting:
                self._row = row
            self._waiting.append(unpin_extents(extents, piece))
            self._lengths.append(len(items))
            self._rows += len(piece)
            if self._rows >= self._page_rows:
                self._flush()

    def finish(self, num_rows: int) -> None:
        self._flush()
        self._items.finish(num_rows)

    def encodings(self) -> Iterator[Encoding]:
        yield values_column()
        yield from self._items.encodings()

    @property
    def pending_bytes(self) -> int:
        return self._rows * _END_BYTES + self._items.pending_bytes

    def _flush(self) -> None:
        if not self._rows:
            return
        ends, adjustment, total = encode_extents(self._waiting, self._lengths)
        self._column.add(encode_list_page(pa.py_buffer(ends), adjustment, total), self._rows, self._row)
        self._waiting, self._lengths, self._rows = [], [], 0


class _BlobWriter:
    """Writer of large values: each in a separate buffer, and pages with positions and sizes."""

    def __init__(self, field: Field, column: _ColumnSink, page_bytes: int, path: str) -> None:
        self._field = field
        self._column = column
        self._page_rows = max(page_bytes // (2 * _END_BYTES), 1)
        self._path = path
        self._extents: list[tuple[int, int]] = []
        self._row = 0

    def write(self, array: pa.Array, row: int) -> None:
        _check_nulls(array, self._field, self._path)
        for value in array:
            if not self._extents:
                self._row = row
            self._extents.append(self._write_value(value.as_buffer() if value.is_valid else None))
            if len(self._extents) >= self._page_rows:
                self._flush()

    def finish(self, num_rows: int) -> None:  # noqa: ARG002 - other fields need it
        self._flush()

    def encodings(self) -> Iterator[Encoding]:
        yield blob_column()

    @property
    def pending_bytes(self) -> int:
        return len(self._extents) * 2 * _END_BYTES

    def _write_value(self, value: pa.Buffer | None) -> tuple[int, int]:
        # Without a size, position 1 means null and position 0 the empty value.
        if value is None:
            return (1, 0)
        return self._column.write_buffer(value) if value.size else (0, 0)

    def _flush(self) -> None:
        if not self._extents:
            return
        positions, sizes = np.array(self._extents, dtype=np.uint64).T
        described = pa.StructArray.from_arrays(
            [pa.array(np.ascontiguousarray(positions)), pa.array(np.ascontiguousarray(sizes))],
            names=["position", "size"],
        )
        self._column.add(encode_packed_page(described), len(self._extents), self._row)
        self._extents = []


def _check_nulls(array: pa.Array, field: Field, path: str) -> None:
    if array.null_count and not field.nullable:
        raise SchemaMismatchError(
            "the data do not fit the schema",
            [f"column {path!r} must not be null, but {array.null_count} rows are"],
        )


def _check_struct(array: pa.Array, path: str) -> None:
    if array.null_count:
        raise UnsupportedTypeError(
            f"storage version 2.0 cannot hold null structs, and {array.null_count} rows are null",
            field=path,
            hint="make the members null instead, or use a newer storage version",
        )


def _weight(array: pa.Array) -> int:
    if pa.types.is_dictionary(array.type):
        return int(array.indices.nbytes)
    return int(array.nbytes)
