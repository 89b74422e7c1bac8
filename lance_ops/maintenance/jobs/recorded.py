"""Recorded task: run once per job by the first attempt, with a recorded result."""

from collections.abc import Callable
from typing import TypeVar

from lance_ops.maintenance.jobs.ending import end_job
from lance_ops.maintenance.jobs.folder import JobFolder
from lance_ops.maintenance.jobs.results import TaskName, TaskRecord, put_result, read_result

Result = TypeVar("Result")


def do_recorded(
    job: JobFolder,
    name: TaskName,
    do: Callable[[], Result],
    *,
    encode: Callable[[Result], TaskRecord],
    decode: Callable[[TaskRecord], Result],
    discard: Callable[[Result], None],
) -> Result:
    """Run a task, unless another attempt has done so, and record the result.

    Args:
        job: The job of the records.
        name: Name of the result.
        do: Runs the task, possibly twice.
        encode: Converts a result to a record.
        decode: Reads a record of an earlier attempt.
        discard: Removes the files of a superseded result.

    Raises:
        JobCancelledError: The job has ended; files of this attempt are removed.
        LanceOpsError: As `do`.
    """
    job.check_open()
    found = read_result(job, name)
    if found is not None:
        return decode(found)
    result = do()
    # If the store fails here, the record may exist: then the files are left to the end of the job.
    if not put_result(job, encode(result)):
        first = read_result(job, name)
        if first is not None:
            discard(result)
            result = decode(first)
    if not job.is_open():
        # The end of the job may have checked before the record existed.
        end_job(job, settle=False)
        raise job.ended()
    return result
