"""Outcome of a compaction: newest known version, commits, failures, and the result."""

import contextlib
from collections.abc import Sequence

from lance_ops.errors import LanceOpsError
from lance_ops.index.coverage import coverage
from lance_ops.index.upkeep.gone_row_ids import names_gone_row_ids
from lance_ops.maintenance.compact.accuracy import Accuracy, error_of
from lance_ops.maintenance.compact.groups import CompactionGroup
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.rewrite import RewriteResult
from lance_ops.maintenance.engine import Run
from lance_ops.maintenance.jobs.folder import JobFolder
from lance_ops.maintenance.jobs.lease import Driver
from lance_ops.maintenance.jobs.results import TaskName
from lance_ops.maintenance.results import CompactResult, FollowedSegment, GroupFailure
from lance_ops.maintenance.text import ids_text
from lance_ops.table.commit.result import CommitResult
from lance_ops.table.dataset import Dataset


class Outcome:
    """Outcome of one call of `compact`, over its rounds of planning.

    Args:
        run: The call.
        options: Resolved.
        warnings: First notes of the result.
        accuracy: Compares estimated and measured cost.
        driver: Holder of the lease of the job, if it has records.
        is_unproven: It is unknown whether the job was committed, so it continues from its records.
    """

    def __init__(
        self,
        run: Run,
        options: CompactionOptions,
        warnings: tuple[str, ...],
        accuracy: Accuracy,
        driver: Driver | None = None,
        *,
        is_unproven: bool = False,
    ) -> None:
        self.accuracy = accuracy
        self.run = run
        self._head = run.dataset.with_side_sizes()
        self.options = options
        self.warnings = warnings
        self.driver = driver
        self.is_unproven = is_unproven
        self.job: JobFolder | None = None if driver is None else driver.job
        self.commits: list[CommitResult] = []
        self.rewritten: list[RewriteResult] = []
        self.resumed = 0
        self.failures: list[tuple[CompactionGroup, Exception]] = []
        self.committed: dict[TaskName, tuple[str, ...]] = {}
        self.followed: list[FollowedSegment] = []
        self.deferred = 0
        self.index_seconds = 0.0
        self.notes: tuple[str, ...] = ()
        self.skipped: dict[str, None] = {}
        self.conflicts: list[str] = []
        self.reservations: list[str] = []

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
