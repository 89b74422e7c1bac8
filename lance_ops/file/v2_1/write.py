"""Writing 2.1 and 2.2: collects rows into pages, one column for each leaf of the schema.

The columns are independent of each other: each has pages where it has enough rows. A page holds whole rows.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from lance_ops.encoding.pages.ravel import Raveled, ravel
from lance_ops.errors import UnsupportedTypeError
from lance_ops.file.container.read import Encoding
from lance_ops.file.io.pending_rows import CHEAP_BYTES, join_rows, page_limit, split_rows, unpin
from lance_ops.file.layout import PageSink
from lance_ops.file.schema.blob_fields import DESCRIPTOR, is_blob_v2, is_old_blob
from lance_ops.file.schema.json_values import encode_json_values, has_json
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.packing import is_packed
from lance_ops.file.v2_1.blob.write import encode_blob_page, open_blobs, replace_leaf
from lance_ops.file.v2_1.columns import COLUMN_ENCODING_URL, PAGE_LAYOUT_URL
from lance_ops.file.v2_1.compression.encoded import EncodedPage
from lance_ops.file.v2_1.constant.write import describe_row
from lance_ops.file.v2_1.encode_page import LeafColumn, encode_page
from lance_ops.file.v2_1.leaves import LeafPath, leaf_paths, project_leaf, weigh
from lance_ops.file.v2_1.options import FieldOptions
from lance_ops.file.v2_1.peer_workarounds import always_nullable_layers, declare_layers
from lance_ops.file.v2_1.self_check import check_page
from lance_ops.file.v2_1.told_columns import told_type
from lance_ops.pb import encodings20_pb2

# Levels and positions take memory that the bytes of very small values do not show.
_MAX_PAGE_ROWS = 1 << 22


class Fields21Writer:
    """Writes batches as 2.1 or 2.2 pages.

    Args:
        schema: Of the file.
        columns: Physical column of each field id.
        sink: Takes the pages.
        page_bytes: Size at which a column's page is full.
        version: "2.1" or "2.2".
    """

    def __init__(
        self, schema: Schema, columns: Mapping[int, int], sink: PageSink, page_bytes: int, version: str
    ) -> None:
        self._leaves = [
            [_LeafWriter(path, columns[path.leaf.id], sink, page_bytes, version) for path in leaf_paths(top)]
            for top in schema.fields
        ]

    def write(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Take rows."""
        for leaves, array in zip(self._leaves, batch.columns, strict=True):
            for leaf in leaves:
                leaf.write(array, first_row)

    def finish(self, num_rows: int) -> None:  # noqa: ARG002 - other layouts need it
        """Write what is left."""
        for leaves in self._leaves:
            for leaf in leaves:
                leaf.finish()

    @property
    def pending_bytes(self) -> int:
        """Bytes taken that are not in a page yet."""
        return sum(leaf.pending_bytes for leaves in self._leaves for leaf in leaves)

    @property
    def column_encodings(self) -> Sequence[Encoding]:
        """Encoding of each physical column."""
        message = encodings20_pb2.ColumnEncoding()
        message.values.SetInParent()
        encoding = Encoding(COLUMN_ENCODING_URL, message.SerializeToString())
        return [encoding for leaves in self._leaves for _ in leaves]


class _LeafWriter:
    """One column."""

    # Wide tables have thousands of them.
    __slots__ = (
        "_always_nullable",
        "_blobs",
        "_column",
        "_has_json",
        "_leaf",
        "_page_bytes",
        "_path",
        "_row",
        "_sink",
        "_told",
        "_unpinned",
        "_waiting",
        "_waiting_rows",
        "pending_bytes",
    )

    def __init__(self, path: LeafPath, column: int, sink: PageSink, page_bytes: int, version: str) -> None:
        self._path = path
        self._column = column
        self._sink = sink
        self._page_bytes = page_bytes
        self._has_json = has_json(path.leaf)
        name = path.name
        self._blobs = open_blobs(path.leaf, sink, name)
        options = FieldOptions.of_field(path.leaf, path.fields[0])
        data_type = DESCRIPTOR if is_blob_v2(path.leaf) else path.leaf.file_type
        self._leaf = LeafColumn(name, data_type, options, version)
        self._always_nullable = always_nullable_layers(path.fields)
        is_plain = version != "2.1" and not path.steps and self._blobs is None and options.structure is None
        self._told = told_type(path.leaf.logical_type) if is_plain else None
        self._waiting: list[pa.Array] = []
        self._waiting_rows = 0
        self._unpinned = 0
        self._row = 0
        self.pending_bytes = 0

    def write(self, array: pa.Array, row: int) -> None:
        projected = project_leaf(array, self._path)
        if self._blobs is not None:
            projected = replace_leaf(projected, self._path.straight, self._blobs.write)
        elif self._has_json:
            projected = replace_leaf(projected, self._path.straight, self._encode_json)
        self._unpin()
        for piece, weight in split_rows(projected, self._page_bytes, self._weigh):
            if self._waiting and self._would_burst(weight, len(piece)):
                self.flush()
            if not self._waiting:
                self._row = row
            self._waiting.append(piece)
            self._waiting_rows += len(piece)
            self.pending_bytes += weight
            row += len(piece)
            if self.pending_bytes >= self._page_bytes or self._waiting_rows >= _MAX_PAGE_ROWS:
                self.flush()
        if self.pending_bytes <= CHEAP_BYTES:
            self._unpin()

    def _unpin(self) -> None:
        self._waiting[self._unpinned :] = map(unpin, self._waiting[self._unpinned :])
        self._unpinned = len(self._waiting)

    def _weigh(self, array: pa.Array) -> int:
        # As many rows as a page may have at most count for a whole page, however small their values are.
        return max(weigh(array, self._path), len(array) * self._page_bytes // _MAX_PAGE_ROWS)

    def _would_burst(self, weight: int, rows: int) -> bool:
        return (
            self.pending_bytes + weight > page_limit(self._page_bytes)
            or self._waiting_rows + rows > _MAX_PAGE_ROWS
        )

    def finish(self) -> None:
        self.flush()
        if self._blobs is not None:
            self._blobs.finish()

    def flush(self) -> None:
        waiting, self._waiting, self._waiting_rows, self.pending_bytes = self._waiting, [], 0, 0
        self._unpinned = 0
        if not waiting:
            return
        row = self._row
        if self._told is not None and len(waiting) == 1 and len(waiting[0]) == 1:
            data_type, width = self._told
            if waiting[0].type == data_type:
                # A single row of a wide table has thousands of such pages.
                encoding = Encoding(PAGE_LAYOUT_URL, describe_row(waiting[0], width))
                self._sink.add_page(self._column, [], 1, row, encoding)
                return
        for array in join_rows(waiting):
            raveled = declare_layers(ravel(array, self._path.straight), self._always_nullable)
            self._check_members(raveled)
            for page in self._encode(raveled):
                self._add(page, raveled, row)
                row += page.num_rows

    def _encode_json(self, array: pa.Array) -> pa.Array:
        return encode_json_values(array, self._path.leaf, self._path.name)

    def _encode(self, raveled: Raveled) -> Iterator[EncodedPage]:
        if is_old_blob(self._path.leaf):
            return iter([encode_blob_page(raveled, self._leaf.version)])
        return encode_page(self._leaf, raveled)

    def _add(self, page: EncodedPage, raveled: Raveled, row: int) -> None:
        # Below fixed-size lists of structs, pages are counted in structs.
        span = 1 if raveled.rep is not None else raveled.num_entries // raveled.num_rows
        check_page(page, page.num_rows * span, self._leaf.version, self._path.name)
        buffers = [self._sink.write_buffer(pa.py_buffer(np.ascontiguousarray(data))) for data in page.buffers]
        encoding = Encoding(PAGE_LAYOUT_URL, page.layout.SerializeToString())
        self._sink.add_page(self._column, buffers, page.num_rows * span, row, encoding)

    def _check_members(self, raveled: Raveled) -> None:
        if not is_packed(self._path.leaf):
            return
        for number, child in enumerate(self._path.leaf.children):
            member = raveled.values.field(number)
            if raveled.definition is not None:
                states = raveled.definition[raveled.definition < raveled.visible_below]
                member = member.filter(pa.array(states == 0))
            if member.null_count:
                raise UnsupportedTypeError(
                    f"a packed struct of storage version {self._leaf.version} cannot hold nulls",
                    field=f"{self._path.name}.{child.name}",
                    hint="fill the nulls, or do not pack the struct",
                )
