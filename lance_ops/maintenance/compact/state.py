"""State of a compaction: one call over its rounds of planning (`Compaction`), and one of these (`Round`).

Each commit of a compaction records in its properties the planned and the measured time of its tasks, so that
`history` shows how good the estimates are.
"""

import contextlib
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lance_ops.errors import (
    LanceOpsError,
    RetryableCommitConflictError,
)
from lance_ops.index.coverage import coverage
from lance_ops.index.upkeep.lost_rows import names_gone_row_ids
from lance_ops.maintenance.compact.accuracy import ACCURACY_KEY
from lance_ops.maintenance.compact.estimate import GroupEstimate, makespan
from lance_ops.maintenance.compact.groups import CompactionGroup, Method, output_version
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.plan import CompactionPlan, routes_of
from lance_ops.maintenance.compact.rewrite import (
    RewriteResult,
    RewriteTask,
    watches_of,
)
from lance_ops.maintenance.engine import Run
from lance_ops.maintenance.jobs.folder import JobFolder
from lance_ops.maintenance.jobs.lease import Driver
from lance_ops.maintenance.jobs.results import TaskName, TaskRecord
from lance_ops.maintenance.results import CompactResult, FollowedSegment, GroupFailure
from lance_ops.maintenance.text import ids_text
from lance_ops.table.commit.request import CommitResult
from lance_ops.table.data_writer import MAX_BYTES_PER_FILE
from lance_ops.table.dataset import Dataset
from lance_ops.table.row_lineage.read import spill_limit


@dataclass(frozen=True, slots=True)
class MeasuredGroup:
    """A rewritten group.

    Attributes:
        group: The planned group.
        method: The method used.
        seconds: Duration of its task, beside concurrent ones.
    """

    group: CompactionGroup
    method: Method
    seconds: float


@dataclass(slots=True)
class Accuracy:
    """Estimates of one call of `compact`, over its rounds of planning.

    Attributes:
        slots: Concurrent tasks of the runner.
        seconds: Planned time of all executed plans.
        task_seconds: Planned time of the committed tasks in sequence.
        measured_task_seconds: Measured time of these.
        bytes_written: Planned bytes of the committed data files.
    """

    slots: int
    seconds: float = 0.0
    task_seconds: float = 0.0
    measured_task_seconds: float = 0.0
    bytes_written: int = 0
    _estimates: dict[tuple[int, ...], GroupEstimate] = field(default_factory=dict)

    def planned(self, plan: CompactionPlan) -> None:
        """Add a plan that is going to be executed."""
        self.seconds += plan.estimate.seconds
        for group, estimate in zip(plan.groups, plan.estimates, strict=True):
            self._estimates[group.fragment_ids] = estimate

    def committed(self, groups: Iterable[MeasuredGroup]) -> None:
        """Add committed groups."""
        for done in groups:
            estimate = self._estimates.get(done.group.fragment_ids)
            if estimate is not None:
                self.task_seconds += estimate.seconds
                self.bytes_written += estimate.bytes_written
                self.measured_task_seconds += done.seconds

    def properties(self, groups: Sequence[MeasuredGroup]) -> dict[str, str]:
        """Return the property for the commit of some groups; empty without estimates."""
        noted: dict[str, dict[str, float]] = {}
        # Concurrent tasks slow each other down; the recorded time is that of a single one.
        used = max(1, min(self.slots, len(groups)))
        alone = 1 / makespan([1.0] * used, used)
        for method in Method:
            of_method = [item for item in groups if item.method is method]
            planned = [self._estimates.get(item.group.fragment_ids) for item in of_method]
            if not of_method or None in planned:
                continue
            noted[method.value] = {
                "planned": _short(sum(item.seconds for item in planned if item is not None)),
                "measured": _short(alone * sum(item.seconds for item in of_method)),
            }
        return {ACCURACY_KEY: json.dumps(noted, separators=(",", ":"))} if noted else {}


def error_of(estimate: float, measured: float) -> float | None:
    """Return the relative error of an estimate; None without one."""
    return measured / estimate - 1 if estimate > 0 else None


def _short(value: float) -> float:
    """Return a number with few digits: the record is stored in every manifest until the next commit."""
    return float(f"{value:.4g}")


@dataclass(slots=True)
class Compaction:
    """One call of `compact`, and what it has done so far.

    Attributes:
        run: The call.
        options: Resolved.
        warnings: Put in front of the notes of the result.
        accuracy: Knows what the groups cost, and compares.
        driver: Holds the lease of the job, where there are records of it.
        is_unproven: Whether the job was committed cannot be told, so it goes on as its records have it.
        commits: Rewrites that were committed.
        rewritten: The groups of these.
        resumed: Groups whose results an earlier run of the job, or one beside it, had written.
        failures: Groups whose tasks failed, with their errors.
        committed: Files of results under a job that the newest version has, whichever driver committed them.
        taken_over: Results that earlier runs of the job had committed.
        rounds: Number of the last plan of the job that was carried out.
        spare_ids: Reserved for groups that were not committed; the next ones get them.
        intents: Commits of the job that were announced.
        committed_at: When the last part was committed, on the monotonic clock.
        gave_up: Groups are left to a later run after a conflict.
    """

    run: Run
    options: CompactionOptions
    warnings: tuple[str, ...]
    accuracy: Accuracy
    driver: Driver | None = None
    is_unproven: bool = False
    commits: list[CommitResult] = field(default_factory=list)
    rewritten: list[RewriteResult] = field(default_factory=list)
    resumed: int = 0
    failures: list[tuple[CompactionGroup, Exception]] = field(default_factory=list)
    committed: dict[TaskName, tuple[str, ...]] = field(default_factory=dict)
    taken_over: Sequence[TaskRecord] = ()
    rounds: int = 0
    spare_ids: tuple[int, ...] = ()
    intents: int = 0
    committed_at: float = field(default_factory=time.monotonic)
    gave_up: bool = False
    followed: list[FollowedSegment] = field(default_factory=list)
    deferred: int = 0
    index_seconds: float = 0.0
    notes: tuple[str, ...] = ()
    skipped: dict[str, None] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)
    reservations: list[str] = field(default_factory=list)
    _head: Dataset | None = None

    @property
    def job(self) -> JobFolder | None:
        """Records of the job, if there are any."""
        return None if self.driver is None else self.driver.job

    @property
    def is_done(self) -> bool:
        """True if nothing is left for a later run of the job."""
        return not self.failures and not self.gave_up

    def result(self) -> CompactResult:
        """Return the result of all rounds."""
        # Our own reservation is between the read version and the rewrite, and is not another writer's commit.
        rebased = [
            line
            for done in self.commits
            for line in done.conflicts
            if not any(own in line for own in self.reservations)
        ]
        common = self.run.common(
            self._version,
            attempts=sum(done.attempts for done in self.commits) + len(self.conflicts),
            conflicts=(*self.conflicts, *rebased),
            rebased_over=tuple(rebased),
            already_committed=any(done.already_committed for done in self.commits),
        )
        return CompactResult(
            **common,
            groups=len(self.rewritten),
            groups_copied=sum(result.copied for result in self.rewritten),
            groups_resumed=self.resumed,
            rows_written=sum(result.rows for result in self.rewritten),
            rows_purged=sum(result.purged_rows for result in self.rewritten),
            fragments_removed=sum(len(result.group.fragments) for result in self.rewritten),
            fragments_added=sum(len(result.new_fragments) for result in self.rewritten),
            bytes_written=sum(result.bytes_written for result in self.rewritten),
            bytes_removed=sum(result.group.data_bytes for result in self.rewritten),
            indices_remapped=len(self.followed),
            remaps_deferred=self.deferred,
            index_bytes_written=sum(item.bytes_written for item in self.followed),
            index_seconds=self.index_seconds,
            index_segments=tuple(self.followed),
            rows_indexed_before=_indexed_rows(self.run.dataset),
            rows_indexed_after=_indexed_rows(self.head),
            indices_short=_short_indices(self.head, self.rewritten),
            commits=len(self.commits),
            seconds_planned=self.accuracy.seconds,
            task_seconds=self.accuracy.measured_task_seconds,
            task_seconds_planned=self.accuracy.task_seconds,
            bytes_written_planned=self.accuracy.bytes_written,
            estimate_error=error_of(self.accuracy.seconds, common["seconds"]) if self.rewritten else None,
            notes=(*self.warnings, *self.notes, *_doubts(self.rewritten)),
            skipped=tuple(self.skipped),
            failed=tuple(
                GroupFailure(group.fragment_ids, type(error).__name__, str(error))
                for group, error in self.failures
            ),
        )

    @property
    def head(self) -> Dataset:
        """Return the newest known version, with the sizes of side files."""
        if self._head is None:
            self._head = self.run.dataset.with_side_sizes()
        return self._head

    @head.setter
    def head(self, dataset: Dataset) -> None:
        self._head = dataset.with_side_sizes()

    @property
    def _version(self) -> int:
        """Return the version with all results; commits of other runs of the job count."""
        if self.commits:
            return self.commits[-1].version
        return self.head.version if self.committed else self.run.dataset.version

    def note(self, line: str) -> None:
        """Record and report a conflict."""
        self.conflicts.append(line)
        self.run.report(line)


def _indexed_rows(dataset: Dataset) -> dict[str, int]:
    return {item.name: item.rows - item.unindexed_rows for item in coverage(dataset)}


def _short_indices(dataset: Dataset, results: Sequence[RewriteResult]) -> tuple[str, ...]:
    if not any(result.purged_rows for result in results):
        return ()
    found = []
    for item in coverage(dataset):
        # The commit is done, whatever the store says about its indices.
        with contextlib.suppress(LanceOpsError):
            if names_gone_row_ids(dataset, item):
                found.append(item.name)
    return tuple(found)


def _doubts(results: Sequence[RewriteResult]) -> list[str]:
    return [
        f"fragments {ids_text(result.group.fragment_ids)} were rewritten, not copied: {result.doubt}"
        for result in results
        if result.doubt is not None
    ]


def rewrite_tasks(
    dataset: Dataset,
    groups: Sequence[CompactionGroup],
    options: CompactionOptions,
    job_key: str | None = None,
) -> list[RewriteTask]:
    """Return the tasks of groups planned from a version; their files are named by the job key, if any."""
    watches = watches_of(dataset, routes_of(dataset, options), groups) if groups else []
    return [
        RewriteTask(
            snapshot=dataset.narrowed(group.fragments),
            storage_version=output_version(dataset, options),
            group=group,
            batch_rows=options.batch_rows,
            max_bytes_per_file=options.max_bytes_per_file or MAX_BYTES_PER_FILE,
            spill_limit=spill_limit(dataset.config),
            job_key=job_key,
            watches=watched,
        )
        for group, watched in zip(groups, watches, strict=True)
    ]


@dataclass(slots=True)
class Round:
    """The groups of one plan, and their states.

    Attributes:
        planned: The version of the plan.
        tasks: A task for each.
        names: Names of their results, with a job.
        outdated: Others were planned, too, and changed since: another round follows.
        results: Uncommitted results, by position.
        settled: Positions of those that are committed, failed or in conflict.
        failures: Errors of failed ones, by position.
        lost: The last conflict.
    """

    planned: Dataset
    tasks: list[RewriteTask]
    names: list[TaskName]
    outdated: bool
    results: dict[int, RewriteResult] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    failures: dict[int, Exception] = field(default_factory=dict)
    lost: RetryableCommitConflictError | None = None

    def ready(self) -> list[int]:
        """Positions of the first groups that can be committed in the order of the plan."""
        places = []
        for place in range(len(self.tasks)):
            if place in self.results:
                places.append(place)
            elif place not in self.settled:
                break
        return places

    def undone(self) -> list[int]:
        """Positions of the groups still to be rewritten."""
        return [
            place
            for place in range(len(self.tasks))
            if place not in self.results and place not in self.settled
        ]

    def is_last(self, places: Sequence[int]) -> bool:
        """Return whether nothing is left to do after committing these."""
        is_all = len(self.settled.union(places)) == len(self.tasks)
        return is_all and not (self.failures or self.outdated) and self.lost is None

    @property
    def bytes_total(self) -> int:
        """Bytes read by the groups."""
        return sum(task.group.data_bytes for task in self.tasks)

    def bytes_of(self, places: Iterable[int]) -> int:
        """Return the bytes read by some of them."""
        return sum(self.tasks[place].group.data_bytes for place in places)


def overtaken(planned: Dataset, head: Dataset, group: CompactionGroup) -> RetryableCommitConflictError:
    """Return the conflict of a group whose fragments others changed between two versions."""
    return RetryableCommitConflictError(
        "other writers changed fragments while they were rewritten",
        ours=f"Rewrite of fragments {ids_text(group.fragment_ids)} (read version {planned.version})",
        theirs=f"commits after version {planned.version}",
        version=head.version,
        path=head.uri,
    )
