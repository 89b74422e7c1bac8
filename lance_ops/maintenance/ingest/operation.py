"""Append: rows create, extend or overwrite a dataset, exactly once under a job key."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.ingest.replacement import ReplacePlan, plan_replacement
from lance_ops.maintenance.ingest.source import FileSource, Source, open_source
from lance_ops.maintenance.ingest.write import (
    KEEPS_SCHEMA,
    Mode,
    WriteOptions,
    WritePlan,
    WriteTask,
    WriteTaskResult,
    abandon_write,
    already_committed,
    commit_write,
    plan_write,
    plan_write_on,
    write_task,
)
from lance_ops.maintenance.progress import Progress, Reporter
from lance_ops.maintenance.results import AppendResult
from lance_ops.maintenance.runner import LocalRunner, Runner
from lance_ops.maintenance.target import Target, open_target
from lance_ops.maintenance.tasks import run_tasks
from lance_ops.storage import Durability
from lance_ops.table.commit.committer import Committer
from lance_ops.table.data_writer import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE

_BYTES_PER_TASK = 128 << 20


@cleans_up
def write_dataset(
    data: Any,
    uri: Target,
    *,
    mode: Mode = "create",
    data_storage_version: str | None = None,
    max_rows_per_file: int = MAX_ROWS_PER_FILE,
    max_bytes_per_file: int = MAX_BYTES_PER_FILE,
    enable_stable_row_ids: bool = False,
    fill_missing: bool = False,
    predicate: str | Callable[[pa.Schema], str] | None = None,
    allow_empty: bool = False,
    runner: Runner | None = None,
    job_key: str | None = None,
    properties: Mapping[str, str] | None = None,
    max_replans: int = 10,
    progress: Progress | None = None,
    committer: Committer | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AppendResult:
    """Write data to a dataset in one commit.

    Columns are matched by name. A column fits when its type is that of the dataset, or one whose every value
    has an equal there (see `maintenance.conform`); everything else is listed in one error before anything is
    written.

    Args:
        data: An Arrow table, batch, reader, dataset or iterable of batches; a pandas DataFrame; anything that
            exports an Arrow stream; or paths, directories or globs of Parquet, CSV, TSV or Arrow IPC files.
            Read as a stream.
        uri: Where the dataset is or shall be.
        mode: "create" wants no dataset there; "append" adds rows, and creates the dataset if there is none;
            "overwrite" replaces schema and rows in a new version; "replace_where" replaces the rows that
            `predicate` selects, in one commit, and creates the dataset if there is none.
        data_storage_version: Of the data files; 2.2 for a new dataset if not given, else that of the dataset.
            An append of another version from 2.0 on leaves the dataset its own and marks it as one with
            files of several versions, which older libraries do not open.
        max_rows_per_file: Rows after which a new fragment begins.
        max_bytes_per_file: Bytes after which a new fragment begins.
        enable_stable_row_ids: Rows of a new dataset keep their ids when they move.
        fill_missing: Nullable columns that the data lack are filled with nulls instead of being a mismatch.
        predicate: SQL, for "replace_where". Rows for which it is true are deleted; every row of the data has
            to match it, so that the next replacement finds them all. Or a function that gives the SQL when it
            is told the schema of the dataset.
        allow_empty: Data without rows may replace rows: these are deleted then.
        runner: Writes several input files at once; every other kind of data is one stream written here.
        job_key: Names this piece of work. A second call with the same key finds the first one's commit,
            changes nothing and returns its version.
        properties: Kept in the transaction, e.g. the id of the run.
        max_replans: See `commit_write`.
        progress: Receives events.
        committer: Stores the manifest, where the store alone cannot decide a race.
        storage_options: For the store of the dataset.

    Raises:
        DatasetExistsError: mode is "create" and there is a dataset.
        SchemaMismatchError: the data do not fit; lists every mismatch.
        PredicateError: the predicate does not parse, or names a column that is not there.
        InvalidArgumentError: rows of the data do not match the predicate, or there are none and
            `allow_empty` is not set. Nothing was changed.
        UnsupportedTypeError: the storage version cannot hold a type; lists every field.
        CommitConflictError: another commit stands in the way.
    """
    options = WriteOptions(
        mode=mode,
        data_storage_version=data_storage_version,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        enable_stable_row_ids=enable_stable_row_ids,
        fill_missing=fill_missing,
        predicate=predicate,
        allow_empty=allow_empty,
        job_key=job_key,
        properties=properties,
        committer=committer,
        storage_options=storage_options,
    )
    source = open_source(data)
    store, head = open_target(uri, storage_options)
    if isinstance(source, FileSource) and mode in KEEPS_SCHEMA and head is not None:
        source = source.typed_by(head.schema)
    plan = plan_write_on(store, head, source.read_schemas(), options)
    if plan.committed_version is not None:
        return already_committed(plan, plan.committed_version, plan.committed_uuid)
    runner = runner or LocalRunner()
    results = _write(plan, source, runner, Reporter("append", progress))
    return commit_write(plan, results, max_replans=max_replans, progress=progress, runner=runner)


def append(uri: Target, data: Any, **options: Any) -> AppendResult:
    """Add rows to a dataset, or create it; see `write_dataset` for the data and the options."""
    return write_dataset(data, uri, mode="append", **options)


@cleans_up
def replace_where(
    uri: Target,
    data: Any,
    predicate: str,
    *,
    dry_run: bool = False,
    runner: Runner | None = None,
    progress: Progress | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Any,
) -> AppendResult | ReplacePlan:
    """Replace the rows that a predicate selects, in one commit: readers see the old rows or the new ones.

    Args:
        uri: The dataset; it is created if there is none.
        data: See `write_dataset`. Every row has to match the predicate.
        predicate: SQL. Noted in the transaction; rows for which it is null stay.
        dry_run: Look for the rows that would go, and return the plan. Of the data the schema is read only.
        runner: See `write_dataset`, as the others.
        progress: See `write_dataset`.
        storage_options: See `write_dataset`.
        **options: See `write_dataset`.
    """
    if not dry_run:
        return write_dataset(
            data,
            uri,
            mode="replace_where",
            predicate=predicate,
            runner=runner,
            progress=progress,
            storage_options=storage_options,
            **options,
        )
    names = {item.name for item in fields(WriteOptions)}
    chosen = {name: value for name, value in options.items() if name in names}
    limits = WriteOptions(
        mode="replace_where", predicate=predicate, storage_options=storage_options, **chosen
    )
    plan = plan_write(open_source(data).read_schemas(), uri, limits)
    return plan_replacement(
        plan.uri,
        plan.dataset,
        str(plan.options.predicate),
        runner or LocalRunner(),
        Reporter("append", progress),
    )


def _write(plan: WritePlan, source: Source, runner: Runner, report: Reporter) -> list[WriteTaskResult]:
    if isinstance(source, FileSource):
        parts = source.split(_BYTES_PER_TASK)
        if len(parts) > 1:
            return run_tasks(
                runner,
                _write_files,
                [_FilesTask(plan.task, part) for part in parts],
                report=report,
                message="writing input files",
                discard=lambda results: abandon_write(plan, results),
            )
    # Flushed while the commit is prepared: ours see to it that all is there before the version is.
    durable: Durability = "later" if plan.options.committer is None else "now"
    return [write_task(plan.task, _reported(source.batches(), report), durable=durable)]


def _reported(batches: Iterator[pa.RecordBatch], report: Reporter) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
        report("writing rows", rows)


@dataclass(frozen=True, slots=True)
class _FilesTask:
    task: WriteTask
    source: FileSource


def _write_files(work: _FilesTask) -> WriteTaskResult:
    return write_task(work.task, work.source.batches())
