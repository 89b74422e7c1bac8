"""Ingest commit: one commit of all parts of the data written by tasks."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lance_ops.errors import (
    CommitConflictError,
    DatasetExistsError,
    InvalidArgumentError,
    RetryableCommitConflictError,
)
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.ingest.options import KEEPS_SCHEMA, WRITE_REPLANS
from lance_ops.maintenance.ingest.plan import WritePlan
from lance_ops.maintenance.ingest.recast import recast
from lance_ops.maintenance.ingest.replacement import Replacement, Search, commit_replacement
from lance_ops.maintenance.ingest.task import WriteTask, WriteTaskResult
from lance_ops.maintenance.progress import Progress
from lance_ops.maintenance.results import AppendResult
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.runner import Runner
from lance_ops.maintenance.target import (
    check_side_by_side,
)
from lance_ops.maintenance.tasks import is_not_committed, remove_files
from lance_ops.table.commit.jobs.job_keys import find_job
from lance_ops.table.commit.jobs.left_over import find_left_over
from lance_ops.table.commit.request import CommitRequest, CommitResult
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.transaction.operations import Append, Overwrite


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
    a restore may have undone that other commit (see `lance_ops.table.commit.jobs.left_over`).
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
        ),
        # Data without rows are no job done, be there a dataset or not: those that come later count.
        is_job=bool(fragments) or plan.options.mode not in KEEPS_SCHEMA,
    )


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
