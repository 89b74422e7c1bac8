"""Rounds of a compaction: each is planned, its tasks are run, and their results are committed.

Groups are committed in the order in which they were planned, as soon as enough of them are finished. A group
with a conflict is planned again in the next round; one whose task failed is skipped and reported.

With a job key, plan and results are records of the job (`recorded`): a restarted run continues from them, and
a concurrent one shares them. The last commit has the key. A failed run leaves its records to the next one; an
interrupted or cancelled one removes them.

How a round is committed is in `commit`; `state` keeps the account.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lance_ops.errors import CorruptFileError, NotFoundError, RetryableCommitConflictError, StorageError
from lance_ops.maintenance.compact.commit import commit_ready, forget_lost_files
from lance_ops.maintenance.compact.estimate import Budget
from lance_ops.maintenance.compact.groups import CompactionGroup
from lance_ops.maintenance.compact.options import CompactionOptions
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
from lance_ops.maintenance.compact.state import Compaction, Round, rewrite_tasks
from lance_ops.maintenance.engine import Attempt
from lance_ops.maintenance.jobs.results import TaskName
from lance_ops.maintenance.progress import ByteProgress
from lance_ops.maintenance.runner import task_failed
from lance_ops.maintenance.tasks import Attempted, attempt_tasks, is_not_committed, reading
from lance_ops.table.dataset import Dataset

_MESSAGE = "rewriting groups of fragments"


def run_round(compaction: Compaction, attempt: Attempt) -> None:
    """Plan from the head, or take the plan that is recorded; rewrite and commit.

    Raises:
        RetryableCommitConflictError: some groups lost against another writer; the others are committed.
        TaskFailedError: all tasks failed that there were; nothing is committed.
    """
    if attempt.replans.count:
        compaction.head = attempt.dataset
    for _ in range(1 + compaction.run.max_replans):
        if not _round(compaction):
            break
        # Some groups of the recorded plan were changed by others since then: they are planned again.
        compaction.head = compaction.head.latest()
    if compaction.failures and not compaction.commits and not compaction.committed:
        error = compaction.failures[0][1]
        raise task_failed(0, len(compaction.failures), error) from error


def _round(compaction: Compaction) -> bool:
    """One planning with its tasks and commits; whether another one has to follow."""
    options = _budget_left(compaction)
    if options is None:
        return False
    current, done = _plan(compaction, options)
    if not current.tasks:
        return current.outdated
    try:
        _take_over(compaction, current, done)
        taken = current.bytes_of(current.results)
        progress = ByteProgress(compaction.run.report, _MESSAGE, len(current.tasks), current.bytes_total)
        progress.start(len(current.results), taken)
        while current.undone() or current.results:
            _execute(compaction, current, progress)
            commit_ready(compaction, current, rest=True)
    except BaseException as error:
        # An interrupt can come at any time; what was given to a commit is not in `results`.
        if compaction.job is None and (is_not_committed(error) or not isinstance(error, Exception)):
            discard_rewrites(compaction.head.store, list(current.results.values()))
        raise
    compaction.failures += [
        (current.tasks[place].group, error) for place, error in sorted(current.failures.items())
    ]
    if current.lost is not None:
        raise current.lost
    return current.outdated


def _take_over(compaction: Compaction, current: Round, done: DoneWork) -> None:
    """Take what runs before this one, or beside it, have done already."""
    for place, name in enumerate(current.names):
        record = done.open.get(name.task)
        if record is not None:
            current.results[place] = decode_result(record, current.tasks[place].group)
    forget_lost_files(compaction.job, current, list(current.results))
    compaction.resumed += len(current.results)


def _execute(compaction: Compaction, current: Round, progress: ByteProgress) -> None:
    """Run the tasks that are not done yet, and commit on the way when that was asked for."""
    commit_ready(compaction, current, rest=False)
    for is_again in (False, True):
        places = current.undone()
        if places:
            _run_tasks(compaction, current, places, progress)
        for place in set(places).intersection(current.failures):
            # A store that failed once may work a moment later.
            if is_again or not isinstance(current.failures[place], StorageError):
                current.settled.add(place)


def _run_tasks(compaction: Compaction, current: Round, places: Sequence[int], progress: ByteProgress) -> None:
    def note(number: int, outcome: Attempted[RewriteResult]) -> None:
        place = places[number]
        if outcome.result is None:
            current.failures[place] = outcome.failure()
        else:
            current.failures.pop(place, None)
            current.results[place] = outcome.result
            progress.add(current.tasks[place].group.data_bytes)
        if compaction.driver is not None:
            compaction.driver.check()
        commit_ready(compaction, current, rest=False)

    tasks = [current.tasks[place] for place in places]
    runner = compaction.run.runner
    if compaction.job is None:
        attempt_tasks(runner, rewrite_group, tasks, on_done=note)
    else:
        recorded = [
            RecordedTask(task, compaction.job, current.names[place])
            for place, task in zip(places, tasks, strict=True)
        ]
        attempt_tasks(runner, rewrite_recorded, recorded, on_done=note)
    _note_removed_version(current)


def _note_removed_version(current: Round) -> None:
    """Report groups that failed because a cleanup removed what they read: they are planned again."""
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


def _budget_left(compaction: Compaction) -> CompactionOptions | None:
    """The options with what was used already taken off; None when nothing is left."""
    used = {
        "max_source_fragments": sum(len(result.group.fragments) for result in compaction.rewritten)
        + sum(record.values["sources"] for record in compaction.taken_over),
        "max_source_rows": sum(result.group.live_rows for result in compaction.rewritten)
        + sum(record.values["rows"] for record in compaction.taken_over),
        "max_source_bytes": sum(result.group.data_bytes for result in compaction.rewritten)
        + sum(record.values["bytes"] for record in compaction.taken_over),
    }
    left = {
        name: getattr(compaction.options, name) - amount
        for name, amount in used.items()
        if getattr(compaction.options, name) is not None
    }
    if any(amount < 1 for amount in left.values()):
        return None
    if (compaction.rewritten or compaction.taken_over) and Budget.of(compaction.options).is_set:
        # Estimates do not show how much of a budget is left: the next run has it whole.
        return None
    return replace(compaction.options, **left)


def _plan(compaction: Compaction, options: CompactionOptions) -> tuple[Round, DoneWork]:
    """The groups of the next round, and the results of theirs that are there already."""
    job, head = compaction.job, compaction.head
    if job is None:
        return _round_of(compaction, _plan_anew(compaction, options)), DoneWork()
    digest = options_digest(compaction.options)
    records = list(job.list())
    number = last_plan(records, digest)
    if number <= compaction.rounds:
        groups = _plan_anew(compaction, options)
        number += 1
        compaction.rounds = number
        current = _round_of(compaction, groups)
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
    compaction.rounds = number
    stored = read_plan(job, number, digest)
    if stored is None:
        return _round_of(compaction, [], outdated=True), DoneWork()
    done = DoneWork.read(job, records, head)
    if not compaction.rewritten:
        compaction.taken_over = done.committed
    compaction.committed |= {record.name: tuple(record.files) for record in done.committed}
    return _recorded_round(compaction, stored, done), done


def _recorded_round(compaction: Compaction, stored: RecordedPlan, done: DoneWork) -> Round:
    """What is left of a recorded plan.

    Groups whose fragments others changed are left to another planning; but a result that a commit can
    carry over these changes is not made again, as in a run that was not broken off.
    """
    head = compaction.head
    over = {record.name.task for record in done.committed}
    over.update(
        task for ids, task in zip(stored.fragments, stored.tasks, strict=True) if ids in _failed(compaction)
    )
    on_head = _standing(compaction, stored, head)
    changed = set(stored.tasks) - on_head.keys() - over
    carried = changed & done.open.keys()
    base, groups = head, on_head
    if carried:
        read = _version_of(head, stored.version)
        on_read = {} if read is None else _standing(compaction, stored, read)
        if read is not None and carried & on_read.keys():
            carried &= on_read.keys()
            base, groups = (
                read,
                {task: group for task, group in on_read.items() if task in {*on_head, *carried}},
            )
    chosen = [groups[task] for task in stored.tasks if task in groups and task not in over]
    outdated = bool(set(stored.tasks) - groups.keys() - over)
    return _round_of(compaction, chosen, base=base, outdated=outdated, names=done.names)


def _standing(compaction: Compaction, stored: RecordedPlan, base: Dataset) -> dict[str, CompactionGroup]:
    """The groups of a plan that a version has as planned, if they may be committed on the head."""
    found = planned_groups(stored, base, compaction.head, compaction.options)
    groups = [group for group in found if group is not None]
    names = _round_of(compaction, groups, base=base).names
    planned = set(stored.tasks)
    return {name.task: group for name, group in zip(names, groups, strict=True) if name.task in planned}


def _failed(compaction: Compaction) -> set[tuple[int, ...]]:
    return {group.fragment_ids for group, _ in compaction.failures}


def _plan_anew(compaction: Compaction, options: CompactionOptions) -> Sequence[CompactionGroup]:
    failed = {number for ids in _failed(compaction) for number in ids}
    if failed:
        options = replace(options, exclude_fragments=options.exclude_fragments | failed)
    with reading(compaction.head, "the plan"):
        plan = plan_compaction(compaction.head, options, slots=compaction.accuracy.slots)
    compaction.accuracy.planned(plan)
    compaction.notes = plan.notes
    return plan.groups


def _round_of(
    compaction: Compaction,
    groups: Sequence[CompactionGroup],
    *,
    base: Dataset | None = None,
    outdated: bool = False,
    names: Mapping[str, TaskName] | None = None,
) -> Round:
    job, base = compaction.job, base or compaction.head
    tasks = rewrite_tasks(base, groups, compaction.options, None if job is None else job.names)
    digests = [] if job is None else [task_name(task, compaction.options) for task in tasks]
    known = names or {}
    return Round(base, tasks, [known.get(digest, TaskName(digest)) for digest in digests], outdated)


def _version_of(head: Dataset, version: int) -> Dataset | None:
    """Return an older version of a dataset; None if a cleanup removed it."""
    try:
        return head.checkout_version(version).with_side_sizes()
    except (NotFoundError, CorruptFileError):
        return None
