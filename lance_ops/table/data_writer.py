"""Data writer: write rows to new data files, which no version uses until a commit names them."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, LanceOpsError
from lance_ops.file.io.pending_rows import gather_batches
from lance_ops.file.io.side_files import delete_with_side_files
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.file.versions import DEFAULT_STORAGE_VERSION
from lance_ops.file.writer import FileWriter, WrittenFile
from lance_ops.storage import Durability, Store
from lance_ops.table.conform import conform
from lance_ops.table.manifest.base_paths import DATA_DIRECTORY
from lance_ops.table.manifest.data_file import DataFile
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.narrow_dictionaries import NarrowDictionaries
from lance_ops.table.transaction.transaction import job_uuid

MAX_ROWS_PER_FILE = 1 << 20
MAX_BYTES_PER_FILE = 90 << 30


def write_data_files(
    store: Store,
    batches: Iterable[pa.RecordBatch],
    schema: Schema,
    *,
    version: str = DEFAULT_STORAGE_VERSION,
    max_rows_per_file: int = MAX_ROWS_PER_FILE,
    max_bytes_per_file: int = MAX_BYTES_PER_FILE,
    base_uris: Mapping[int, str] | None = None,
    job_key: str | None = None,
    durable: Durability = "now",
    conformed: bool = False,
    described: Schema | None = None,
) -> tuple[Fragment, ...]:
    """Write batches to data files within the given limits, one fragment each.

    A new file also begins where narrow dictionaries do not fit together (see `NarrowDictionaries`).

    Args:
        store: Root of the dataset.
        batches: Rows; columns are found by name and may be more than `schema` has.
        schema: Fields to write, with the ids they have in the dataset.
        version: Storage version of the files.
        max_rows_per_file: Rows after which a new file begins.
        max_bytes_per_file: Bytes after which a new file begins; a file may exceed it by what is buffered.
        base_uris: Of the bases of the table, by their ids, that blobs are named relative to.
        job_key: Key whose mark is put into the file names. The files must be committed under this key:
            cleanup removes them when another run is committed. A commit on a later version than planned must
            check for that (see `lance_ops.table.commit.jobs.job_keys`).
        durable: When the files must survive a power failure. Flushing may wait for the commit ("later") only
            if it uses the same `store` object, which records the files to flush.
        conformed: The batches have the columns, types and nulls of the schema already and are not checked
            again.
        described: See `FileWriter`.

    Returns:
        Fragments without ids (0), in the order of the rows; none when there are no rows.

    Raises:
        SchemaMismatchError: There are nulls in a required column.
        UnsupportedTypeError: The storage version cannot hold a field.
        InvalidArgumentError: A limit is below 1.
    """
    if max_rows_per_file < 1 or max_bytes_per_file < 1:
        raise InvalidArgumentError(
            "max_rows_per_file and max_bytes_per_file must be at least 1", field="max_rows_per_file"
        )
    paths: list[str] = []
    fragments: list[Fragment] = []
    try:
        rows = _Rows(gather_batches(batches), None if conformed else schema)
        arrow = prepare_schema(schema).arrow
        while rows.pending():
            path = f"{DATA_DIRECTORY}/{job_uuid(job_key)}.lance"
            paths.append(path)
            with FileWriter(
                store,
                path,
                schema,
                version=version,
                base_uris=base_uris,
                durable=durable,
                described=described,
            ) as writer:
                written = 0
                for batch in rows.take(max_rows_per_file, NarrowDictionaries(arrow, version)):
                    writer.write(batch)
                    written += batch.num_rows
                    if writer.tell() >= max_bytes_per_file:
                        break
                fragments.append(fragment_of(writer.finish()))
    except BaseException:
        # No other process knows these files, so nothing else removes them before the grace period of cleanup.
        with contextlib.suppress(LanceOpsError):
            delete_with_side_files(store, paths)
        raise
    return tuple(fragments)


def fragment_of(file: WrittenFile) -> Fragment:
    """Return the fragment, without an id, for one new file."""
    return Fragment(id=0, files=(data_file_of(file),), physical_rows=file.num_rows)


def data_file_of(file: WrittenFile) -> DataFile:
    """Return the manifest entry of a new file."""
    return DataFile(
        path=file.path.removeprefix(f"{DATA_DIRECTORY}/"),
        fields=file.field_ids,
        column_indices=file.column_indices,
        major=file.major,
        minor=file.minor,
        size_bytes=file.size_bytes,
        side_bytes=file.side_bytes,
    )


class _Rows:
    """Batches from which any number of rows can be taken."""

    def __init__(self, batches: Iterable[pa.RecordBatch], schema: Schema | None) -> None:
        self._batches = iter(batches)
        self._schema = schema
        self._rest: pa.RecordBatch | None = None

    def pending(self) -> bool:
        """Return whether there are more rows."""
        while self._rest is None or self._rest.num_rows == 0:
            batch = next(self._batches, None)
            if batch is None:
                return False
            self._rest = batch if self._schema is None else conform(batch, self._schema)
        return True

    def take(self, count: int, dictionaries: NarrowDictionaries) -> Iterator[pa.RecordBatch]:
        """Return the next rows, at most `count`, while their dictionaries fit together; the rest stays."""
        while count > 0 and self.pending():
            assert self._rest is not None
            if not dictionaries.add(self._rest):
                return
            batch = self._rest.slice(0, count)
            self._rest = self._rest.slice(batch.num_rows)
            count -= batch.num_rows
            yield batch
