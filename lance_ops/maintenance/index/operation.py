"""Index operations: building, refreshing with fragments not covered yet, rebuilding and dropping."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from lance_ops.errors import InvalidArgumentError, UnreadableIndexError
from lance_ops.index.build import (
    Share,
    build_segment,
    build_share,
    build_tasks,
    discard_segment,
    segment_directory,
)
from lance_ops.index.kind import IndexKind
from lance_ops.index.registry import kind_by_name
from lance_ops.maintenance.cleanup.auto import cleans_up, commit
from lance_ops.maintenance.index.plan import (
    IndexPlan,
    SegmentPlan,
    mean_coverage,
    plan_create_index,
    plan_optimize_indices,
    why_unreadable,
)
from lance_ops.maintenance.index.reuse_trim import SegmentNeeds
from lance_ops.maintenance.progress import Progress, Reporter
from lance_ops.maintenance.results import OperationResult
from lance_ops.maintenance.retry import Replans, with_replanning
from lance_ops.maintenance.runner import LocalRunner, Runner
from lance_ops.maintenance.target import Target, open_latest
from lance_ops.maintenance.tasks import is_not_committed, run_tasks
from lance_ops.maintenance.text import bytes_text, count_text, share_text
from lance_ops.maintenance.vanished import reading
from lance_ops.table.commit.committer import Committer
from lance_ops.table.commit.job_keys import find_job
from lance_ops.table.commit.loop import CommitResult
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment_reuse import write_fragment_reuse
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.transaction.operations import CreateIndex
from lance_ops.table.transaction.transaction import job_uuid

ROWS_PER_TASK = 1 << 22

PlanFor = Callable[[Dataset], IndexPlan]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexResult(OperationResult):
    """Result of `create_index`, `optimize_indices` and `drop_index`.

    Attributes:
        indices: Names of the indices that changed.
        rows_indexed: Live rows read from the table.
        segments_added: Segments written.
        segments_removed: Segments replaced or dropped.
        bytes_written: Size of the index files.
        coverage_before: Share of live rows covered by these indices before, 0 to 1; by all that were looked
            at if none changed.
        coverage_after: The same afterwards, at the committed version.
        skipped: Indices left alone, with their coverage and the reason.
        rebuilt: Indices that were built anew although nobody asked for it, with the reason.
        compactions_caught_up: Compactions that left the indices as they were and that no index waits for any
            more.
    """

    operation: ClassVar[str] = "index"

    indices: tuple[str, ...] = ()
    rows_indexed: int = 0
    segments_added: int = 0
    segments_removed: int = 0
    bytes_written: int = 0
    coverage_before: float = 1.0
    coverage_after: float = 1.0
    skipped: tuple[str, ...] = ()
    rebuilt: tuple[str, ...] = ()
    compactions_caught_up: int = 0

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        if not self.changed:
            if self.coverage_after < 1:
                return f"nothing can be done, coverage {share_text(self.coverage_after)}"
            return "every index covers all rows"
        parts = []
        if self.segments_added:
            parts.append(
                f"{', '.join(self.indices)}: read {count_text(self.rows_indexed, 'row')}, wrote "
                f"{count_text(self.segments_added, 'segment')} of {bytes_text(self.bytes_written)}, "
                f"coverage {share_text(self.coverage_before)} -> {share_text(self.coverage_after)}"
            )
        elif self.segments_removed:
            parts.append(f"dropped {', '.join(self.indices)}")
        if self.compactions_caught_up:
            parts.append(
                f"no index waits for {count_text(self.compactions_caught_up, 'compaction')} any more"
            )
        return "; ".join(parts or ["removed a fragment reuse index that nothing needs"])

    def remarks(self) -> tuple[str, ...]:
        """See `OperationResult.remarks`."""
        return (
            *(f"skipped: {line}" for line in self.skipped),
            *(f"built anew: {line}" for line in self.rebuilt),
        )


@cleans_up
def create_index(
    target: Target,
    column: str,
    kind: str = "BTREE",
    *,
    name: str | None = None,
    replace: bool = False,
    dry_run: bool = False,
    rows_per_task: int = ROWS_PER_TASK,
    runner: Runner | None = None,
    job_key: str | None = None,
    properties: Mapping[str, str] | None = None,
    max_replans: int = 5,
    progress: Progress | None = None,
    committer: Committer | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> IndexResult | IndexPlan:
    """Build an index on a column; see `plan_create_index` for what it raises and for the other arguments.

    Args:
        target: The dataset; a `Dataset` stands for its head.
        column: Path of the column.
        kind: Kind of the index.
        name: Its name.
        replace: Rebuild the index if there is one of this name.
        dry_run: Return the plan.
        rows_per_task: Live rows that one task sorts.
        runner: Who runs the tasks; threads of this process by default.
        job_key: Makes a re-run return the first run's commit.
        properties: Go into the transaction.
        max_replans: How often to start anew after a conflict.
        progress: Receives events.
        committer: Stores the manifest, where the store alone cannot decide a race.
        storage_options: For opening the store.
    """

    def plan(dataset: Dataset) -> IndexPlan:
        return plan_create_index(dataset, column, kind, name=name, replace=replace)

    job = _Job(
        runner or LocalRunner(), rows_per_task, job_key, properties, committer, Reporter("index", progress)
    )
    return job.run(target, storage_options, plan, dry_run=dry_run, max_replans=max_replans)


@cleans_up
def optimize_indices(
    target: Target,
    names: Sequence[str] | None = None,
    *,
    merge_segments: int = 1,
    rebuild: bool = False,
    dry_run: bool = False,
    rows_per_task: int = ROWS_PER_TASK,
    runner: Runner | None = None,
    job_key: str | None = None,
    properties: Mapping[str, str] | None = None,
    max_replans: int = 5,
    progress: Progress | None = None,
    committer: Committer | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> IndexResult | IndexPlan:
    """Index what is not covered yet, or rebuild.

    See `plan_optimize_indices` and `create_index` for the arguments.
    """

    def plan(dataset: Dataset) -> IndexPlan:
        return plan_optimize_indices(dataset, names, merge_segments=merge_segments, rebuild=rebuild)

    job = _Job(
        runner or LocalRunner(), rows_per_task, job_key, properties, committer, Reporter("index", progress)
    )
    return job.run(target, storage_options, plan, dry_run=dry_run, max_replans=max_replans)


@cleans_up
def drop_index(
    target: Target,
    name: str,
    *,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> IndexResult:
    """Remove an index from the dataset; its files go with the next cleanup.

    Raises:
        InvalidArgumentError: there is no index of this name.
    """
    started = time.perf_counter()
    dataset = open_latest(target, storage_options)
    removed = tuple(segment for segment in dataset.indices if segment.name == name)
    if not removed:
        names = sorted({segment.name for segment in dataset.indices if not segment.is_system})
        raise InvalidArgumentError(
            f"no index {name!r}",
            path=dataset.uri,
            field="name",
            hint=f"indices: {', '.join(names) or 'none'}",
        )
    committed = commit(dataset, CreateIndex((), removed), properties=properties)
    return IndexResult(
        uri=dataset.uri,
        read_version=dataset.version,
        version=committed.version,
        seconds=time.perf_counter() - started,
        attempts=committed.attempts,
        conflicts=committed.conflicts,
        indices=(name,),
        segments_removed=len(removed),
        coverage_before=mean_coverage(dataset, (name,)),
        coverage_after=0.0,
    )


@dataclass(frozen=True, slots=True)
class _Job:
    """Everything an index operation needs besides its plan."""

    runner: Runner
    rows_per_task: int
    job_key: str | None
    properties: Mapping[str, str] | None
    committer: Committer | None
    report: Reporter

    def run(
        self,
        target: Target,
        storage_options: Mapping[str, str] | None,
        plan_for: PlanFor,
        *,
        dry_run: bool,
        max_replans: int,
    ) -> IndexResult | IndexPlan:
        started = time.perf_counter()
        if dry_run:
            return plan_for(open_latest(target, storage_options))

        def attempt(replans: Replans) -> IndexResult:
            dataset = open_latest(target, storage_options)
            if (
                self.job_key is not None
                and (found := find_job(dataset, self.job_key, is_head=True)) is not None
            ):
                return IndexResult(
                    uri=dataset.uri,
                    read_version=dataset.version,
                    version=found.version,
                    seconds=time.perf_counter() - started,
                    already_committed=True,
                )
            with reading(dataset, "the plan"):
                plan = plan_for(dataset)
            return self._build_and_commit(dataset, plan, replans, started)

        return with_replanning(attempt, max_replans=max_replans)

    def _build_and_commit(
        self, dataset: Dataset, plan: IndexPlan, replans: Replans, started: float
    ) -> IndexResult:
        ids: list[uuid.UUID] = []
        done: list[SegmentPlan] = []
        built: list[IndexMetadata] = []
        skipped = list(plan.skipped)
        try:
            for segment in plan.segments:
                ids.append(uuid.UUID(job_uuid(self.job_key)))
                try:
                    with reading(dataset, f"the build of index {segment.name!r}"):
                        built.append(self._build(dataset, segment, ids[-1]))
                    done.append(segment)
                except UnreadableIndexError as error:
                    # Its damage lies behind what planning looks at, and is none of the other indices' affair.
                    discard_segment(dataset.store, ids.pop())
                    skipped.append(why_unreadable(dataset, segment.name, error))
            removed = [old for segment in done for old in segment.removed]
            complete = len(done) == len(plan.segments)
            trim = plan.trim if complete else SegmentNeeds(dataset).trim(removed)
            if not built and trim is None:
                looked_at = mean_coverage(dataset, plan.names)
                return IndexResult(
                    uri=dataset.uri,
                    read_version=dataset.version,
                    version=dataset.version,
                    seconds=time.perf_counter() - started,
                    conflicts=replans.conflicts,
                    coverage_before=looked_at,
                    coverage_after=looked_at,
                    skipped=tuple(skipped),
                )
            plan = replace(plan, segments=tuple(done), skipped=tuple(skipped), trim=trim)
            entries = list(built)
            if trim is not None:
                removed.append(trim.entry)
                if trim.kept:
                    entries.append(write_fragment_reuse(dataset.store, trim.kept, dataset.version))
                    ids.append(entries[-1].uuid)
            committed = commit(
                dataset,
                CreateIndex(tuple(entries), tuple(removed)),
                properties=self.properties,
                job_key=self.job_key,
                committer=self.committer,
                job_is_new=True,
            )
        except Exception as error:
            if is_not_committed(error):
                for segment_id in ids:
                    discard_segment(dataset.store, segment_id)
            raise
        if committed.already_committed:
            for segment_id in ids:
                discard_segment(dataset.store, segment_id)
        return _result(dataset, plan, built, committed, replans, started)

    def _build(self, dataset: Dataset, plan: SegmentPlan, segment_id: uuid.UUID) -> IndexMetadata:
        kind: IndexKind = kind_by_name(plan.kind)
        tasks = build_tasks(
            dataset,
            kind,
            plan.column,
            plan.fragments,
            segment_directory(segment_id),
            self.rows_per_task,
            row_ids=plan.row_ids,
        )
        shares: list[Share] = run_tasks(
            self.runner, build_share, tasks, report=self.report, message=f"sort shares of {plan.name}"
        )
        self.report(f"merge {count_text(len(shares), 'share')} of {plan.name}")
        return build_segment(
            dataset,
            kind,
            plan.column,
            plan.name,
            segment_id=segment_id,
            merged=plan.merged,
            fragments=plan.fragments,
            shares=shares,
            row_ids=plan.row_ids,
        )


def _result(
    dataset: Dataset,
    plan: IndexPlan,
    built: Sequence[IndexMetadata],
    committed: CommitResult,
    replans: Replans,
    started: float,
) -> IndexResult:
    names = tuple(dict.fromkeys(segment.name for segment in plan.segments))
    return IndexResult(
        uri=dataset.uri,
        read_version=dataset.version,
        version=committed.version,
        seconds=time.perf_counter() - started,
        attempts=committed.attempts + replans.count,
        conflicts=(*replans.conflicts, *committed.conflicts),
        already_committed=committed.already_committed,
        indices=names,
        rows_indexed=sum(segment.rows for segment in plan.segments),
        segments_added=len(built),
        segments_removed=sum(len(segment.removed) for segment in plan.segments),
        bytes_written=sum(file.size_bytes for segment in built for file in segment.files),
        coverage_before=mean_coverage(dataset, names),
        coverage_after=mean_coverage(committed.dataset, names),
        skipped=plan.skipped,
        rebuilt=plan.rebuilt,
        compactions_caught_up=0 if plan.trim is None else plan.trim.dropped,
    )
