"""Compaction: merge small fragments and purge deleted rows; no row, order or index answer changes.

Groups are rewritten as tasks; then one ReserveFragments commit gives the new fragments their ids, the indices
over them are remapped, and one Rewrite commit swaps old for new. Rows keep their order within and among
rewritten groups; since a table lists fragments by id, rewritten groups come after the fragments that were
left alone, as with the peer.

When another writer touches some of the fragments meanwhile, the groups that it did not touch are committed
all the same and only the others are planned and written again.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lance_ops.errors import InvalidArgumentError, RetryableCommitConflictError, check_type
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.compact.commit import (
    CommitOptions,
    CommittedRewrites,
    commit_rewrites,
    reserve_ids,
)
from lance_ops.maintenance.compact.options import CompactionOptions, resolve_options
from lance_ops.maintenance.compact.plan import (
    CompactionGroup,
    CompactionPlan,
    output_version,
    plan_compaction,
    valid_groups,
)
from lance_ops.maintenance.compact.rewrite import RewriteResult, RewriteTask, discard_rewrites, rewrite_group
from lance_ops.maintenance.progress import Progress, Reporter
from lance_ops.maintenance.results import CompactResult
from lance_ops.maintenance.retry import Replans, with_replanning
from lance_ops.maintenance.runner import LocalRunner, Runner
from lance_ops.maintenance.target import Target, open_latest
from lance_ops.maintenance.tasks import is_not_committed, run_tasks
from lance_ops.maintenance.vanished import reading
from lance_ops.table.commit.committer import Committer
from lance_ops.table.commit.job_keys import find_job
from lance_ops.table.commit.loop import CommitResult
from lance_ops.table.data_writer import MAX_BYTES_PER_FILE
from lance_ops.table.dataset import Dataset
from lance_ops.table.row_lineage import spill_limit


@cleans_up
def compact(
    target: Target,
    *,
    target_rows_per_fragment: int | None = None,
    max_bytes_per_file: int | None = None,
    materialize_deletions: bool | None = None,
    materialize_deletions_threshold: float | None = None,
    max_source_fragments: int | None = None,
    max_source_rows: int | None = None,
    max_source_bytes: int | None = None,
    exclude_fragments: Sequence[int] | None = None,
    batch_rows: int | None = None,
    commit_every: int | None = None,
    data_storage_version: str | None = None,
    options: CompactionOptions | None = None,
    dry_run: bool = False,
    runner: Runner | None = None,
    job_key: str | None = None,
    properties: Mapping[str, str] | None = None,
    max_replans: int = 5,
    progress: Progress | None = None,
    committer: Committer | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> CompactResult | CompactionPlan:
    """Merge small fragments and purge deleted rows of a dataset.

    Options that are not given come from the table's config (`lance.compaction.*`), then from the defaults of
    `CompactionOptions`, which explains them.

    Args:
        target: The dataset; a `Dataset` stands for its head.
        target_rows_per_fragment: See `CompactionOptions`, as the others up to `commit_every`.
        max_bytes_per_file: See `CompactionOptions`.
        materialize_deletions: See `CompactionOptions`.
        materialize_deletions_threshold: See `CompactionOptions`.
        max_source_fragments: See `CompactionOptions`.
        max_source_rows: See `CompactionOptions`.
        max_source_bytes: See `CompactionOptions`.
        exclude_fragments: See `CompactionOptions`.
        batch_rows: See `CompactionOptions`.
        commit_every: See `CompactionOptions`.
        data_storage_version: Move the table to this version of data files: fragments with files of another
            one are rewritten as well, all of them or as many as the budget allows. New rows keep coming in
            the version that the table names.
        options: All options at once instead of one by one; the table's config is not asked then.
        dry_run: Return the plan and do nothing.
        runner: Executes the tasks; threads of this process by default.
        job_key: Names this piece of work: a second call with the same key finds the first one's last commit.
        properties: Kept in the transactions, e.g. the id of the run.
        max_replans: How often groups that another writer touched are planned and written again.
        progress: Receives events.
        committer: Stores the manifest, where the store alone cannot decide a race.
        storage_options: For the store.

    Raises:
        UnsupportedTypeError: the version of data files asked for cannot hold a column.
        RetryableCommitConflictError: other writers got in the way of every group, `max_replans` times.
        CommitConflictError: another commit contradicts the compaction.
        TaskFailedError: a task failed; nothing of this round is committed, and its files are removed.
    """
    started = time.monotonic()
    dataset = open_latest(target, storage_options)
    explicit: dict[str, object] = {
        "target_rows_per_fragment": target_rows_per_fragment,
        "max_bytes_per_file": max_bytes_per_file,
        "materialize_deletions": materialize_deletions,
        "materialize_deletions_threshold": materialize_deletions_threshold,
        "max_source_fragments": max_source_fragments,
        "max_source_rows": max_source_rows,
        "max_source_bytes": max_source_bytes,
        "exclude_fragments": exclude_fragments,
        "batch_rows": batch_rows,
        "commit_every": commit_every,
        "data_storage_version": data_storage_version,
        "migrate": True if data_storage_version is not None else None,
    }
    warnings: tuple[str, ...] = ()
    if options is not None:
        check_type(options, CompactionOptions, "CompactionOptions", field="options")
    if options is None:
        options, warnings = resolve_options(dataset.config, explicit)
    elif any(value is not None for value in explicit.values()):
        raise InvalidArgumentError("give either all options at once or single ones", field="options")
    if dry_run:
        return plan_compaction(dataset, options, warnings=warnings)
    if job_key is not None and (found := find_job(dataset, job_key, is_head=True)) is not None:
        return CompactResult(
            uri=dataset.uri,
            read_version=dataset.version,
            version=found.version,
            seconds=time.monotonic() - started,
            attempts=0,
            already_committed=True,
        )
    run = _Compaction(
        dataset,
        options,
        runner or LocalRunner(),
        Reporter("compact", progress),
        CommitOptions(properties=properties, job_key=job_key, committer=committer),
        max_replans,
        warnings,
    )
    try:
        with_replanning(run.round, max_replans=max_replans, on_conflict=run.note_conflict)
    except RetryableCommitConflictError as conflict:
        # What was committed stands, and the fragments that lost are still there for the next run.
        if not run.commits:
            raise
        run.note_conflict(conflict, 0)
    return run.result(started)


def rewrite_tasks(
    dataset: Dataset, groups: Sequence[CompactionGroup], options: CompactionOptions
) -> list[RewriteTask]:
    """The tasks of groups planned from a version."""
    return [
        RewriteTask(
            bases=dataset.bases,
            schema=dataset.lance_schema,
            storage_version=output_version(dataset, options),
            group=group,
            stable_row_ids=dataset.manifest.uses_stable_row_ids,
            batch_rows=options.batch_rows,
            max_bytes_per_file=options.max_bytes_per_file or MAX_BYTES_PER_FILE,
            spill_limit=spill_limit(dataset.config),
        )
        for group in groups
    ]


class _Compaction:
    """One call of `compact`, over its rounds of planning."""

    def __init__(
        self,
        dataset: Dataset,
        options: CompactionOptions,
        runner: Runner,
        report: Reporter,
        commit_options: CommitOptions,
        max_replans: int,
        warnings: tuple[str, ...],
    ) -> None:
        self.head = dataset
        self.read_version = dataset.version
        self.options = options
        self.runner = runner
        self.report = report
        self.commit_options = commit_options
        self.max_replans = max_replans
        self.warnings = warnings
        self.commits: list[CommitResult] = []
        self.rewritten: list[RewriteResult] = []
        self.remapped = 0
        self.notes: tuple[str, ...] = ()
        self.skipped: dict[str, None] = {}
        self.conflicts: list[str] = []
        self.reservations: list[str] = []

    def round(self, replans: Replans) -> None:
        """Plan from the head, rewrite and commit.

        Raises:
            RetryableCommitConflictError: some groups lost against another writer; the others are committed.
        """
        if replans.count:
            self.head = self.head.latest()
        options = self._budget_left()
        if options is None:
            return
        planned = self.head
        with reading(planned, "the plan"):
            plan = plan_compaction(planned, options)
        groups, self.notes = plan.groups, plan.notes
        size = options.commit_every or max(1, len(groups))
        lost: RetryableCommitConflictError | None = None
        for start in range(0, len(groups), size):
            chunk = groups[start : start + size]
            if start:
                chunk = valid_groups(planned, self.head, chunk)
            # Only the last commit bears the job key: a re-run after a crash half-way has to do the rest.
            is_last = start + size >= len(groups)
            key = self.commit_options.job_key if is_last else None
            lost = self._rewrite(chunk, replace(self.commit_options, job_key=key)) or lost
        if lost is not None:
            raise lost

    def note_conflict(self, conflict: RetryableCommitConflictError, replan: int) -> None:
        """Remember a conflict that leads to planning number `replan`; 0 when there is none any more."""
        self._note(f"{'planned afresh' if replan else 'gave some groups up'} after: {conflict.theirs}")

    def result(self, started: float) -> CompactResult:
        """What was done in all rounds."""
        # Our own reservation lies between the read version and the rewrite, and is no other writer's.
        rebased = [
            line
            for done in self.commits
            for line in done.conflicts
            if not any(own in line for own in self.reservations)
        ]
        return CompactResult(
            uri=self.head.uri,
            read_version=self.read_version,
            version=self.commits[-1].version if self.commits else self.read_version,
            seconds=time.monotonic() - started,
            attempts=sum(done.attempts for done in self.commits) + len(self.conflicts),
            conflicts=(*self.conflicts, *rebased),
            already_committed=any(done.already_committed for done in self.commits),
            groups=len(self.rewritten),
            rows_written=sum(result.rows for result in self.rewritten),
            rows_purged=sum(result.purged_rows for result in self.rewritten),
            fragments_removed=sum(len(result.group.fragments) for result in self.rewritten),
            fragments_added=sum(len(result.new_fragments) for result in self.rewritten),
            bytes_written=sum(result.bytes_written for result in self.rewritten),
            bytes_removed=sum(result.group.data_bytes for result in self.rewritten),
            indices_remapped=self.remapped,
            commits=len(self.commits),
            notes=(*self.warnings, *self.notes),
            skipped=tuple(self.skipped),
        )

    def _note(self, line: str) -> None:
        self.conflicts.append(line)
        self.report(line)

    def _budget_left(self) -> CompactionOptions | None:
        """The options with what earlier rounds used taken off; None when nothing is left."""
        used = {
            "max_source_fragments": sum(len(result.group.fragments) for result in self.rewritten),
            "max_source_rows": sum(result.group.live_rows for result in self.rewritten),
            "max_source_bytes": sum(result.group.data_bytes for result in self.rewritten),
        }
        left = {
            name: getattr(self.options, name) - amount
            for name, amount in used.items()
            if getattr(self.options, name) is not None
        }
        return None if any(amount < 1 for amount in left.values()) else replace(self.options, **left)

    def _rewrite(
        self, groups: Sequence[CompactionGroup], options: CommitOptions
    ) -> RetryableCommitConflictError | None:
        """Rewrite groups and commit those that no other writer touched; the conflict if some were touched."""
        if not groups:
            return None
        planned, store = self.head, self.head.store
        try:
            with reading(planned, "a rewrite"):
                pending = run_tasks(
                    self.runner,
                    rewrite_group,
                    rewrite_tasks(planned, groups, self.options),
                    report=self.report,
                    message="rewriting groups of fragments",
                    discard=lambda finished: discard_rewrites(store, finished),
                )
        except RetryableCommitConflictError as error:
            return error
        met: list[RetryableCommitConflictError] = []
        reserved = False

        def commit_valid(replans: Replans) -> None:
            nonlocal pending, reserved
            if replans.count:
                self.head = self.head.latest()
                valid = valid_groups(planned, self.head, [result.group for result in pending])
                discard_rewrites(store, [result for result in pending if result.group not in valid])
                pending = [result for result in pending if result.group in valid]
            if not pending:
                return
            reservation = None
            if not reserved:
                pending, reservation = reserve_ids(self.head, pending, options)
                reserved = True
                if reservation is not None:
                    self.reservations.append(reservation.transaction.describe())
            self.report("committing", 0, 1)
            self._record(commit_rewrites(self.head, pending, options, reservation), pending)
            self.report("committed", 1, 1)

        try:
            with_replanning(
                commit_valid, max_replans=self.max_replans, on_conflict=lambda error, _: met.append(error)
            )
        except Exception as error:
            if is_not_committed(error):
                discard_rewrites(store, pending)
            if isinstance(error, RetryableCommitConflictError):
                return error
            raise
        if met and len(pending) == len(groups):
            self._note(f"committed on the head after: {met[-1].theirs}")
            return None
        return met[-1] if met else None

    def _record(self, committed: CommittedRewrites, results: Sequence[RewriteResult]) -> None:
        done = committed.commit
        self.commits.append(done)
        self.head = done.dataset
        if not done.already_committed:
            self.rewritten += results
            self.remapped += committed.segments_moved
            self.skipped |= dict.fromkeys(committed.notes)
            return
        orphans = set(done.orphans)
        foreign = [
            result
            for result in results
            if all(f"data/{file.path}" in orphans for item in result.new_fragments for file in item.files)
        ]
        discard_rewrites(self.head.store, foreign)
