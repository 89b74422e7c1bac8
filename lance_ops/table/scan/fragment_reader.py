"""Fragment reader: the columns of one fragment from all of its data files, deleted rows included."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptManifestError, InvalidArgumentError, UnsupportedError
from lance_ops.file.container.page_bounds import PageBounds
from lance_ops.file.io.row_windows import plan_windows
from lance_ops.file.schema.blob_fields import VERSIONS_WITH_OLD_BLOBS, before_upgrade, upgrade_batch
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.file.versions import is_legacy
from lance_ops.table.assemble import assemble
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.fragment import UNASSIGNED, DataFile, Fragment
from lance_ops.table.scan.open_files import OpenFile, OpenFiles

_MAX_WINDOW = 1 << 20


class TableFiles(Protocol):
    """What a fragment needs to know of its dataset."""

    @property
    def bases(self) -> Bases:
        """Where files lie."""


class FragmentReader:
    """The rows of one fragment, as they lie in its files: nothing is taken out for deletions.

    Columns that no file holds read as null. Files are opened when a column of theirs is first wanted.

    Args:
        dataset: The dataset (anything with its `bases`).
        fragment: One of its fragments.
        files: Data files that stay open; files of its own when None.
    """

    def __init__(self, dataset: TableFiles, fragment: Fragment, files: OpenFiles | None = None) -> None:
        self.fragment = fragment
        self._bases = dataset.bases
        self._files = OpenFiles() if files is None else files

    @property
    def num_rows(self) -> int:
        """Rows in the files, deleted ones included."""
        return self.fragment.physical_rows

    def read(self, schema: Schema, start: int = 0, stop: int | None = None) -> pa.Table:
        """Rows `[start, stop)` of some columns.

        Args:
            schema: The columns, a projection of the dataset's schema.
            start: First row.
            stop: Row after the last; the end of the fragment when None.

        Returns:
            A table of exactly the Arrow schema of `schema`.

        Raises:
            CorruptFileError: A file is damaged or does not have the rows that the manifest promises.
            CorruptManifestError: The manifest contradicts itself on where a column lies.
            UnsupportedError: A storage version, or data overlays, that are not implemented.
            PathEscapeError: The path of a file leaves its base.
        """
        stop = self._check_range(start, stop)
        return self._join(
            schema,
            stop - start,
            lambda file, part: file.reader.read_table(part, file.columns, start=start, stop=stop),
        )

    def take(self, rows: npt.NDArray[np.integer], schema: Schema) -> pa.Table:
        """Some rows, by offset.

        Args:
            rows: Sorted offsets without repetition, int64 or uint32.
            schema: The columns.

        Raises:
            InvalidArgumentError: An offset is out of range.
        """
        if len(rows) and not 0 <= int(rows[0]) <= int(rows[-1]) < self.num_rows:
            raise InvalidArgumentError(
                f"row {rows[-1]} of fragment {self.fragment.id}, which has {self.num_rows} rows", field="rows"
            )
        offsets = np.asarray(rows, dtype=np.int64)
        return self._join(
            schema,
            len(offsets),
            lambda file, part: file.reader.take(offsets, part, file.columns),
        )

    def iter_batches(
        self, schema: Schema, *, batch_rows: int = 65_536, start: int = 0, stop: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Rows in batches of at most `batch_rows`, see `read`.

        Windows of about 32 MB are read one after the other, so that memory does not grow with the fragment.

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
                # Copies where a batch has parts of several pages, and only there.
                yield from window.slice(row, batch_rows).combine_chunks().to_batches()

    def window_rows(self, schema: Schema) -> int:
        """Rows of some columns that take about 32 MB in memory, as far as the files tell.

        Args:
            schema: The columns.
        """
        sizes = [
            found.reader.window_rows(_stored(file, part), found.columns)
            for file, part in _share_out(self.fragment.files, schema)
            for found in (self._open(file),)
        ]
        return max(1, min(sizes, default=_MAX_WINDOW) // max(1, len(sizes)))

    def page_bounds(self, schema: Schema) -> dict[int, PageBounds]:
        """What the files know of the values of some columns, by field id; most storage versions know nothing.

        Raises:
            CorruptFileError: The statistics of a file are damaged.
        """
        found: dict[int, PageBounds] = {}
        for file, part in _share_out(self.fragment.files, schema):
            # No other storage version has any, so that its files need not be opened.
            if is_legacy(file.major, file.minor):
                listed = [node.id for node in part.walk() if node.id in file.fields]
                found.update(self._open(file).reader.page_bounds(listed))
        return found

    def _check_range(self, start: int, stop: int | None) -> int:
        stop = self.num_rows if stop is None else stop
        if not 0 <= start <= stop <= self.num_rows:
            raise InvalidArgumentError(
                f"rows {start} to {stop} of fragment {self.fragment.id}, which has {self.num_rows} rows",
                field="start, stop",
            )
        return stop

    def _join(self, schema: Schema, length: int, read: Callable[[OpenFile, Schema], pa.Table]) -> pa.Table:
        if self.fragment.has_overlays:
            raise UnsupportedError(
                f"fragment {self.fragment.id} has data overlay files, which are not implemented",
                path=self._bases.root.uri,
            )
        files = self.fragment.files
        if len(files) == 1 and prepare_schema(schema).leaves <= _listed(files[0].fields):
            return read(self._open(files[0]), schema)
        self._refuse_lost(schema)
        tables = [self._read_part(file, part, read) for file, part in _share_out(files, schema)]
        target = prepare_schema(schema).arrow
        if len(tables) == 1 and tables[0].schema.equals(target):
            return tables[0].replace_schema_metadata(target.metadata)
        columns = []
        for field in target:
            parts = [table.column(field.name) for table in tables if field.name in table.column_names]
            columns.append(_join_column(field.type, parts, length))
        return pa.Table.from_arrays(columns, schema=target)

    def _read_part(
        self, file: DataFile, part: Schema, read: Callable[[OpenFile, Schema], pa.Table]
    ) -> pa.Table:
        stored = _stored(file, part)
        table = read(self._open(file), stored)
        if stored is part:
            return table
        # The table got blobs of another kind after this file was written.
        target = part.to_arrow()
        return pa.Table.from_batches(
            [upgrade_batch(batch, target) for batch in table.to_batches()], schema=target
        )

    def _refuse_lost(self, schema: Schema) -> None:
        """Refuse a column that is in no file while some file has one that nobody can tell: is it null?"""
        files = self.fragment.files
        lost = prepare_schema(schema).leaves.difference(*(_listed(file.fields) for file in files))
        if not lost:
            return
        for file in files:
            file.check_columns()
            if UNASSIGNED in file.fields:
                names = ", ".join(schema.path(field_id) for field_id in sorted(lost))
                raise CorruptManifestError(
                    f"the manifest does not say whether one of its columns is {names}",
                    path=file.path,
                    field="fields",
                    hint="read other columns, or restore an older version",
                )

    def _open(self, file: DataFile) -> OpenFile:
        return self._files.open(self._bases, file, self.fragment.physical_rows)


def _stored(file: DataFile, part: Schema) -> Schema:
    """Columns of the table as a file of its version has them."""
    return before_upgrade(part) if file.storage_version in VERSIONS_WITH_OLD_BLOBS else part


@lru_cache(maxsize=256)
def _listed(fields: tuple[int, ...]) -> frozenset[int]:
    # Fragments of one dataset mostly list the same fields.
    return frozenset(field_id for field_id in fields if field_id >= 0)


def _share_out(files: Sequence[DataFile], schema: Schema) -> Iterator[tuple[DataFile, Schema]]:
    """Which file is to be asked for which part of the columns."""
    listed = [_listed(file.fields) for file in files]
    anywhere = frozenset().union(*listed)
    claimed: set[int] = set()
    for file, here in zip(files, listed, strict=True):
        parts = (_part_of_field(field, here, anywhere, claimed) for field in schema.fields)
        fields = tuple(part for part in parts if part is not None)
        if fields:
            yield file, Schema(fields, schema.metadata)


def _part_of_field(
    field: Field, here: frozenset[int], anywhere: frozenset[int], claimed: set[int]
) -> Field | None:
    if not field.children:
        return field if field.id in here else None
    parts = (_part_of_field(child, here, anywhere, claimed) for child in field.children)
    children = tuple(part for part in parts if part is not None)
    if field.id not in here:
        return replace(field, children=children) if children else None
    if not children and field.id not in claimed:
        # A packed struct lists none of its members. One that is not packed reads as null where it has none.
        claimed.add(field.id)
        children = tuple(
            child for child in field.children if not any(node.id in anywhere for node in child.walk())
        )
    return replace(field, children=children)


def _join_column(kind: pa.DataType, parts: Sequence[pa.ChunkedArray], length: int) -> pa.ChunkedArray:
    if len(parts) == 1 and parts[0].type.equals(kind):
        return parts[0]
    return pa.chunked_array([assemble(kind, [part.combine_chunks() for part in parts], length)], kind)
