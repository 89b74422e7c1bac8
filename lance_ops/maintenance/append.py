"""Adding rows: create, append or overwrite a dataset, exactly once under a job key."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_ops.maintenance.progress import Progress, Reporter
from lance_ops.maintenance.results import AppendResult
from lance_ops.maintenance.runner import LocalRunner, Runner
from lance_ops.maintenance.source import FileSource, Source, open_source
from lance_ops.maintenance.target import Target, open_latest_if_any
from lance_ops.maintenance.tasks import run_tasks
from lance_ops.maintenance.write import (
    Mode,
    WriteOptions,
    WritePlan,
    WriteTask,
    WriteTaskResult,
    abandon_write,
    already_committed,
    commit_write,
    plan_write,
    write_task,
)
from lance_ops.table.committer import Committer
from lance_ops.table.data_writer import MAX_BYTES_PER_FILE, MAX_ROWS_PER_FILE

_BYTES_PER_TASK = 128 << 20


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
            "overwrite" replaces schema and rows in a new version.
        data_storage_version: Of the data files of a new or overwritten dataset; 2.2 for a new one if not
            given. Otherwise the dataset keeps its own.
        max_rows_per_file: Rows after which a new fragment begins.
        max_bytes_per_file: Bytes after which a new fragment begins.
        enable_stable_row_ids: Rows of a new dataset keep their ids when they move.
        fill_missing: Nullable columns that the data lack are filled with nulls instead of being a mismatch.
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
        job_key=job_key,
        properties=properties,
        committer=committer,
        storage_options=storage_options,
    )
    source = open_source(data)
    if isinstance(source, FileSource) and mode == "append":
        head = open_latest_if_any(uri, storage_options)
        source = source.typed_by(head.schema) if head is not None else source
    plan = plan_write(source.read_schemas(), uri, options)
    if plan.committed_version is not None:
        return already_committed(plan, plan.committed_version)
    results = _write(plan, source, runner or LocalRunner(), Reporter("append", progress))
    return commit_write(plan, results, max_replans=max_replans, progress=progress)


def append(uri: Target, data: Any, **options: Any) -> AppendResult:
    """Add rows to a dataset, or create it; see `write_dataset` for the data and the options."""
    return write_dataset(data, uri, mode="append", **options)


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
    return [write_task(plan.task, _reported(source.batches(), report))]


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
