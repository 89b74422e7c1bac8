"""Writing a data file from Arrow batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import pyarrow as pa

from lance_ops.cache import IdentityCache
from lance_ops.errors import InvalidArgumentError, UnsupportedTypeError
from lance_ops.file.container.write import ContainerWriter
from lance_ops.file.io.side_files import SideFiles
from lance_ops.file.schema.blob_fields import has_blob_v2, show_descriptors
from lance_ops.file.schema.conform import conform_batch
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.file.self_check import check_columns
from lance_ops.file.versions import DEFAULT_STORAGE_VERSION, StorageVersion, storage_version
from lance_ops.storage import BytesLike, Durability, Store

_PAGE_BYTES = 16 << 20
_MIN_PAGE_BYTES = 1 << 18
# What waits for its page, over all columns of a file.
_PENDING_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A finished data file.

    Attributes:
        path: Relative to the store.
        num_rows: Rows.
        size_bytes: Size of the file.
        field_ids: Ids of the fields that the table's metadata list for this file.
        column_indices: Physical column of each of them.
        major: Major version number for the table's metadata.
        minor: Minor version number for the table's metadata.
        side_bytes: Size of all files beside it.
    """

    path: str
    num_rows: int
    size_bytes: int
    field_ids: tuple[int, ...]
    column_indices: tuple[int, ...]
    major: int
    minor: int
    side_bytes: int = 0


def check_writable(schema: pa.Schema, version: str) -> None:
    """Check that a storage version can hold a schema, before anything is written.

    Args:
        schema: Arrow schema of the data.
        version: Storage version, such as "2.0".

    Raises:
        UnsupportedTypeError: It cannot; the message lists every field that is in the way.
        UnsupportedVersionError: This version of lance_ops cannot write the storage version.
        InvalidArgumentError: Two fields have the same name, or a top-level name contains a dot.
    """
    layout = storage_version(version).require_writable()
    problems: list[str] = []
    for field in schema:
        try:
            converted = Schema.from_arrow(pa.schema([field]))
        except UnsupportedTypeError as error:
            problems.append(f"column {error.field or field.name!r}: {error.message}")
            continue
        problems.extend(layout.find_problems(converted))
    if problems:
        raise UnsupportedTypeError(_list_problems(version, problems))
    Schema.from_arrow(schema)


def check_schema_writable(schema: Schema, version: str) -> None:
    """The same for a schema with field ids, which is checked but once while it is in use.

    Args:
        schema: Of the table.
        version: See `check_writable`.

    Raises:
        UnsupportedTypeError: See `check_writable`.
        UnsupportedVersionError: See `check_writable`.
        InvalidArgumentError: See `check_writable`.
    """
    _check_stored(schema, storage_version(version))


def _check_uncached(schema: Schema, version: StorageVersion) -> None:
    check_writable(prepare_schema(schema).arrow, version.name)


_check_stored = IdentityCache("writable schemas", _check_uncached, 64)


def _list_problems(version: str, problems: Sequence[str]) -> str:
    return "\n  - ".join([f"storage version {version} cannot hold the schema", *problems])


def _show_descriptors(schema: Schema) -> Schema:
    if not has_blob_v2(schema):
        return schema
    return replace(schema, fields=tuple(map(show_descriptors, schema.fields)))


_in_file = IdentityCache("schemas of files", _show_descriptors, 16)


def _find_problems(schema: Schema, version: StorageVersion) -> Sequence[str]:
    return version.require_writable().find_problems(schema)


_problems = IdentityCache("problems of schemas", _find_problems, 64)


class FileWriter:
    """Writes one data file; as a context manager it finishes on success and leaves nothing behind on error.

    Memory is bounded by the page size times the number of columns, whatever the size of the batches: small
    batches are collected into pages, large ones are cut.

    Args:
        store: Where the file goes.
        path: Relative to the store.
        schema: Of the file, with the field ids of the dataset.
        version: Storage version.
        page_bytes: Size at which a column's page is full; None for a size that suits the number of columns.
        base_uris: Of the bases of the table, by their ids, that blobs are named relative to.
        durable: When the file has to outlive a power failure; see `Store.put`.
        described: What the file says of its columns, where the rows come by another schema of the same fields
            (see `stored_documents`).

    Raises:
        UnsupportedTypeError: The storage version cannot hold the schema.
        UnsupportedVersionError: The storage version cannot be written.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        schema: Schema,
        *,
        version: str = DEFAULT_STORAGE_VERSION,
        page_bytes: int | None = None,
        base_uris: Mapping[int, str] | None = None,
        durable: Durability = "now",
        described: Schema | None = None,
    ) -> None:
        self._version = storage_version(version)
        layout = self._version.require_writable()
        # Not what `check_schema_writable` keeps: that has looked at the fields as they come back from Arrow.
        problems = _problems(schema, self._version)
        if problems:
            raise UnsupportedTypeError(_list_problems(version, problems), path=path)
        self._path = path
        self._schema = schema if described is None else described
        prepared = prepare_schema(schema)
        self._arrow_schema = prepared.arrow
        # Batches that are as they should be need not be looked at field by field.
        self._is_stored = prepared.is_stored
        self._columns = layout.assign_columns(schema)
        self._num_rows = 0
        self._written: WrittenFile | None = None
        self._output = store.open_writer(path, durable=durable)
        num_columns = len(self._columns)
        self._side_files = SideFiles(store, path, base_uris)
        self._container = ContainerWriter(self._output, num_columns, side_files=self._side_files)
        if page_bytes is None:
            page_bytes = max(min(_PAGE_BYTES, _PENDING_BYTES // max(num_columns, 1)), _MIN_PAGE_BYTES)
        self._fields = layout.open_writer(schema, self._columns, self._container, page_bytes)

    @property
    def num_rows(self) -> int:
        """Rows taken so far."""
        return self._num_rows

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Take rows.

        Args:
            data: Columns by name, in any order; types are those of the schema, or convert to them without
                loss (views, extension types).

        Raises:
            SchemaMismatchError: Columns or types differ, or a column that must not be null is.
            UnsupportedTypeError: The data hold something that the storage version cannot, such as null
                structs.
        """
        self._check_open()
        batches = data.to_batches() if isinstance(data, pa.Table) else [data]
        for batch in batches:
            conformed = batch
            if not (self._is_stored and batch.schema.equals(self._arrow_schema)):
                conformed = conform_batch(batch, self._arrow_schema, self._path)
            self._fields.write(conformed, self._num_rows)
            self._num_rows += batch.num_rows

    def tell(self) -> int:
        """Return bytes written so far and bytes that wait for their page."""
        return self._container.tell() + self._fields.pending_bytes

    def add_global_buffer(self, data: BytesLike) -> int:
        """Store bytes that belong to the file as a whole.

        Returns:
            The number for `FileReader.global_buffer`; the first one is 1.
        """
        self._check_open()
        return self._container.add_global_buffer(data)

    def add_schema_metadata(self, metadata: Mapping[str, bytes]) -> None:
        """Add entries to the schema metadata in the descriptor; possible until the file is finished."""
        self._check_open()
        self._schema = replace(self._schema, metadata={**self._schema.metadata, **metadata})

    def finish(self) -> WrittenFile:
        """Write what is left and make the file visible, and durable as agreed; later calls return the same.

        Raises:
            LanceOpsError: The columns do not fit together; nothing is left behind.
        """
        if self._written is not None:
            return self._written
        try:
            self._fields.finish(self._num_rows)
            check_columns(
                self._schema,
                self._columns,
                self._container.pages,
                self._num_rows,
                self._container.tell(),
                self._version.name,
            )
            self._container.finish(
                _in_file(self._schema), self._num_rows, self._fields.column_encodings, self._version.footer
            )
        except BaseException:
            self.abort()
            raise
        self._output.close()
        self._written = WrittenFile(
            path=self._path,
            num_rows=self._num_rows,
            size_bytes=self._container.tell(),
            side_bytes=self._side_files.size_bytes,
            field_ids=tuple(self._columns),
            column_indices=tuple(self._columns.values()),
            major=self._version.manifest[0],
            minor=self._version.manifest[1],
        )
        return self._written

    def abort(self) -> None:
        """Leave nothing behind."""
        self._output.abort()
        self._side_files.abort()

    def _check_open(self) -> None:
        if self._written is not None:
            raise InvalidArgumentError("the file is finished", path=self._path)

    def __enter__(self) -> Self:
        """Nothing to do."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Finish, or abort after an error."""
        if kind is None:
            self.finish()
        else:
            self.abort()
