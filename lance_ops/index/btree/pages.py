"""Writing the two files of a BTREE segment from rows that arrive in index order."""

from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from lance_ops.encoding.arrow_arrays import from_numpy, to_numpy
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter, WrittenFile
from lance_ops.storage import Store
from lance_ops.storage.prefetch import side_by_side
from lance_ops.table.manifest.index_metadata import IndexFile

PAGE_DATA = "page_data.lance"
PAGE_LOOKUP = "page_lookup.lance"
PAGE_ROWS = 4096
"""Rows of a page by default."""
PAGE_SIZE = "batch_size"
"""Metadata key of the lookup: rows of every page but the last."""


def page_data_schema(value_type: pa.DataType) -> pa.Schema:
    """Arrow schema of `page_data.lance`."""
    return pa.schema([pa.field("values", value_type), pa.field("ids", pa.uint64(), nullable=False)])


def page_lookup_schema(value_type: pa.DataType, page_rows: int = PAGE_ROWS) -> pa.Schema:
    """Arrow schema of `page_lookup.lance`."""
    return pa.schema(
        [
            pa.field("min", value_type),
            pa.field("max", value_type),
            pa.field("null_count", pa.uint32(), nullable=False),
            pa.field("page_idx", pa.uint32(), nullable=False),
        ],
        metadata={PAGE_SIZE: str(page_rows), "range_partitioned": "false"},
    )


class PageWriter:
    """Streams sorted rows into a segment; use as a context manager, then `finish`.

    Args:
        store: Store of the dataset.
        directory: Directory of the segment, relative to the store.
        value_type: Arrow type of the indexed column, not dictionary-encoded.
        version: Storage version of the files.
        page_rows: Rows of a page.
    """

    def __init__(
        self,
        store: Store,
        directory: str,
        value_type: pa.DataType,
        version: str,
        page_rows: int = PAGE_ROWS,
    ) -> None:
        self._store = store
        self._directory = directory
        self._version = version
        self._page_rows = page_rows
        self._lookup_schema = page_lookup_schema(value_type, page_rows)
        self._data_schema = page_data_schema(value_type)
        self._data = FileWriter(
            store,
            f"{directory}/{PAGE_DATA}",
            Schema.from_arrow(self._data_schema),
            version=version,
        )
        self._open_page = pa.Table.from_batches([], self._data_schema)
        self._lookup: list[pa.Table] = []
        self._pages = 0
        self.num_rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._data.abort()

    def write(self, rows: pa.Table) -> None:
        """Add rows (`values`, `ids`) that follow all earlier ones in index order."""
        self.num_rows += rows.num_rows
        pending = pa.concat_tables([self._open_page, rows.cast(self._data_schema)])
        whole = pending.num_rows - pending.num_rows % self._page_rows
        self._write_pages(pending.slice(0, whole))
        self._open_page = pending.slice(whole)

    def finish(self) -> tuple[IndexFile, ...]:
        """Write what is left and the lookup; returns both files."""
        self._write_pages(self._open_page)
        data, lookup = side_by_side(self._store, self._data.finish, self._write_lookup)
        return IndexFile(PAGE_DATA, data.size_bytes), IndexFile(PAGE_LOOKUP, lookup.size_bytes)

    def _write_lookup(self) -> WrittenFile:
        lookup = pa.concat_tables(
            [pa.Table.from_batches([], self._lookup_schema), *self._lookup]
        ).combine_chunks()
        with FileWriter(
            self._store,
            f"{self._directory}/{PAGE_LOOKUP}",
            Schema.from_arrow(self._lookup_schema),
            version=self._version,
        ) as writer:
            writer.write(lookup)
            return writer.finish()

    def _write_pages(self, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        self._data.write(rows)
        first = np.arange(0, rows.num_rows, self._page_rows)
        last = np.append(first[1:], rows.num_rows) - 1
        values = rows["values"].combine_chunks()
        nulls = np.add.reduceat(to_numpy(values.is_null()).astype(np.uint32), first)
        pages = np.arange(self._pages, self._pages + len(first), dtype=np.uint32)
        self._pages += len(first)
        # Nulls come first: a page that starts with one has no minimum, a page that ends with one only nulls.
        self._lookup.append(
            pa.table(
                [
                    values.take(from_numpy(first)),
                    values.take(from_numpy(last)),
                    from_numpy(nulls),
                    from_numpy(pages),
                ],
                schema=self._lookup_schema,
            )
        )
