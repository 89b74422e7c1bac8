"""Job of new columns: a call with a job key resumes an interrupted one."""

import contextlib
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from lance_ops.errors import JobCancelledError, LanceOpsError
from lance_ops.maintenance.columns.transform import Transform
from lance_ops.maintenance.columns.work import ColumnWork
from lance_ops.maintenance.engine import Attempt, Run
from lance_ops.maintenance.jobs.ending import end_job, end_left_over
from lance_ops.maintenance.jobs.folder import find_open_job, open_job
from lance_ops.maintenance.jobs.lease import Driver
from lance_ops.maintenance.results import OperationResult
from lance_ops.maintenance.tasks import is_not_committed
from lance_ops.table.dataset import Dataset

P = TypeVar("P")
R = TypeVar("R", bound=OperationResult)


def compute_and_commit(
    call: Run,
    transform: Transform,
    plan: Callable[[Dataset], P],
    commit: Callable[[ColumnWork, Attempt, P], R],
    result: Callable[..., R],
) -> R:
    """Plan, compute and commit new columns; with a job key and records, if the store supports them.

    Args:
        call: The call.
        transform: Source of the values.
        plan: See `Run.execute`.
        commit: See `Run.execute`, with the work.
        result: See `Run.execute`.
    """
    key = call.commits.job_key
    if key is None or not call.store.supports_put_if_absent:
        work = ColumnWork(call, transform)
        try:
            return call.execute(plan, partial(commit, work), result)
        except Exception as error:
            if is_not_committed(error):
                work.discard()
            raise
    found = call.find_job()
    if found is not None:
        with contextlib.suppress(LanceOpsError):
            end_left_over(call.store, key, settle=False)
        return result(**found)
    return _recorded(call, key, transform, plan, commit, result)


def _recorded(
    call: Run,
    key: str,
    transform: Transform,
    plan: Callable[[Dataset], P],
    commit: Callable[[ColumnWork, Attempt, P], R],
    result: Callable[..., R],
) -> R:
    opened = find_open_job(call.store, key)
    # The cancellation was meant for an earlier run, not for this one.
    if opened is not None and opened[0].is_cancelled():
        end_job(opened[0], settle=True)
    name = call.report.operation
    job, _ = open_job(call.store, key, operation=name, version=call.dataset.version, options={})
    with Driver(job) as driver:
        work = ColumnWork(call, transform, driver)
        try:
            done = call.execute(plan, partial(commit, work), result)
        except JobCancelledError:
            found = call.find_job(by_now=True)
            with contextlib.suppress(LanceOpsError):
                end_job(job, settle=True)
            if found is None:
                raise
            # Another run of the job finished it, with the files of this one.
            return result(**found)
        except Exception:
            # The next run of the job continues from here.
            raise
        except BaseException:
            with contextlib.suppress(LanceOpsError):
                if not driver.others():
                    end_job(job, settle=True)
            raise
    with contextlib.suppress(LanceOpsError):
        end_job(job, settle=False, committed=work.committed)
    return done
