"""Work of a compaction: rounds of planning, each with tasks and commits.

Groups are committed in the order in which they were planned, as soon as enough of them are finished. A group
with a conflict is planned again in the next round; one whose task failed is skipped and reported.

With a job key, plan and results are records of the job (`recorded`): a restarted run continues from them, and
a concurrent one shares them. The last commit has the key. A failed run leaves its records to the next one; an
interrupted or cancelled one removes them.

`plan_round` plans a round, `commit_round` commits it, and `outcome` has the totals.
"""

from collections.abc import Sequence

from lance_ops.errors import NotFoundError, RetryableCommitConflictError, StorageError
from lance_ops.maintenance.compact.commit_round import RoundCommitter, forget_lost_files
from lance_ops.maintenance.compact.outcome import Outcome
from lance_ops.maintenance.compact.plan_round import RoundPlanner
from lance_ops.maintenance.compact.recorded import (
    DoneWork,
    RecordedTask,
    decode_result,
    rewrite_recorded,
)
from lance_ops.maintenance.compact.rewrite import RewriteResult, discard_rewrites, rewrite_group
from lance_ops.maintenance.compact.round import Round
from lance_ops.maintenance.engine import Attempt
from lance_ops.maintenance.progress import ByteProgress
from lance_ops.maintenance.runner import task_failed
from lance_ops.maintenance.tasks import Attempted, attempt_tasks, is_not_committed
from lance_ops.maintenance.vanished import reading

_MESSAGE = "rewriting groups of fragments"


class Work:
    """One call of `compact`, over its rounds of planning.

    Args:
        so_far: Its outcome, empty at first.
    """

    def __init__(self, so_far: Outcome) -> None:
        self.so_far = so_far
        self.run = so_far.run
        self.driver = so_far.driver
        self.job = so_far.job
        self._planner = RoundPlanner(so_far)
        self._committer = RoundCommitter(so_far)
        self._gave_up = False

    @property
    def is_done(self) -> bool:
        """True if nothing is left for a later run of the job."""
        return not self.so_far.failures and not self._gave_up

    def round(self, attempt: Attempt) -> None:
        """Plan from the head, or use the recorded plan; rewrite and commit.

        Raises:
            RetryableCommitConflictError: some groups had conflicts; the others are committed.
            TaskFailedError: all tasks failed; nothing is committed.
        """
        if attempt.replans.count:
            self.so_far.head = attempt.dataset
        for _ in range(1 + self.run.max_replans):
            if not self._round():
                break
            # Some groups of the recorded plan were changed by others since: they are planned again.
            self.so_far.head = self.so_far.head.latest()
        if self.so_far.failures and not self.so_far.commits and not self.so_far.committed:
            error = self.so_far.failures[0][1]
            raise task_failed(0, len(self.so_far.failures), error) from error

    def note_conflict(self, conflict: RetryableCommitConflictError) -> None:
        """Record a conflict that leads to another round."""
        self.so_far.note(f"planned again after: {conflict.theirs}")

    def note_loss(self, conflict: RetryableCommitConflictError) -> None:
        """Record the conflict after which there are no more rounds."""
        self._gave_up = True
        self.so_far.note(f"gave some groups up after: {conflict.theirs}")

    def _round(self) -> bool:
        """Run one plan with its tasks and commits; returns whether another round must follow."""
        options = self._planner.budget_left()
        if options is None:
            return False
        current, done = self._planner.plan(options)
        if not current.tasks:
            return current.outdated
        try:
            self._take_over(current, done)
            taken = current.bytes_of(current.results)
            progress = ByteProgress(self.run.report, _MESSAGE, len(current.tasks), current.bytes_total)
            progress.start(len(current.results), taken)
            while current.undone() or current.results:
                self._execute(current, progress)
                self._committer.commit_ready(current, rest=True)
        except BaseException as error:
            # An interrupt may come at any time; results given to a commit are not in `results`.
            if self.job is None and (is_not_committed(error) or not isinstance(error, Exception)):
                discard_rewrites(self.so_far.head.store, list(current.results.values()))
            raise
        self.so_far.failures += [
            (current.tasks[place].group, error) for place, error in sorted(current.failures.items())
        ]
        if current.lost is not None:
            raise current.lost
        return current.outdated

    def _take_over(self, current: Round, done: DoneWork) -> None:
        """Use results of earlier or concurrent runs."""
        for place, name in enumerate(current.names):
            record = done.open.get(name.task)
            if record is not None:
                current.results[place] = decode_result(record, current.tasks[place].group)
        forget_lost_files(self.job, current, list(current.results))
        self.so_far.resumed += len(current.results)

    def _execute(self, current: Round, progress: ByteProgress) -> None:
        """Run all tasks without a result, and commit in between if requested."""
        self._committer.commit_ready(current, rest=False)
        for is_again in (False, True):
            places = current.undone()
            if places:
                self._run_tasks(current, places, progress)
            for place in set(places).intersection(current.failures):
                # A store that failed once may work shortly after.
                if is_again or not isinstance(current.failures[place], StorageError):
                    current.settled.add(place)

    def _run_tasks(self, current: Round, places: Sequence[int], progress: ByteProgress) -> None:
        def note(number: int, outcome: Attempted[RewriteResult]) -> None:
            place = places[number]
            if outcome.result is None:
                current.failures[place] = outcome.failure()
            else:
                current.failures.pop(place, None)
                current.results[place] = outcome.result
                progress.add(current.tasks[place].group.data_bytes)
            if self.driver is not None:
                self.driver.check()
            self._committer.commit_ready(current, rest=False)

        tasks = [current.tasks[place] for place in places]
        runner = self.run.runner
        if self.job is None:
            attempt_tasks(runner, rewrite_group, tasks, on_done=note)
        else:
            recorded = [
                RecordedTask(task, self.job, current.names[place])
                for place, task in zip(places, tasks, strict=True)
            ]
            attempt_tasks(runner, rewrite_recorded, recorded, on_done=note)
        self._retry_removed_versions(current)

    def _retry_removed_versions(self, current: Round) -> None:
        """Identify groups that failed because a cleanup removed their files: they are planned again."""
        missing = [error for error in current.failures.values() if isinstance(error, NotFoundError)]
        if not missing:
            return
        try:
            with reading(current.planned, "a rewrite"):
                raise missing[0]
        except RetryableCommitConflictError as conflict:
            current.lost = conflict
            current.settled.update(current.failures)
            current.failures.clear()
        except NotFoundError:
            return
