"""Compaction: merge small fragments and purge deleted rows; rows, order and query results are unchanged.

Groups are rewritten as tasks; then one ReserveFragments commit gives the new fragments their ids, their
indices are remapped, and one Rewrite commit replaces the old fragments. Rows keep their order within and
among rewritten groups; since a table lists fragments by id, rewritten groups come after the other fragments,
as in pylance.

Rows that other writers delete or update meanwhile are deleted in the new fragments. When one rewrites some of
the fragments, or replaces values in place, the unaffected groups are committed and only the others are
planned and written again.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal, Unpack, cast, overload

from lance_ops._removed import CALIBRATION_REMOVED, MONEY_REMOVED
from lance_ops.errors import (
    InvalidArgumentError,
    JobCancelledError,
    JobUnprovenError,
    LanceOpsError,
    RetryableCommitConflictError,
    check_type,
    public,
)
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.compact.options import (
    CompactionChoices,
    CompactionOptions,
    resolve_options,
)
from lance_ops.maintenance.compact.plan import CompactionPlan, plan_compaction
from lance_ops.maintenance.compact.recorded import options_of, options_values
from lance_ops.maintenance.compact.rounds import run_round
from lance_ops.maintenance.compact.state import Accuracy, Compaction
from lance_ops.maintenance.engine import Common, Run
from lance_ops.maintenance.jobs.ending import end_job, end_left_over
from lance_ops.maintenance.jobs.folder import find_open_job, open_job
from lance_ops.maintenance.jobs.lease import Driver
from lance_ops.maintenance.progress import Progress
from lance_ops.maintenance.results import CompactResult
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.runner import Runner, slots_of
from lance_ops.maintenance.target import Target, store_of
from lance_ops.table.commit.committer import Committer
from lance_ops.table.transaction.transaction import check_job_key

_OPERATION = "compact"


class CompactArguments(CompactionChoices, RunOptions, total=False):
    """Keyword arguments of `compact`: `CompactionChoices` and `RunOptions`."""


@overload
def compact(
    uri_or_dataset: Target,
    *,
    options: CompactionOptions | None = None,
    dry_run: Literal[False] = False,
    resume: bool = True,
    **run: Unpack[CompactArguments],
) -> CompactResult: ...
@overload
def compact(
    uri_or_dataset: Target,
    *,
    options: CompactionOptions | None = None,
    dry_run: Literal[True],
    resume: bool = True,
    **run: Unpack[CompactArguments],
) -> CompactionPlan: ...
@overload
def compact(
    uri_or_dataset: Target,
    *,
    options: CompactionOptions | None = None,
    dry_run: bool,
    resume: bool = True,
    **run: Unpack[CompactArguments],
) -> CompactResult | CompactionPlan: ...
@public(target="uri_or_dataset", batch_size="batch_rows", budget_money="budget_money", costs="costs")
@cleans_up
def compact(
    uri_or_dataset: Target,
    *,
    options: CompactionOptions | None = None,
    dry_run: bool = False,
    resume: bool = True,
    **run: Unpack[CompactArguments],
) -> CompactResult | CompactionPlan:
    """Merge small fragments and purge deleted rows of a dataset.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        options: All choices at once instead of one by one; the table's config is not asked then.
        dry_run: Return the plan and do nothing.
        resume: Under a job key, go on where an earlier run of the job was broken off, and share the work with
            one that is under way; else start again, which ends these.
        **run: See `CompactionChoices` and `RunOptions`. Under a job key, the last commit of the compaction
            bears it; plan and results of tasks are kept in the dataset until then.

    Raises:
        UnsupportedTypeError: the requested storage version does not support a column.
        RetryableCommitConflictError: every group had conflicts with other writers, `max_replans` times.
        CommitConflictError: another commit contradicts the compaction.
        TaskFailedError: all tasks failed; nothing is committed. When only some do, the others are committed,
            and the result names the groups that failed (`failed`).
        JobCancelledError: the job was ended while this run was at work; nothing of it is left but what
            was committed.

    Examples:
        >>> lo.compact("events.lance").changed
        True
        >>> len(lo.dataset("events.lance").fragments)
        1
    """
    chosen, how = _split(run)
    call = Run.start("compact", uri_or_dataset, how)
    warnings: tuple[str, ...] = ()
    if options is not None:
        check_type(options, CompactionOptions, "CompactionOptions", field="options")
    if options is None:
        options, warnings = resolve_options(call.dataset.config, chosen)
    elif chosen:
        raise InvalidArgumentError("use either options or single options", field="options")
    accuracy = Accuracy(slots_of(call.runner))
    if dry_run:
        return plan_compaction(call.dataset, options, warnings=warnings, slots=accuracy.slots)
    job_key = call.commits.job_key
    found, is_unproven = _find_done(call)
    if found is not None and job_key is not None:
        notes = _noted(lambda: end_left_over(call.store, job_key, settle=False))
        return CompactResult(**found, notes=notes)
    if job_key is None or not call.store.supports_put_if_absent:
        return _run(Compaction(call, options, warnings, accuracy))
    return _run_recorded(
        Compaction(call, options, warnings, accuracy, is_unproven=is_unproven), job_key, resume=resume
    )


@public(target="uri_or_dataset")
def resume_job(
    uri_or_dataset: Target,
    job_key: str,
    *,
    runner: Runner | None = None,
    progress: Progress | None = None,
    properties: Mapping[str, str] | None = None,
    committer: Committer | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> CompactResult:
    """Resume an interrupted compaction, with its original options.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        job_key: Its key, see `list_jobs`.
        runner: See `RunOptions`, as the others.
        progress: See `RunOptions`.
        properties: See `RunOptions`.
        committer: See `RunOptions`.
        storage_options: See `RunOptions`.

    Raises:
        InvalidArgumentError: There is no such unfinished compaction.
        LanceOpsError: As `compact`.

    Examples:
        >>> for job in lo.list_jobs("events.lance"):
        ...     done = lo.resume_job("events.lance", job.key)
    """
    check_job_key(job_key)
    store = store_of(uri_or_dataset, storage_options)
    found = find_open_job(store, job_key)
    if found is None or found[1].operation != _OPERATION:
        raise InvalidArgumentError(
            f"no unfinished compaction {job_key!r}",
            path=store.uri,
            field="job_key",
            hint="lance-ops jobs lists the unfinished ones",
        )
    return compact(
        uri_or_dataset,
        options=options_of(found[1].options),
        job_key=job_key,
        runner=runner,
        progress=progress,
        properties=properties,
        committer=committer,
        storage_options=storage_options,
    )


def _split(arguments: CompactArguments) -> tuple[dict[str, object], RunOptions]:
    """Split arguments into `CompactionChoices` and run options."""
    removed: Mapping[str, object] = arguments
    if removed.get("budget_money") is not None:
        raise InvalidArgumentError(MONEY_REMOVED, field="budget_money")
    if removed.get("costs") is not None:
        raise InvalidArgumentError(f"costs was removed: {CALIBRATION_REMOVED}", field="costs")
    names = CompactionChoices.__annotations__
    chosen: dict[str, object] = {
        name: value for name, value in arguments.items() if name in names and value is not None
    }
    if "data_storage_version" in chosen:
        chosen["migrate"] = True
    run = {name: value for name, value in arguments.items() if name not in names}
    return chosen, cast("RunOptions", run)


def _run(compaction: Compaction) -> CompactResult:
    """All rounds of a compaction."""
    try:
        compaction.run.replanned(
            lambda attempt: run_round(compaction, attempt),
            on_conflict=lambda conflict: compaction.note(f"planned again after: {conflict.theirs}"),
        )
    except RetryableCommitConflictError as conflict:
        # What was committed stands, and the fragments that lost are still there for the next run.
        if not compaction.commits:
            raise
        compaction.gave_up = True
        compaction.note(f"gave some groups up after: {conflict.theirs}")
    return compaction.result()


def _run_recorded(compaction: Compaction, job_key: str, *, resume: bool) -> CompactResult:
    """The same under a job key, with records from which another run goes on."""
    call = compaction.run
    store = call.store
    found = find_open_job(store, job_key)
    # A cancelled run may end before it notices: the cancellation was meant for that run, not for this one.
    if found is not None and (not resume or found[0].is_cancelled()):
        end_job(found[0], settle=True)
    job, _ = open_job(
        store,
        job_key,
        operation=_OPERATION,
        version=call.dataset.version,
        options=options_values(compaction.options),
    )
    with Driver(job) as driver:
        compaction.driver = driver
        try:
            result = _run(compaction)
        except JobCancelledError:
            done, _ = _find_done(call, by_now=True)
            notes = _noted(lambda: end_job(job, settle=True, committed=compaction.committed))
            if done is None:
                raise
            # Another run of the job finished it, with the results of this one.
            return CompactResult(**done, notes=notes)
        except Exception:
            # The next run of the job continues from here.
            raise
        except BaseException:
            # A failing store must not hide the interrupt.
            with contextlib.suppress(LanceOpsError):
                if not driver.others():
                    end_job(job, settle=True, committed=compaction.committed)
            raise
    if compaction.is_done:
        notes = _noted(lambda: end_job(job, settle=False, committed=compaction.committed))
        result = replace(result, notes=(*result.notes, *notes))
    return result


def _find_done(call: Run, *, by_now: bool = False) -> tuple[Common | None, bool]:
    """Return the commits of other runs under the job key; or that this is unknown, while the job is open.

    Another library's cleanup may have removed the versions with the answer. An open job continues anyway:
    each recorded result is committed once, and compacting again changes no row.
    """
    try:
        return call.find_job(by_now=by_now), False
    except JobUnprovenError:
        key = call.commits.job_key
        found = None if key is None else find_open_job(call.store, key)
        if not by_now and (found is None or found[1].operation != _OPERATION):
            raise
        return None, True


def _noted(end: Callable[[], object]) -> tuple[str, ...]:
    """End a finished or failed job: a store error here only leaves files behind."""
    try:
        end()
    except LanceOpsError as error:
        return (f"the records of the job are left to its next run, or to a cleanup: {error}",)
    return ()
