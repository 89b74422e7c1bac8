"""State of a compaction: one call over its rounds of planning (`Compaction`), and one of these (`Round`).

Each commit of a compaction notes in its properties how long its tasks were expected to take and how long they
took, so that `history` shows how good the estimates are.
"""

import contextlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from lance_ops.errors import (
    LanceOpsError,
    RetryableCommitConflictError,
)
from lance_ops.index.coverage import coverage
from lance_ops.index.upkeep.gone_row_ids import names_gone_row_ids
from lance_ops.maintenance.compact.estimate import GroupEstimate, makespan
from lance_ops.maintenance.compact.groups import CompactionGroup, output_version
from lance_ops.maintenance.compact.method import Method
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
from lance_ops.maintenance.text import ids_text, seconds_text
from lance_ops.table.commit.request import CommitResult
from lance_ops.table.data_writer import MAX_BYTES_PER_FILE
from lance_ops.table.dataset import Dataset
from lance_ops.table.row_lineage.read import spill_limit

ACCURACY_KEY = "lance_ops.compaction.estimate"
"""Property of a commit: JSON of `{method: {planned, measured}}`, seconds of tasks alone in a slot."""


@dataclass(frozen=True, slots=True)
class MeasuredGroup:
    """A group that was rewritten.

    Attributes:
        group: As planned.
        method: What was done in the end.
        seconds: Of its task, beside the others.
    """

    group: CompactionGroup
    method: Method
    seconds: float


@dataclass(slots=True)
class Accuracy:
    """Estimates of one call of `compact`, over its rounds of planning.

    Attributes:
        slots: Tasks that the runner executes at once.
        seconds: Expected for all plans that were carried out.
        task_seconds: Expected of the tasks that were committed, one after the other.
        measured_task_seconds: What these took.
        bytes_written: Expected of the data files that were committed.
    """

    slots: int
    seconds: float = 0.0
    task_seconds: float = 0.0
    measured_task_seconds: float = 0.0
    bytes_written: int = 0
    _estimates: dict[tuple[int, ...], GroupEstimate] = field(default_factory=dict)

    def planned(self, plan: CompactionPlan) -> None:
        """Take note of a plan that is going to be carried out."""
        self.seconds += plan.estimate.seconds
        for group, estimate in zip(plan.groups, plan.estimates, strict=True):
            self._estimates[group.fragment_ids] = estimate

    def committed(self, groups: Iterable[MeasuredGroup]) -> None:
        """Take note of groups that were committed."""
        for done in groups:
            estimate = self._estimates.get(done.group.fragment_ids)
            if estimate is not None:
                self.task_seconds += estimate.seconds
                self.bytes_written += estimate.bytes_written
                self.measured_task_seconds += done.seconds

    def properties(self, groups: Sequence[MeasuredGroup]) -> dict[str, str]:
        """Return what the commit of some groups notes; nothing of groups that were not estimated."""
        noted: dict[str, dict[str, float]] = {}
        # Tasks side by side slow each other down; what is noted is of one alone.
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


def accuracy_text(properties: Mapping[str, str]) -> str:
    """What a commit noted about its tasks, for people; empty when it noted nothing that can be read."""
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        noted = list(json.loads(properties.get(ACCURACY_KEY, "{}")).values())
        planned = sum(float(item["planned"]) for item in noted)
        measured = sum(float(item["measured"]) for item in noted)
        if noted:
            return f"tasks of {seconds_text(measured)}, {seconds_text(planned)} expected"
    return ""


def error_of(estimate: float, measured: float) -> float | None:
    """How far a measured number lies from its estimate, as a share of the estimate; None without one."""
    return measured / estimate - 1 if estimate > 0 else None


def _short(value: float) -> float:
    """A number in few digits: a note is kept in every manifest until the next commit."""
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
        committed: Files of results under a job that the newest version has, by whoever committed them.
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
        """Whether nothing is left for a later run of the job."""
        return not self.failures and not self.gave_up

    def result(self) -> CompactResult:
        """What was done in all rounds."""
        # Our own reservation lies between the read version and the rewrite, and is no other writer's.
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
        """The newest version that is known, with the sizes of side files."""
        if self._head is None:
            self._head = self.run.dataset.with_side_sizes()
        return self._head

    @head.setter
    def head(self, dataset: Dataset) -> None:
        self._head = dataset.with_side_sizes()

    @property
    def _version(self) -> int:
        """The version that has all of it; what other runs of the job committed counts."""
        if self.commits:
            return self.commits[-1].version
        return self.head.version if self.committed else self.run.dataset.version

    def note(self, line: str) -> None:
        """Remember a conflict, and report it."""
        self.conflicts.append(line)
        self.run.report(line)


def _indexed_rows(dataset: Dataset) -> dict[str, int]:
    return {item.name: item.rows - item.unindexed_rows for item in coverage(dataset)}


def _short_indices(dataset: Dataset, results: Sequence[RewriteResult]) -> tuple[str, ...]:
    if not any(result.purged_rows for result in results):
        return ()
    found = []
    for item in coverage(dataset):
        # What is committed is committed, whatever the store says of its indices.
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
    """The tasks of groups planned from a version; their files are named for the key, if there is one."""
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
    """The groups of one planning, and how far each of them is.

    Attributes:
        planned: The version that they were planned from.
        tasks: A task for each.
        names: Of their results, under a job.
        outdated: Others were planned, too, and changed since then: another planning follows.
        results: Of those that are done and not committed, by their places.
        settled: Places of those that are committed, failed or lost.
        failures: Errors of those that failed, by their places.
        lost: The last conflict that cost some of them.
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
        """Places of the first groups that can be committed in the order of the plan."""
        places = []
        for place in range(len(self.tasks)):
            if place in self.results:
                places.append(place)
            elif place not in self.settled:
                break
        return places

    def undone(self) -> list[int]:
        """Places of the groups that are still to be rewritten."""
        return [
            place
            for place in range(len(self.tasks))
            if place not in self.results and place not in self.settled
        ]

    def is_last(self, places: Sequence[int]) -> bool:
        """Whether nothing is left to do, now or later, when these are committed."""
        is_all = len(self.settled.union(places)) == len(self.tasks)
        return is_all and not (self.failures or self.outdated) and self.lost is None

    @property
    def bytes_total(self) -> int:
        """Size of what the groups read."""
        return sum(task.group.data_bytes for task in self.tasks)

    def bytes_of(self, places: Iterable[int]) -> int:
        """Size of what some of them read."""
        return sum(self.tasks[place].group.data_bytes for place in places)


def overtaken(planned: Dataset, head: Dataset, group: CompactionGroup) -> RetryableCommitConflictError:
    """The conflict of a group that others changed between two versions."""
    return RetryableCommitConflictError(
        "other writers changed fragments while they were rewritten",
        ours=f"Rewrite of fragments {ids_text(group.fragment_ids)} (read version {planned.version})",
        theirs=f"commits after version {planned.version}",
        version=head.version,
        path=head.uri,
    )
