"""Append: rows create, extend or overwrite a dataset, exactly once with a job key."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Unpack, overload

import pyarrow as pa

from lance_ops.errors import public
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.ingest.commit import abandon_write, commit_write
from lance_ops.maintenance.ingest.file_source import FileSource
from lance_ops.maintenance.ingest.options import (
    KEEPS_SCHEMA,
    WRITE_REPLANS,
    IngestOptions,
    Mode,
    WriteOptions,
)
from lance_ops.maintenance.ingest.plan import WritePlan, plan_write_on
from lance_ops.maintenance.ingest.replacement import ReplacePlan, plan_replacement
from lance_ops.maintenance.ingest.source import Source, open_source
from lance_ops.maintenance.ingest.task import WriteTask, WriteTaskResult, write_task
from lance_ops.maintenance.progress import Reporter
from lance_ops.maintenance.results import AppendResult
from lance_ops.maintenance.runner import LocalRunner, Runner
from lance_ops.maintenance.target import Target, open_target
from lance_ops.maintenance.tasks import run_tasks
from lance_ops.storage import Durability

_BYTES_PER_TASK = 128 << 20


@public(uri="uri_or_dataset", data_obj="data", transaction_properties="properties")
@cleans_up
def write_dataset(
    data: Any,
    uri_or_dataset: Target,
    *,
    mode: Mode = "create",
    predicate: str | Callable[[pa.Schema], str] | None = None,
    allow_empty: bool | None = None,
    **options: Unpack[IngestOptions],
) -> AppendResult:
    """Write data to a dataset in one commit.

    Columns are matched by name. A column fits if its type is that of the dataset, or every value can be
    converted without loss (see `maintenance.ingest.conform`); all mismatches are listed in one error before
    anything is written.

    Args:
        data: An Arrow table, batch, reader, dataset or iterable of batches; a pandas DataFrame, whose named
            index levels become columns; any object that exports an Arrow stream; or paths,
            directories or globs of Parquet, CSV, TSV or Arrow IPC files.
            Read as a stream.
        uri_or_dataset: URI or path where the dataset is or shall be, or a `Dataset`.
        mode: "create" wants no dataset there; "append" adds rows, and creates the dataset if there is none;
            "overwrite" replaces schema and rows in a new version; "replace_where" replaces the rows that
            match `predicate`, in one commit, and creates the dataset if there is none.
        predicate: SQL, for "replace_where". Rows for which it is true are deleted; every row of the data must
            match it, so that the next replacement finds all of them. Or a function from the schema of the
            dataset to the SQL.
        allow_empty: Allow data without rows to replace rows, which are then deleted. The default None allows
            this in mode "overwrite" but not in "replace_where".
        **options: See `IngestOptions` and `RunOptions`. The runner writes several input files at once; every
            other kind of data is one stream written here.

    Raises:
        DatasetExistsError: mode is "create" and the dataset exists.
        SchemaMismatchError: the data do not fit; lists every mismatch.
        PredicateError: the predicate does not parse, or names an unknown column.
        InvalidArgumentError: rows of the data do not match the predicate, or there are none and
            `allow_empty` is not set. Nothing was changed.
        UnsupportedTypeError: the storage version cannot hold a type; lists every field.
        CommitConflictError: another commit stands in the way.

    Examples:
        >>> lo.write_dataset(pa.table({"id": [1, 2]}), "new.lance").rows_added
        2
        >>> lo.write_dataset(pa.table({"id": [3]}), "new.lance", mode="overwrite").version
        2
    """
    chosen = WriteOptions.of(options, mode=mode, predicate=predicate, allow_empty=allow_empty)
    source = open_source(data)
    store, head = open_target(uri_or_dataset, chosen.storage_options)
    if isinstance(source, FileSource) and mode in KEEPS_SCHEMA and head is not None:
        source = source.typed_by(head.schema)
    plan = plan_write_on(store, head, source.read_schemas(), chosen)
    runner, progress = options.get("runner") or LocalRunner(), options.get("progress")
    results: list[WriteTaskResult] = []
    if plan.committed_version is None:
        results = _write(plan, source, runner, Reporter("append", progress))
    max_replans = options.get("max_replans", WRITE_REPLANS)
    return commit_write(plan, results, max_replans=max_replans, progress=progress, runner=runner)


@public(uri="uri_or_dataset", data_obj="data", transaction_properties="properties")
def append(uri_or_dataset: Target, data: Any, **options: Unpack[IngestOptions]) -> AppendResult:
    """Add rows to a dataset, or create it; see `write_dataset` for the data and what it raises.

    Args:
        uri_or_dataset: URI or path where the dataset is or shall be, or a `Dataset`.
        data: See `write_dataset`.
        **options: See `IngestOptions` and `RunOptions`.

    Examples:
        >>> lo.append("new.lance", pa.table({"id": [1, 2, 3]})).rows_added
        3
    """
    return write_dataset(data, uri_or_dataset, mode="append", **options)


@overload
def replace_where(
    uri_or_dataset: Target,
    data: Any,
    predicate: str,
    *,
    dry_run: Literal[False] = False,
    allow_empty: bool | None = None,
    **options: Unpack[IngestOptions],
) -> AppendResult: ...
@overload
def replace_where(
    uri_or_dataset: Target,
    data: Any,
    predicate: str,
    *,
    dry_run: Literal[True],
    allow_empty: bool | None = None,
    **options: Unpack[IngestOptions],
) -> ReplacePlan: ...
@overload
def replace_where(
    uri_or_dataset: Target,
    data: Any,
    predicate: str,
    *,
    dry_run: bool,
    allow_empty: bool | None = None,
    **options: Unpack[IngestOptions],
) -> AppendResult | ReplacePlan: ...
@public(uri="uri_or_dataset")
@cleans_up
def replace_where(
    uri_or_dataset: Target,
    data: Any,
    predicate: str,
    *,
    dry_run: bool = False,
    allow_empty: bool | None = None,
    **options: Unpack[IngestOptions],
) -> AppendResult | ReplacePlan:
    """Replace the rows that match a predicate, in one commit: readers see the old rows or the new ones.

    Args:
        uri_or_dataset: URI or path where the dataset is or shall be, or a `Dataset`.
        data: See `write_dataset`. Every row has to match the predicate.
        predicate: SQL. Noted in the transaction; rows for which it is null stay.
        dry_run: Look for the rows that would go, and return the plan. Of the data the schema is read only.
        allow_empty: See `write_dataset`.
        **options: See `IngestOptions` and `RunOptions`.

    Examples:
        >>> new = pa.table({"id": [20, 21], "kind": ["a", "a"]})
        >>> lo.replace_where("events.lance", new, "kind = 'a'", fill_missing=True).rows_deleted
        5
    """
    mode: Mode = "replace_where"
    if not dry_run:
        return write_dataset(
            data, uri_or_dataset, mode=mode, predicate=predicate, allow_empty=allow_empty, **options
        )
    chosen = WriteOptions.of(options, mode=mode, predicate=predicate, allow_empty=allow_empty)
    source = open_source(data)
    store, head = open_target(uri_or_dataset, chosen.storage_options)
    if isinstance(source, FileSource) and head is not None:
        source = source.typed_by(head.schema)
    plan = plan_write_on(store, head, source.read_schemas(), chosen)
    return plan_replacement(
        plan.uri,
        plan.dataset,
        str(plan.options.predicate),
        options.get("runner") or LocalRunner(),
        Reporter("append", options.get("progress")),
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
    # Flushed while the commit is prepared: our committer ensures that all files exist before the version.
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
