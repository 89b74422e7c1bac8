"""Ingest plan: checks the dataset and the schema of the data; nothing is written yet.

Ingest task: writes the data files of one part of the data, here or on an executor.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lance_ops.errors import DatasetExistsError, InvalidArgumentError
from lance_ops.file.io.pending_rows import gather_batches
from lance_ops.file.schema.blob_fields import VERSIONS_WITH_OLD_BLOBS, upgrade_batch, upgrade_blobs
from lance_ops.file.schema.column_names import check_column_names
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema, schema_of_arrow
from lance_ops.file.versions import ALIASES, DEFAULT_STORAGE_VERSION
from lance_ops.file.writer import check_schema_writable
from lance_ops.filter import Expression, parse_filter, settled
from lance_ops.maintenance.ingest.conform import check_schema, conform
from lance_ops.maintenance.ingest.options import Mode, WriteOptions
from lance_ops.maintenance.sources.file_source import check_types_known
from lance_ops.maintenance.sources.source import unify_schemas
from lance_ops.maintenance.target import Target, check_changeable, check_side_by_side, open_target
from lance_ops.storage import Durability, Store
from lance_ops.table.commit.jobs.job_keys import find_job
from lance_ops.table.data_writer import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE, write_data_files
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import total_bytes, total_physical_rows


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
        return total_physical_rows(self.fragments)

    @property
    def bytes_written(self) -> int:
        """Size of the data files."""
        return total_bytes(self.fragments)

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


@dataclass(frozen=True, slots=True)
class WritePlan:
    """Plan for `write_task` and `commit_write`.

    Attributes:
        uri: The dataset.
        mode: "create" if there is no dataset yet, else that of the options.
        options: Options of the caller.
        dataset: The head of the plan; None for "create".
        task: Task for `write_task`.
        committed_version: Version committed by an earlier run with this job key.
        started: Start of planning, on the monotonic clock.
        committed_uuid: The transaction of that version.
    """

    uri: str
    mode: Mode
    options: WriteOptions
    dataset: Dataset | None
    task: WriteTask
    committed_version: int | None = None
    started: float = field(default_factory=time.monotonic)
    committed_uuid: str = ""


def plan_write(
    schema: pa.Schema | Sequence[tuple[str, pa.Schema]],
    uri: Target,
    options: WriteOptions | None = None,
) -> WritePlan:
    """Check that data of this schema can be written; nothing is written yet.

    Args:
        schema: Schema of the data, or (what, schema) of each of its parts.
        uri: The dataset; for a `Dataset`, its head.
        options: Options; an append by default.

    Raises:
        DatasetExistsError: mode is "create" and the dataset exists.
        SchemaMismatchError: the data do not fit the dataset; lists every mismatch.
        InvalidArgumentError: an overwrite would drop all columns, or a new column has an invalid name.
        UnsupportedTypeError: the storage version does not support a type; lists every field.
        UnsupportedVersionError: the dataset has a storage version that cannot be written.
        PredicateError: the predicate does not parse, or names an unknown column.
    """
    options = options or WriteOptions()
    store, dataset = open_target(uri, options.storage_options)
    return plan_write_on(store, dataset, schema, options)


def plan_write_on(
    store: Store,
    dataset: Dataset | None,
    schema: pa.Schema | Sequence[tuple[str, pa.Schema]] | Callable[[], Sequence[tuple[str, pa.Schema]]],
    options: WriteOptions,
) -> WritePlan:
    """Like `plan_write`, on an open head; None if the store has no dataset.

    A function that reads the schemas is not called for a job that is done.
    """
    started = time.monotonic()
    if options.data_storage_version in ALIASES:
        options = replace(options, data_storage_version=ALIASES[options.data_storage_version])
    if dataset is None:
        version = options.data_storage_version or DEFAULT_STORAGE_VERSION
        parts = _with_blobs(_parts(schema), version, is_new=True)
        schema_to_be = _new_schema(parts, store.uri, options)
        options = _with_predicate(options, schema_to_be)
        task = _task(store, schema_to_be, version, options)
        return WritePlan(store.uri, "create", options, None, task, None, started)
    found = find_job(dataset, options.job_key, is_head=True) if options.job_key is not None else None
    committed = None if found is None else found.version
    version, target = dataset.data_storage_version, dataset.lance_schema
    if committed is None:
        is_new = options.mode == "overwrite"
        parts = _with_blobs(_parts(schema), options.data_storage_version or version, is_new=is_new)
        version, target = _check(dataset, parts, options)
        options = _with_predicate(options, target)
    # An overwrite keeps the bases, too.
    task = replace(_task(dataset.store, target, version, options), base_uris=dataset.bases.blob_uris)
    uuid = "" if found is None else found.transaction_uuid
    return WritePlan(dataset.uri, options.mode, options, dataset, task, committed, started, uuid)


def _parts(
    schema: pa.Schema | Sequence[tuple[str, pa.Schema]] | Callable[[], Sequence[tuple[str, pa.Schema]]],
) -> list[tuple[str, pa.Schema]]:
    if isinstance(schema, pa.Schema):
        return [("the data", schema)]
    return list(schema() if callable(schema) else schema)


def _with_predicate(options: WriteOptions, schema: Schema) -> WriteOptions:
    """Return the predicate in SQL as recorded, now that the column types are known."""
    if options.predicate is None:
        return options
    arrow = schema.to_arrow()
    sql = options.predicate if isinstance(options.predicate, str) else options.predicate(arrow)
    return replace(options, predicate=settled(sql, arrow))


def _check(
    dataset: Dataset, parts: Sequence[tuple[str, pa.Schema]], options: WriteOptions
) -> tuple[str, Schema]:
    """Return storage version and schema for writing to an existing dataset."""
    current = dataset.data_storage_version
    if options.mode == "create":
        hint = "use mode 'append' or 'overwrite'"
        raise DatasetExistsError("the dataset already exists", path=dataset.uri, hint=hint)
    check_changeable(dataset)
    if options.mode == "overwrite":
        schema = _new_schema(parts, dataset.uri, options)
        if not schema.to_arrow().names and dataset.schema.names:
            raise InvalidArgumentError(
                "the data has no columns, and would drop all columns of the dataset; nothing was changed",
                path=dataset.uri,
                field="data",
                hint="use the columns of the dataset for data without rows: dataset.schema.empty_table()",
            )
        return options.data_storage_version or current, schema
    version = options.data_storage_version or current
    check_side_by_side(dataset, version)
    for what, part in parts:
        check_schema(part, dataset.schema, what=what, path=dataset.uri, fill_missing=options.fill_missing)
    return version, dataset.lance_schema


def _with_blobs(
    parts: Sequence[tuple[str, pa.Schema]], version: str, *, is_new: bool
) -> list[tuple[str, pa.Schema]]:
    # Binary columns declared as blobs have another type from 2.2 on.
    if version in VERSIONS_WITH_OLD_BLOBS:
        return list(parts)
    return [(what, upgrade_blobs(part, is_new=is_new)) for what, part in parts]


def _new_schema(parts: Sequence[tuple[str, pa.Schema]], uri: str, options: WriteOptions) -> Schema:
    unified = unify_schemas(parts)
    check_types_known(unified, parts)
    for what, part in parts:
        check_schema(part, unified, what=what, path=uri, fill_missing=options.fill_missing)
    schema = schema_of_arrow(unified)
    check_column_names(schema, path=uri)
    return schema


def _task(store: Store, schema: Schema, version: str, options: WriteOptions) -> WriteTask:
    check_schema_writable(schema, version)
    # A predicate that is not SQL yet belongs to a committed job: nothing will be written.
    sql = options.predicate if isinstance(options.predicate, str) else None
    predicate = None if sql is None else parse_filter(sql, schema.to_arrow())
    return WriteTask(
        store,
        schema,
        version,
        options.max_rows_per_file,
        options.max_bytes_per_file,
        options.fill_missing,
        predicate=predicate,
        job_key=options.job_key,
    )
