"""Append: rows create, extend or overwrite a dataset, exactly once with a job key.

Ingest commit: one commit of all parts of the data written by tasks.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack, overload

import pyarrow as pa

from lance_ops.errors import (
    CommitConflictError,
    DatasetExistsError,
    InvalidArgumentError,
    RetryableCommitConflictError,
    public,
)
from lance_ops.file.schema.blob_fields import has_blob_v2
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.ingest.options import (
    KEEPS_SCHEMA,
    WRITE_REPLANS,
    IngestOptions,
    Mode,
    WriteOptions,
)
from lance_ops.maintenance.ingest.plan import WritePlan, WriteTask, WriteTaskResult, plan_write_on, write_task
from lance_ops.maintenance.ingest.preview import WritePreview, preview_write
from lance_ops.maintenance.ingest.recast import recast
from lance_ops.maintenance.ingest.replacement import (
    Replacement,
    ReplacePlan,
    Search,
    commit_replacement,
    plan_replacement,
)
from lance_ops.maintenance.progress import Progress, Reporter
from lance_ops.maintenance.results import AppendResult
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.runner import LocalRunner, Runner
from lance_ops.maintenance.sources.open import open_source
from lance_ops.maintenance.sources.source import Source, leave_unread
from lance_ops.maintenance.target import Target, check_side_by_side, open_target
from lance_ops.maintenance.tasks import is_not_committed, remove_files, run_tasks
from lance_ops.storage import Durability
from lance_ops.table.commit.jobs.job_keys import find_job, find_left_over
from lance_ops.table.commit.request import CommitHooks, CommitRequest, CommitResult
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.transaction.operations import Append, Overwrite, Restore
from lance_ops.table.transaction.transaction import Transaction


def commit_write(
    plan: WritePlan,
    results: Sequence[WriteTaskResult],
    *,
    max_replans: int = WRITE_REPLANS,
    progress: Progress | None = None,
    runner: Runner | None = None,
) -> AppendResult:
    """Commit all parts.

    An append of no rows commits nothing, and nothing under its job key where it creates the dataset; nor does
    a replacement of no rows by none. If the commit is known to have failed, the files of the parts are
    removed; with an unknown outcome they are kept.

    Args:
        plan: Result of `plan_write`.
        results: Results of every `write_task`, in the order of rows.
        max_replans: Maximum retries of an append or a replacement on the head after a retryable conflict.
            Data are rewritten only if an append finds another schema; see `recast`.
        progress: Receives progress events.
        runner: Finds the rows that a replacement deletes; threads of this process by default.

    Raises:
        InvalidArgumentError: rows would be replaced by none, and `allow_empty` is not set.
        CommitConflictError: another commit conflicts.
        CommitOutcomeUnknownError: it is unknown whether it is committed; the next run with the same job key
            determines it.
    """
    run = Run.on(
        "append",
        plan.task.store,
        plan.dataset,
        RunOptions(
            runner=runner,
            job_key=plan.options.job_key,
            properties=plan.options.properties,
            max_replans=max_replans,
            progress=progress,
            committer=plan.options.committer,
            storage_options=plan.options.storage_options,
        ),
        started=plan.started,
    )
    if plan.committed_version is not None:
        abandon_write(plan, results)
        common = run.common(plan.committed_version, attempts=0, already_committed=True)
        return AppendResult(**common, mode=plan.mode, transaction_uuid=plan.committed_uuid)
    if plan.mode == "append" and plan.dataset is not None and not any(item.fragments for item in results):
        return AppendResult(**run.common(plan.dataset.version), mode=plan.mode)
    search = Search()

    def commit(attempt: Attempt) -> AppendResult:
        current, parts = plan, results
        if attempt.replans.count:
            current, parts = _replan(plan, results, attempt)
        _check_rows(current, parts)
        if current.mode == "replace_where":
            return _replace(current, parts, attempt, search)
        result = _result(current, parts, attempt, _commit_or_join(current, parts, attempt))
        if parts is not results and not result.already_committed:
            abandon_write(plan, results)
        return result

    try:
        return run.replanned(commit)
    except Exception as error:
        if is_not_committed(error):
            abandon_write(plan, results)
        raise


def _check_rows(plan: WritePlan, results: Sequence[WriteTaskResult]) -> None:
    """Check that an overwrite with no rows is allowed."""
    if plan.mode != "overwrite" or plan.dataset is None or plan.options.allow_empty is not False:
        return
    if plan.dataset.fragments and not any(result.fragments for result in results):
        raise InvalidArgumentError(
            "the data has no rows, and would replace all rows; nothing was changed",
            path=plan.uri,
            field="data",
            hint="use allow_empty=True (lance/allow_empty of an asset) to delete these rows",
        )


def _check_files(plan: WritePlan, results: Sequence[WriteTaskResult]) -> None:
    """Check that the files still exist before a commit on a newer version than planned.

    Meanwhile another run of the job may have committed, a cleanup may have removed these files as unused, and
    a restore may have undone that other commit (see `lance_ops.table.commit.jobs.job_keys`).
    """
    key, dataset = plan.task.job_key, plan.dataset
    if key is None or dataset is None or find_job(dataset, key) is not None:
        return
    store = plan.task.store
    paths = [path for result in results for path in result.paths]
    lost = find_left_over(store, paths)
    if lost is not None:
        raise CommitConflictError(
            "a cleanup removed the files of this run of the job, after another run was committed",
            ours=f"{plan.options.mode} of job {key!r}",
            theirs="a restore that undid the other run",
            version=dataset.version,
            path=f"{store.uri}/{lost}",
            hint="run the job again",
        )


def abandon_write(plan: WritePlan, results: Iterable[WriteTaskResult]) -> None:
    """Remove the files of uncommitted parts."""
    remove_files(plan.task.store, (path for result in results for path in result.paths))


def _commit(plan: WritePlan, fragments: tuple[Fragment, ...], attempt: Attempt) -> CommitResult:
    return attempt.commit(
        CommitRequest(
            Append(fragments) if plan.mode == "append" else Overwrite(fragments, plan.task.schema),
            data_storage_version=None if plan.mode == "append" else plan.task.storage_version,
            stable_row_ids=plan.options.enable_stable_row_ids,
            hooks=CommitHooks(judge=_may_lack_bases if _has_based_blobs(plan.task) else None),
        ),
        # Data without rows are no job done, be there a dataset or not: those that come later count.
        is_job=bool(fragments) or plan.options.mode not in KEEPS_SCHEMA,
    )


def _has_based_blobs(task: WriteTask) -> bool:
    """Return whether blobs of its files may be named relative to a base."""
    return bool(task.base_uris) and has_blob_v2(task.schema)


def _may_lack_bases(other: Transaction) -> str | None:
    """Judge a commit that an overwrite passes: bases are only ever added, but for a return to older ones."""
    return "it may lack the bases of blobs" if isinstance(other.operation, Restore) else None


def _replace(
    plan: WritePlan, results: Sequence[WriteTaskResult], attempt: Attempt, search: Search
) -> AppendResult:
    """Delete the rows that match at the head and add the new rows, in one commit."""
    assert isinstance(plan.options.predicate, str)
    replacement = Replacement(
        plan.options.predicate, _fragments(results), allow_empty=bool(plan.options.allow_empty)
    )
    replaced = commit_replacement(attempt, replacement, search)
    result = _result(plan, results, attempt, replaced.done)
    if not result.changed:
        return result
    return replace(
        result,
        rows_deleted=replaced.rows_deleted,
        fragments_updated=replaced.fragments_updated,
        fragments_removed=replaced.fragments_removed,
    )


def _commit_or_join(plan: WritePlan, results: Sequence[WriteTaskResult], attempt: Attempt) -> CommitResult:
    """Commit; a dataset created concurrently by another writer leads to a new plan instead of a failure."""
    try:
        return _commit(plan, _fragments(results), attempt)
    except DatasetExistsError as error:
        if plan.options.mode == "create":
            raise
        raise RetryableCommitConflictError(
            "another writer created the dataset",
            ours="its creation",
            theirs="version 1",
            version=1,
            path=plan.uri,
        ) from error


def _fragments(results: Sequence[WriteTaskResult]) -> tuple[Fragment, ...]:
    return tuple(fragment for result in results for fragment in result.fragments)


def _replan(
    plan: WritePlan, results: Sequence[WriteTaskResult], attempt: Attempt
) -> tuple[WritePlan, Sequence[WriteTaskResult]]:
    """Plan again on the head, with the files of the results, or with new ones for another schema."""
    head, task = attempt.dataset, plan.task
    current = replace(plan, dataset=head, mode=plan.options.mode)
    if _has_based_blobs(task) and not task.base_uris.items() <= head.bases.blob_uris.items():
        raise CommitConflictError(
            "the bases of the dataset, which blobs are named relative to, changed after the data was written",
            ours=f"{plan.options.mode} on version {plan.dataset.version if plan.dataset else 0}",
            theirs=f"version {head.version}",
            version=head.version,
            path=plan.uri,
            hint="run it again",
        )
    if plan.options.mode not in KEEPS_SCHEMA or _same_layout(task, head):
        _check_files(current, results)
        return current, results
    if plan.options.mode != "append" or not _same_version(task, head):
        raise CommitConflictError(
            "the schema or the storage version of the dataset changed after the data was written",
            ours=f"{plan.options.mode} on version {plan.dataset.version if plan.dataset else 0}",
            theirs=f"version {head.version}",
            version=head.version,
            path=plan.uri,
            hint="run it again",
        )
    if task.job_key is not None and find_job(head, task.job_key) is not None:
        return current, results
    _check_files(current, results)
    with_rows = [result for result in results if result.fragments]
    parts = recast(task, plan.dataset, with_rows, head, runner=attempt.run.runner, report=attempt.run.report)
    attempt.written.extend(path for part in parts for path in part.paths)
    return current, parts


def _same_version(task: WriteTask, head: Dataset) -> bool:
    try:
        check_side_by_side(head, task.storage_version)
    except InvalidArgumentError:
        return False
    return True


def _same_layout(task: WriteTask, head: Dataset) -> bool:
    return _same_version(task, head) and head.lance_schema.fields == task.schema.fields


def _result(
    plan: WritePlan, results: Sequence[WriteTaskResult], attempt: Attempt, done: CommitResult | None
) -> AppendResult:
    common = attempt.common(done)
    if done is None:
        return AppendResult(**common, mode=plan.mode)
    if done.already_committed:
        return AppendResult(**common, mode=plan.mode, transaction_uuid=done.transaction.uuid)
    replaced = len(plan.dataset.fragments) if plan.mode == "overwrite" and plan.dataset is not None else 0
    return AppendResult(
        **common,
        mode=plan.mode,
        rows_added=sum(result.rows for result in results),
        fragments_added=sum(len(result.fragments) for result in results),
        fragments_removed=replaced,
        bytes_written=sum(result.bytes_written for result in results),
        transaction_uuid=done.transaction.uuid,
    )


_BYTES_PER_TASK = 128 << 20


@overload
def write_dataset(
    data: Any,
    uri_or_dataset: Target,
    *,
    mode: Mode = "create",
    predicate: str | Callable[[pa.Schema], str] | None = None,
    allow_empty: bool | None = None,
    dry_run: Literal[False] = False,
    **options: Unpack[IngestOptions],
) -> AppendResult: ...
@overload
def write_dataset(
    data: Any,
    uri_or_dataset: Target,
    *,
    mode: Mode = "create",
    predicate: str | Callable[[pa.Schema], str] | None = None,
    allow_empty: bool | None = None,
    dry_run: bool,
    **options: Unpack[IngestOptions],
) -> AppendResult | WritePreview: ...
@public(uri="uri_or_dataset", data_obj="data", transaction_properties="properties")
@cleans_up
def write_dataset(
    data: Any,
    uri_or_dataset: Target,
    *,
    mode: Mode = "create",
    predicate: str | Callable[[pa.Schema], str] | None = None,
    allow_empty: bool | None = None,
    dry_run: bool = False,
    **options: Unpack[IngestOptions],
) -> AppendResult | WritePreview:
    """Write data to a dataset in one commit.

    Columns are matched by name. A column fits if its type is that of the dataset, or every value can be
    converted without loss (see `maintenance.ingest.conform`); all mismatches are listed in one error before
    anything is written.

    Args:
        data: Paths, directories or globs of Parquet, Arrow IPC, CSV, TSV, JSON, ORC or Avro files, also
            compressed; a Lance table; `read_files` has their options, and `read_query` reads databases. Or
            an Arrow table, batch, reader, dataset or iterable of batches; a list of dicts or a dict of
            columns; a pandas DataFrame, whose named index levels become columns; a Polars frame; a
            `datasets.Dataset`; any object that exports an Arrow stream. Read as a stream.
        uri_or_dataset: URI or path where the dataset is or shall be, or a `Dataset`.
        mode: "create" wants no dataset there; "append" adds rows, and creates the dataset if there is none;
            "overwrite" replaces schema and rows in a new version; "replace_where" replaces the rows that
            match `predicate`, in one commit, and creates the dataset if there is none.
        predicate: SQL, for "replace_where". Rows for which it is true are deleted; every row of the data must
            match it, so that the next replacement finds all of them. Or a function from the schema of the
            dataset to the SQL.
        allow_empty: Allow data without rows to replace rows, which are then deleted. The default None allows
            this in mode "overwrite" but not in "replace_where".
        dry_run: Return a preview of the columns and casts, and write nothing. Of the data the schema is read
            only; a mismatch is raised.
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
    given = source = open_source(data)
    store, head = open_target(uri_or_dataset, chosen.storage_options)
    if mode in KEEPS_SCHEMA and head is not None:
        source = source.typed_by(head.schema)
    plan = plan_write_on(store, head, source.read_schemas, chosen)
    if dry_run:
        is_done = plan.committed_version is not None
        sources = ([], []) if is_done else (given.read_schemas(), source.read_schemas())
        return preview_write(plan, *sources)
    runner, progress = options.get("runner") or LocalRunner(), options.get("progress")
    results: list[WriteTaskResult] = []
    if plan.committed_version is None:
        results = _write(plan, source, runner, Reporter("append", progress))
    else:
        leave_unread(source)
    max_replans = options.get("max_replans", WRITE_REPLANS)
    return commit_write(plan, results, max_replans=max_replans, progress=progress, runner=runner)


@overload
def append(
    uri_or_dataset: Target,
    data: Any,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[IngestOptions],
) -> AppendResult: ...
@overload
def append(
    uri_or_dataset: Target, data: Any, *, dry_run: bool, **options: Unpack[IngestOptions]
) -> AppendResult | WritePreview: ...
@public(uri="uri_or_dataset", data_obj="data", transaction_properties="properties")
def append(
    uri_or_dataset: Target, data: Any, *, dry_run: bool = False, **options: Unpack[IngestOptions]
) -> AppendResult | WritePreview:
    """Add rows to a dataset, or create it; see `write_dataset` for the data and what it raises.

    Args:
        uri_or_dataset: URI or path where the dataset is or shall be, or a `Dataset`.
        data: See `write_dataset`.
        dry_run: See `write_dataset`.
        **options: See `IngestOptions` and `RunOptions`.

    Examples:
        >>> lo.append("new.lance", pa.table({"id": [1, 2, 3]})).rows_added
        3
    """
    return write_dataset(data, uri_or_dataset, mode="append", dry_run=dry_run, **options)


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
    if head is not None:
        source = source.typed_by(head.schema)
    plan = plan_write_on(store, head, source.read_schemas, chosen)
    return plan_replacement(
        plan.uri,
        plan.dataset,
        str(plan.options.predicate),
        options.get("runner") or LocalRunner(),
        Reporter("append", options.get("progress")),
    )


def _write(plan: WritePlan, source: Source, runner: Runner, report: Reporter) -> list[WriteTaskResult]:
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
    return [write_task(plan.task, _reported(source, report), durable=durable)]


def _reported(source: Source, report: Reporter) -> Iterator[pa.RecordBatch]:
    rows, total = 0, None if report.listener is None else source.num_rows()
    for batch in source.batches():
        yield batch
        rows += batch.num_rows
        report("writing rows", rows, total, unit="rows")


@dataclass(frozen=True, slots=True)
class _FilesTask:
    task: WriteTask
    source: Source


def _write_files(work: _FilesTask) -> WriteTaskResult:
    return write_task(work.task, work.source.batches())
