"""Work of a compaction: rounds of planning, each with its tasks and its commits, and what came of them.

Groups are committed in the order in which they were planned, as soon as enough of them are done. A group that
lost against another writer is planned again in the next round; one whose task failed is left, and named.

Under a job key, plan and results are records of the job (`recorded`): a run that is begun again takes over
what is there, and so does a second one beside it. The last commit of all bears the key. A run that fails
leaves its records to the next one; whoever is interrupted or cancelled leaves nothing.

How a round is committed is in `commit`; `outcome` keeps the account.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lance_ops.errors import CorruptFileError, NotFoundError, RetryableCommitConflictError, StorageError
from lance_ops.maintenance.compact.commit import RoundCommitter, forget_lost_files
from lance_ops.maintenance.compact.estimate import Budget
from lance_ops.maintenance.compact.groups import CompactionGroup
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.outcome import Outcome, Round, rewrite_tasks
from lance_ops.maintenance.compact.plan import plan_compaction
from lance_ops.maintenance.compact.recorded import (
    DoneWork,
    RecordedPlan,
    RecordedTask,
    decode_result,
    last_plan,
    options_digest,
    planned_groups,
    put_plan,
    read_plan,
    rewrite_recorded,
    task_name,
)
from lance_ops.maintenance.compact.rewrite import (
    RewriteResult,
    discard_rewrites,
    rewrite_group,
)
from lance_ops.maintenance.engine import Attempt
from lance_ops.maintenance.jobs.results import TaskName, TaskRecord
from lance_ops.maintenance.progress import ByteProgress
from lance_ops.maintenance.runner import task_failed
from lance_ops.maintenance.tasks import Attempted, attempt_tasks, is_not_committed
from lance_ops.maintenance.vanished import reading
from lance_ops.table.dataset import Dataset


class RoundPlanner:
    """Plans the rounds of one call of `compact`.

    Args:
        so_far: What earlier rounds did.
    """

    def __init__(self, so_far: Outcome) -> None:
        self.so_far = so_far
        self.options = so_far.options
        self.accuracy = so_far.accuracy
        self.job = so_far.job
        self._used: Sequence[TaskRecord] = ()
        self._round_taken = 0

    def budget_left(self) -> CompactionOptions | None:
        """The options with what was used already taken off; None when nothing is left."""
        used = {
            "max_source_fragments": sum(len(result.group.fragments) for result in self.so_far.rewritten)
            + sum(record.values["sources"] for record in self._used),
            "max_source_rows": sum(result.group.live_rows for result in self.so_far.rewritten)
            + sum(record.values["rows"] for record in self._used),
            "max_source_bytes": sum(result.group.data_bytes for result in self.so_far.rewritten)
            + sum(record.values["bytes"] for record in self._used),
        }
        left = {
            name: getattr(self.options, name) - amount
            for name, amount in used.items()
            if getattr(self.options, name) is not None
        }
        if any(amount < 1 for amount in left.values()):
            return None
        if (self.so_far.rewritten or self._used) and Budget.of(self.options).is_set:
            # How much of a budget is left nobody can tell from estimates alone: the next run has it whole.
            return None
        return replace(self.options, **left)

    def plan(self, options: CompactionOptions) -> tuple[Round, DoneWork]:
        """The groups of the next round, and the results of theirs that are there already."""
        job, head = self.job, self.so_far.head
        if job is None:
            return self._round_of(self._plan_anew(options)), DoneWork()
        digest = options_digest(self.options)
        records = list(job.list())
        number = last_plan(records, digest)
        if number <= self._round_taken:
            groups = self._plan_anew(options)
            number += 1
            self._round_taken = number
            current = self._round_of(groups)
            plan = RecordedPlan(
                head.version,
                tuple(group.fragment_ids for group in groups),
                tuple(name.task for name in current.names),
                tuple(group.data_bytes for group in groups),
            )
            if not groups or put_plan(job, number, digest, plan):
                return current, DoneWork()
            # Another run of the job was faster: its plan is that of both.
            records = list(job.list())
        self._round_taken = number
        stored = read_plan(job, number, digest)
        if stored is None:
            return self._round_of([], outdated=True), DoneWork()
        done = DoneWork.read(job, records, head)
        if not self.so_far.rewritten:
            self._used = done.committed
        self.so_far.committed |= {record.name: tuple(record.files) for record in done.committed}
        return self._recorded_round(stored, done), done

    def _recorded_round(self, stored: RecordedPlan, done: DoneWork) -> Round:
        """What is left of a recorded plan.

        Groups whose fragments others changed are left to another planning; but a result that a commit can
        carry over these changes is not made again, as in a run that was not broken off.
        """
        head = self.so_far.head
        over = {record.name.task for record in done.committed}
        over.update(
            task for ids, task in zip(stored.fragments, stored.tasks, strict=True) if ids in self._failed
        )
        on_head = self._standing(stored, head)
        changed = set(stored.tasks) - on_head.keys() - over
        carried = changed & done.open.keys()
        base, groups = head, on_head
        if carried:
            read = _version_of(head, stored.version)
            on_read = {} if read is None else self._standing(stored, read)
            if read is not None and carried & on_read.keys():
                carried &= on_read.keys()
                base, groups = (
                    read,
                    {task: group for task, group in on_read.items() if task in {*on_head, *carried}},
                )
        chosen = [groups[task] for task in stored.tasks if task in groups and task not in over]
        outdated = bool(set(stored.tasks) - groups.keys() - over)
        return self._round_of(chosen, base=base, outdated=outdated, names=done.names)

    def _standing(self, stored: RecordedPlan, base: Dataset) -> dict[str, CompactionGroup]:
        """The groups of a plan that a version has as planned, if they may be committed on the head."""
        found = planned_groups(stored, base, self.so_far.head, self.options)
        groups = [group for group in found if group is not None]
        names = self._round_of(groups, base=base).names
        planned = set(stored.tasks)
        return {name.task: group for name, group in zip(names, groups, strict=True) if name.task in planned}

    @property
    def _failed(self) -> set[tuple[int, ...]]:
        return {group.fragment_ids for group, _ in self.so_far.failures}

    def _plan_anew(self, options: CompactionOptions) -> Sequence[CompactionGroup]:
        failed = {number for ids in self._failed for number in ids}
        if failed:
            options = replace(options, exclude_fragments=options.exclude_fragments | failed)
        with reading(self.so_far.head, "the plan"):
            plan = plan_compaction(self.so_far.head, options, slots=self.accuracy.slots)
        self.accuracy.planned(plan)
        self.so_far.notes = plan.notes
        return plan.groups

    def _round_of(
        self,
        groups: Sequence[CompactionGroup],
        *,
        base: Dataset | None = None,
        outdated: bool = False,
        names: Mapping[str, TaskName] | None = None,
    ) -> Round:
        job, base = self.job, base or self.so_far.head
        tasks = rewrite_tasks(base, groups, self.options, None if job is None else job.names)
        digests = [] if job is None else [task_name(task, self.options) for task in tasks]
        known = names or {}
        return Round(base, tasks, [known.get(digest, TaskName(digest)) for digest in digests], outdated)


def _version_of(head: Dataset, version: int) -> Dataset | None:
    """An older version of a dataset; None when a cleanup removed it."""
    try:
        return head.checkout_version(version).with_side_sizes()
    except (NotFoundError, CorruptFileError):
        return None


_MESSAGE = "rewriting groups of fragments"


class Work:
    """One call of `compact`, over its rounds of planning.

    Args:
        so_far: What it has done, at first nothing.
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
        """Whether nothing is left for a later run of the job."""
        return not self.so_far.failures and not self._gave_up

    def round(self, attempt: Attempt) -> None:
        """Plan from the head, or take the plan that is recorded; rewrite and commit.

        Raises:
            RetryableCommitConflictError: some groups lost against another writer; the others are committed.
            TaskFailedError: all tasks failed that there were; nothing is committed.
        """
        if attempt.replans.count:
            self.so_far.head = attempt.dataset
        for _ in range(1 + self.run.max_replans):
            if not self._round():
                break
            # Some groups of the recorded plan were changed by others since then: they are planned anew.
            self.so_far.head = self.so_far.head.latest()
        if self.so_far.failures and not self.so_far.commits and not self.so_far.committed:
            error = self.so_far.failures[0][1]
            raise task_failed(0, len(self.so_far.failures), error) from error

    def note_conflict(self, conflict: RetryableCommitConflictError) -> None:
        """Remember a conflict that leads to another planning."""
        self.so_far.note(f"planned afresh after: {conflict.theirs}")

    def note_loss(self, conflict: RetryableCommitConflictError) -> None:
        """Remember the conflict after which there is no planning any more."""
        self._gave_up = True
        self.so_far.note(f"gave some groups up after: {conflict.theirs}")

    def _round(self) -> bool:
        """One planning with its tasks and commits; whether another one has to follow."""
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
            # Of an interrupt nobody knows when it came; what was given to a commit is not in `results`.
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
        """Take what runs before this one, or beside it, have done already."""
        for place, name in enumerate(current.names):
            record = done.open.get(name.task)
            if record is not None:
                current.results[place] = decode_result(record, current.tasks[place].group)
        forget_lost_files(self.job, current, list(current.results))
        self.so_far.resumed += len(current.results)

    def _execute(self, current: Round, progress: ByteProgress) -> None:
        """Have all tasks done that nobody did before, and commit on the way when that was asked for."""
        self._committer.commit_ready(current, rest=False)
        for is_again in (False, True):
            places = current.undone()
            if places:
                self._run_tasks(current, places, progress)
            for place in set(places).intersection(current.failures):
                # A store that failed once may work a moment later.
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
        self._look_for_the_version(current)

    def _look_for_the_version(self, current: Round) -> None:
        """Tell groups that failed because a cleanup removed what they read: they are planned again."""
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
