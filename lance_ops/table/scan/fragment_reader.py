"""Fragment reader: the columns of one fragment from all of its data files, deleted rows included."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import InvalidArgumentError
from lance_ops.file.container.page_bounds import PageBounds
from lance_ops.file.io.row_windows import plan_windows
from lance_ops.file.schema.model import Schema
from lance_ops.file.versions import is_legacy
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.open_files import OpenFile
from lance_ops.table.scan.overlaid import Choose, lay_over, rows_of_list, rows_of_range
from lance_ops.table.scan.stored_columns import StoredPart, find_parts, join_parts, refuse_attached, share_out
from lance_ops.table.snapshot import Snapshot

_MAX_WINDOW = 1 << 20


class FragmentReader:
    """Reader of one fragment, deleted rows included.

    Columns that no file holds read as null. Files are opened when one of their columns is first read.

    Args:
        snapshot: The version, which keeps the files open.
        fragment: The fragment to read.
    """

    def __init__(self, snapshot: Snapshot, fragment: Fragment) -> None:
        self.fragment = fragment
        self._bases = snapshot.bases
        self._files = snapshot.open_files
        self._manifest = snapshot.manifest

    @property
    def num_rows(self) -> int:
        """Rows in the files, deleted ones included."""
        return self.fragment.physical_rows

    def read(self, schema: Schema, start: int = 0, stop: int | None = None) -> pa.Table:
        """Read rows `[start, stop)` of some columns.

        Args:
            schema: The columns, a projection of the dataset's schema.
            start: First row.
            stop: Row after the last; the end of the fragment when None.

        Returns:
            A table of exactly the Arrow schema of `schema`.

        Raises:
            CorruptFileError: A file is damaged or does not have the rows recorded in the manifest.
            CorruptManifestError: The manifest is inconsistent about the location of a column.
            UnsupportedError: A storage version, or an overlay of a part of a value, that is not implemented.
            PathEscapeError: The path of a file leaves its base.
        """
        stop = self._check_range(start, stop)
        refuse_attached(self._manifest, schema, self._bases.root.uri)
        parts = find_parts(self.fragment, schema)
        tables = []
        for part in parts:
            found = self._open(part.file)
            tables.append(found.reader.read_table(part.stored, found.columns, start=start, stop=stop))
        table = join_parts(parts, tables, schema, stop - start)
        return self._overlaid(table, schema, lambda offsets: rows_of_range(offsets, start, stop))

    def take(self, rows: npt.NDArray[np.integer], schema: Schema) -> pa.Table:
        """Read some rows by offset.

        Args:
            rows: Sorted offsets without duplicates, int64 or uint32.
            schema: The columns.

        Raises:
            InvalidArgumentError: An offset is out of range.
        """
        if len(rows) and not 0 <= int(rows[0]) <= int(rows[-1]) < self.num_rows:
            raise InvalidArgumentError(
                f"row offset {rows[-1]} is out of range for fragment {self.fragment.id} with "
                f"{self.num_rows} rows",
                field="rows",
            )
        offsets = np.asarray(rows, dtype=np.int64)
        refuse_attached(self._manifest, schema, self._bases.root.uri)
        parts = find_parts(self.fragment, schema)
        tables = []
        for part in parts:
            found = self._open(part.file)
            tables.append(found.reader.take(offsets, part.stored, found.columns))
        table = join_parts(parts, tables, schema, len(offsets))
        return self._overlaid(table, schema, lambda covered: rows_of_list(covered, offsets))

    def iter_batches(
        self, schema: Schema, *, batch_rows: int = 65_536, start: int = 0, stop: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read rows in batches of at most `batch_rows`, see `read`.

        Windows of about 32 MB are read in sequence, so that memory does not grow with the fragment.

        Args:
            schema: The columns.
            batch_rows: Rows of a batch; only the last one of a window of very wide rows is shorter.
            start: First row.
            stop: Row after the last; the end of the fragment when None.
        """
        stop = self._check_range(start, stop)
        if start == stop:
            return
        for first, last in plan_windows(start, stop, batch_rows, self.window_rows(schema)):
            window = self.read(schema, first, last)
            for row in range(0, window.num_rows, batch_rows):
                # Copies only if a batch has parts of several pages.
                yield from window.slice(row, batch_rows).combine_chunks().to_batches()

    def window_rows(self, schema: Schema) -> int:
        """Estimate how many rows of some columns take about 32 MB in memory, as far as the files tell.

        Args:
            schema: The columns.
        """
        sizes = [
            found.reader.window_rows(part.stored, found.columns)
            for part in share_out(self.fragment.files, schema)
            for found in (self._open(part.file),)
        ]
        return max(1, min(sizes, default=_MAX_WINDOW) // max(1, len(sizes)))

    def sparse_from(self, schema: Schema) -> dict[int, int]:
        """Return how sparse rows must be to read single ones, by field id; see `Layout.sparse_from`."""
        most: dict[int, int] = {}
        for part in share_out(self.fragment.files, schema):
            found = self._open(part.file)
            for field_id, share in found.reader.sparse_from(part.stored, found.columns).items():
                most[field_id] = max(share, most.get(field_id, 1))
        return most

    def page_bounds(self, schema: Schema) -> dict[int, PageBounds]:
        """Return value bounds of columns from the files, by field id; most storage versions have none.

        Raises:
            CorruptFileError: The statistics of a file are damaged.
        """
        found: dict[int, PageBounds] = {}
        if self.fragment.has_overlays:
            return found
        for part in share_out(self.fragment.files, schema):
            file = part.file
            # No other storage version has any, so its files need not be opened.
            if is_legacy(file.major, file.minor):
                listed = [node.id for node in part.schema.walk() if node.id in file.fields]
                found.update(self._open(file).reader.page_bounds(listed))
        return found

    def _overlaid(self, table: pa.Table, schema: Schema, choose: Choose) -> pa.Table:
        """Apply overlays to rows."""
        rows = self.fragment.physical_rows
        for overlay in self.fragment.overlays:
            table = lay_over(table, schema, overlay, rows, choose, self._read_overlay)
        return table

    def _read_overlay(
        self, file: DataFile, part: StoredPart, length: int, ranks: npt.NDArray[np.int64]
    ) -> pa.Table:
        found = self._files.open(self._bases, file, length)
        return found.reader.take(ranks, part.stored, found.columns)

    def _check_range(self, start: int, stop: int | None) -> int:
        stop = self.num_rows if stop is None else stop
        if not 0 <= start <= stop <= self.num_rows:
            raise InvalidArgumentError(
                f"row range {start} to {stop} is out of range for fragment {self.fragment.id} with "
                f"{self.num_rows} rows",
                field="start, stop",
            )
        return stop

    def _open(self, file: DataFile) -> OpenFile:
        return self._files.open(self._bases, file, self.fragment.physical_rows)
