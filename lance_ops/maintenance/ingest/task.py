"""Ingest task: writes the data files of one part of the data, here or on an executor."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lance_ops.file.io.pending_rows import gather_batches
from lance_ops.file.schema.blob_fields import upgrade_batch
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.filter import Expression
from lance_ops.maintenance.ingest.conform import conform
from lance_ops.storage import Durability, Store
from lance_ops.table.data_writer import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE, write_data_files
from lance_ops.table.manifest.fragment import Fragment


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Writes one part of the data; serializable for executors.

    Attributes:
        store: Store of the dataset.
        schema: Schema of the dataset after the commit, with field ids.
        storage_version: Version of the data files.
        max_rows_per_file: Maximum rows per fragment.
        max_bytes_per_file: Maximum bytes per fragment.
        fill_missing: Fill missing columns with nulls.
        base_uris: Of the bases of the dataset, by their ids, that blobs are named relative to.
        predicate: Every row must match it; None without one.
        job_key: See `write_data_files`.
    """

    store: Store
    schema: Schema
    storage_version: str
    max_rows_per_file: int = MAX_ROWS_PER_FILE
    max_bytes_per_file: int = MAX_BYTES_PER_FILE
    fill_missing: bool = False
    base_uris: Mapping[int, str] = field(default_factory=dict)
    predicate: Expression | None = None
    job_key: str | None = None


@dataclass(frozen=True, slots=True)
class WriteTaskResult:
    """New fragments of one part of the data, without ids."""

    fragments: tuple[Fragment, ...]

    @property
    def rows(self) -> int:
        """Rows written."""
        return sum(fragment.physical_rows for fragment in self.fragments)

    @property
    def bytes_written(self) -> int:
        """Size of the data files."""
        return sum(fragment.data_bytes for fragment in self.fragments)

    @property
    def paths(self) -> tuple[str, ...]:
        """The data files, relative to the root of the dataset."""
        return tuple(f"data/{file.path}" for fragment in self.fragments for file in fragment.files)


def write_task(
    task: WriteTask, batches: Iterable[pa.RecordBatch], *, durable: Durability = "now"
) -> WriteTaskResult:
    """Write one part of the data as new fragments. They are unused until `commit_write`.

    Args:
        task: Task of the plan.
        batches: The rows in order; columns by name, losslessly cast to the types of the dataset.
        durable: See `write_data_files`.

    Raises:
        SchemaMismatchError: a batch does not fit. Files written by then are removed.
        InvalidArgumentError: a row does not match the predicate of the rows that the data replace. Likewise.
    """
    schema = prepare_schema(task.schema).arrow
    fitting: Iterable[pa.RecordBatch] = (
        conform(upgrade_batch(batch, schema), schema, fill_missing=task.fill_missing)
        for batch in gather_batches(batches)
        if batch.num_rows
    )
    if task.predicate is not None:
        # It imports all that finds and deletes rows, which most tasks on executors never need.
        from lance_ops.maintenance.ingest.replacement import check_replacing

        fitting = check_replacing(fitting, task.predicate)
    fragments = write_data_files(
        task.store,
        fitting,
        task.schema,
        version=task.storage_version,
        max_rows_per_file=task.max_rows_per_file,
        max_bytes_per_file=task.max_bytes_per_file,
        base_uris=task.base_uris,
        job_key=task.job_key,
        durable=durable,
        conformed=True,
    )
    return WriteTaskResult(tuple(fragments))
