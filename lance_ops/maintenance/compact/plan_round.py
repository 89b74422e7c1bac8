"""Planning of a round: from the head within the remaining budget, or from the records of the job."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lance_ops.errors import CorruptFileError, NotFoundError
from lance_ops.maintenance.compact.budget import Budget
from lance_ops.maintenance.compact.groups import CompactionGroup
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.outcome import Outcome
from lance_ops.maintenance.compact.plan import plan_compaction
from lance_ops.maintenance.compact.recorded import (
    DoneWork,
    RecordedPlan,
    last_plan,
    options_digest,
    planned_groups,
    put_plan,
    read_plan,
    task_name,
)
from lance_ops.maintenance.compact.round import Round, rewrite_tasks
from lance_ops.maintenance.jobs.results import TaskName, TaskRecord
from lance_ops.maintenance.vanished import reading
from lance_ops.table.dataset import Dataset


class RoundPlanner:
    """Plans the rounds of one call of `compact`.

    Args:
        so_far: Outcome of earlier rounds.
    """

    def __init__(self, so_far: Outcome) -> None:
        self.so_far = so_far
        self.options = so_far.options
        self.accuracy = so_far.accuracy
        self.job = so_far.job
        self._used: Sequence[TaskRecord] = ()
        self._round_taken = 0

    def budget_left(self) -> CompactionOptions | None:
        """Return the options with the remaining budget; None if nothing is left."""
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
            # Estimates alone do not show the remaining budget: the next run has it whole.
            return None
        return replace(self.options, **left)

    def plan(self, options: CompactionOptions) -> tuple[Round, DoneWork]:
        """Return the groups of the next round, and their existing results."""
        job, head = self.job, self.so_far.head
        if job is None:
            return self._round_of(self._plan_from_head(options)), DoneWork()
        digest = options_digest(self.options)
        records = list(job.list())
        number = last_plan(records, digest)
        if number <= self._round_taken:
            groups = self._plan_from_head(options)
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
            # Another run of the job was faster: its plan is used by both.
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
        """Return the rest of a recorded plan.

        Groups with changed fragments are planned again; but a result that a commit can rebase over these
        changes is kept, as in an uninterrupted run.
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
        """Return the unchanged groups of a plan in a version, if they may be committed on the head."""
        found = planned_groups(stored, base, self.so_far.head, self.options)
        groups = [group for group in found if group is not None]
        names = self._round_of(groups, base=base).names
        planned = set(stored.tasks)
        return {name.task: group for name, group in zip(names, groups, strict=True) if name.task in planned}

    @property
    def _failed(self) -> set[tuple[int, ...]]:
        return {group.fragment_ids for group, _ in self.so_far.failures}

    def _plan_from_head(self, options: CompactionOptions) -> Sequence[CompactionGroup]:
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
    """Return an older version of a dataset; None if a cleanup removed it."""
    try:
        return head.checkout_version(version).with_side_sizes()
    except (NotFoundError, CorruptFileError):
        return None
