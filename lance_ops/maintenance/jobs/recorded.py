"""Recorded task: done once for its job, whichever attempt comes first, with its result written down."""

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
    """Do a task, unless another attempt has done so, and write down what came of it.

    Args:
        job: Whose records these are.
        name: Of the result.
        do: Does the task, and may be done twice.
        encode: Makes the record of a result.
        decode: Reads a record of an earlier attempt.
        discard: Removes the files of a result that came too late to count.

    Raises:
        JobCancelledError: The job has ended; nothing of this attempt is left.
        LanceOpsError: As `do`.
    """
    job.check_open()
    found = read_result(job, name)
    if found is not None:
        return decode(found)
    result = do()
    # When the store fails here, the record may be there: then the files are left to the end of the job.
    if not put_result(job, encode(result)):
        first = read_result(job, name)
        if first is not None:
            discard(result)
            result = decode(first)
    if not job.is_open():
        # Whoever ended it may have looked before the record was there.
        end_job(job, settle=False)
        raise job.ended()
    return result
