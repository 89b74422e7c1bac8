"""Runner of tasks on Spark's executors, by DataFrames only, so that it also works with Spark Connect."""

import math
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from typing import TypeVar

from lance_ops import _extra_spark as _extra_spark

# isort: split
import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lance_ops.errors import InvalidArgumentError, LanceOpsError, TaskFailedError
from lance_ops.maintenance.runner import OnDone, task_failed
from lance_ops.spark.transport import (
    SPARK_ERRORS,
    Outcome,
    dump_task,
    load_outcome,
    run_task,
    session_attempts,
    spark_reason,
)

T = TypeVar("T")
R = TypeVar("R")

_JOBS = 64
_UNKNOWN_SLOTS = 64
_OUTCOMES = "task long, outcome binary"


class SparkRunner:
    """Runs tasks on the executors of a Spark session; see `Runner` for its contract.

    The tasks are divided into at most 64 Spark jobs with one partition for each task, of which enough run at
    once to keep the cluster busy. So results arrive while others still run, and after a failure the remaining
    jobs are not started. On a cluster, Spark runs a task again when its executor dies; the files of the first
    run wait for the grace period of cleanup.

    Args:
        spark: The session, classic or Spark Connect. The executors must be able to import lance_ops, and to
            access the dataset.
        slots: Tasks that the executors run at once; default from Spark.
        jobs: Maximum Spark jobs of a call. Results arrive by jobs, and a failure stops those that have not
            started; with one job all results arrive at the end.

    Raises:
        InvalidArgumentError: slots or jobs is out of range.
    """

    def __init__(self, spark: SparkSession, *, slots: int | None = None, jobs: int = _JOBS) -> None:
        if slots is not None and slots < 1:
            raise InvalidArgumentError(f"slots must be at least 1, got {slots}", field="slots")
        if not 1 <= jobs <= _JOBS:
            raise InvalidArgumentError(f"jobs must be 1 to {_JOBS}, got {jobs}", field="jobs")
        self.spark = spark
        self._slots = slots
        self._jobs = jobs

    def __repr__(self) -> str:
        return f"SparkRunner(slots={self.slots})"

    def with_jobs(self, jobs: int) -> "SparkRunner":
        """Return a runner on the same session with a maximum number of Spark jobs per call."""
        return SparkRunner(self.spark, slots=self._slots, jobs=jobs)

    @property
    def slots(self) -> int:
        """Tasks that the executors run at once, as far as known."""
        if self._slots is not None:
            return self._slots
        try:
            # Executors come and go, so this is read each time.
            return int(self.spark.sparkContext.defaultParallelism)
        except PySparkException:
            # Unknown on Spark Connect. Too many jobs at once do no harm, too few would idle a cluster.
            return _UNKNOWN_SLOTS

    def map(
        self, function: Callable[[T], R], tasks: Sequence[T], *, on_done: OnDone[R] | None = None
    ) -> list[R]:
        """See `Runner.map`.

        Raises:
            TaskFailedError: A task failed, or Spark gave up on it (its own error is the cause).
            StorageFullError: A task found no space left.
            PermissionDeniedError: The store refused a task.
            InvalidArgumentError: A task cannot be pickled.
        """
        payloads = [dump_task(task) for task in tasks]
        size = max(1, math.ceil(len(payloads) / self._jobs))
        shares = [range(start, min(start + size, len(payloads))) for start in range(0, len(payloads), size)]
        results: dict[int, R] = {}
        failure: LanceOpsError | None = None
        with closing(self._outcomes(function, payloads, shares)) as outcomes:
            for index, outcome in outcomes:
                if isinstance(outcome, TaskFailedError):
                    failure = failure or outcome
                elif outcome.error is not None:
                    failure = failure or _failed(index, len(payloads), outcome.error)
                else:
                    results[index] = outcome.value
                    if on_done is not None:
                        on_done(index, outcome.value)
        if failure is not None:
            raise failure
        return [results[index] for index in range(len(payloads))]

    def _outcomes(
        self, function: Callable[[T], R], payloads: Sequence[bytes], shares: Sequence[range]
    ) -> Generator[tuple[int, Outcome | TaskFailedError], None, None]:
        """Yield (task, outcome) of all tasks as their jobs end; no job is started after a failure."""
        waiting = list(reversed(shares))
        running: dict[Future[list[tuple[int, Outcome]]], range] = {}
        tag = f"lance_ops-{uuid.uuid4()}"
        with ThreadPoolExecutor(_JOBS, thread_name_prefix="lance-ops-spark") as pool:
            try:
                while waiting or running:
                    while waiting and len(running) < self._jobs_at_once(len(shares[0])):
                        share = waiting.pop()
                        # Wrapped for each job: threads that share Spark's local properties confuse its UI.
                        job = inheritable_thread_target(self.spark)(self._run_job)
                        running[pool.submit(job, function, [payloads[i] for i in share], share, tag)] = share
                    for ended in wait(running, return_when=FIRST_COMPLETED).done:
                        share = running.pop(ended)
                        outcomes = _job_outcomes(ended, share, len(payloads))
                        if any(isinstance(out, TaskFailedError) or out.error for _, out in outcomes):
                            waiting.clear()
                        yield from outcomes
            except BaseException:
                # Interrupted, or the listener failed: leaving the pool waits for the jobs, so end them.
                with suppress(*SPARK_ERRORS):
                    self.spark.interruptTag(tag)
                raise

    def _jobs_at_once(self, tasks_per_job: int) -> int:
        """Twice the tasks that can run, so that no slot waits for the driver."""
        return min(_JOBS, max(2, math.ceil(2 * self.slots / tasks_per_job)))

    def _run_job(
        self, function: Callable[[T], R], payloads: list[bytes], share: range, tag: str
    ) -> list[tuple[int, Outcome]]:
        attempts = session_attempts(self.spark)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for task in batch.column(0).to_pylist():
                    outcome = run_task(function, payloads[task], attempts)
                    yield pa.RecordBatch.from_pydict({"task": [task], "outcome": [outcome]})

        self.spark.addTag(tag)
        count = len(payloads)
        # A range gives each task its own partition without a shuffle, which a lost executor would break.
        rows = self.spark.range(0, count, 1, count).mapInArrow(run, _OUTCOMES).collect()
        return [(share[row["task"]], load_outcome(bytes(row["outcome"]))) for row in rows]


def _job_outcomes(
    job: Future[list[tuple[int, Outcome]]], share: range, total: int
) -> Sequence[tuple[int, Outcome | TaskFailedError]]:
    try:
        return job.result()
    except SPARK_ERRORS as error:
        return [(share[0], gave_up(share, total, error))]


def gave_up(share: range, total: int, error: Exception) -> TaskFailedError:
    """Return the error when Spark itself failed on some of `total` tasks."""
    which = (
        f"task {share[0] + 1}" if len(share) == 1 else f"one of the tasks {share[0] + 1} to {share[-1] + 1}"
    )
    failed = TaskFailedError(
        f"Spark gave up on {which} of {total}: {spark_reason(error)}; nothing was committed",
        hint="see Spark's log; the executors must have lance_ops installed, access to the dataset and "
        "enough memory",
    )
    failed.__cause__ = error
    return failed


def _failed(index: int, total: int, error: Exception) -> LanceOpsError:
    failed = task_failed(index, total, error)
    failed.__cause__ = error
    return failed
