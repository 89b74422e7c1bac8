"""Compaction: merge small fragments and purge deleted rows; no row, order or index answer changes.

Groups are rewritten as tasks; then one ReserveFragments commit gives the new fragments their ids, the indices
over them are remapped, and one Rewrite commit swaps old for new. Rows keep their order within and among
rewritten groups; since a table lists fragments by id, rewritten groups come after the fragments that were
left alone, as with the peer.

When another writer touches some of the fragments meanwhile, the groups that it did not touch are committed
all the same and only the others are planned and written again.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Unpack, cast, overload

from lance_ops.errors import InvalidArgumentError, RetryableCommitConflictError, check_type
from lance_ops.index.coverage import coverage
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.compact.commit import (
    CommittedRewrites,
    check_not_left_over,
    commit_rewrites,
    reserve_ids,
)
from lance_ops.maintenance.compact.groups import CompactionGroup, output_version
from lance_ops.maintenance.compact.options import (
    CompactionChoices,
    CompactionOptions,
    resolve_options,
)
from lance_ops.maintenance.compact.plan import CompactionPlan, plan_compaction, valid_groups
from lance_ops.maintenance.compact.rewrite import RewriteResult, RewriteTask, discard_rewrites, rewrite_group
from lance_ops.maintenance.engine import Attempt, CommitOptions, Run
from lance_ops.maintenance.results import CompactResult
from lance_ops.maintenance.retry import Replans, with_replanning
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.target import Target
from lance_ops.maintenance.tasks import is_not_committed, run_tasks
from lance_ops.maintenance.text import ids_text
from lance_ops.maintenance.vanished import reading
from lance_ops.table.commit.result import CommitResult
from lance_ops.table.data_writer import MAX_BYTES_PER_FILE
from lance_ops.table.dataset import Dataset
from lance_ops.table.row_lineage import spill_limit


class CompactArguments(CompactionChoices, RunOptions, total=False):
    """What `compact` takes by name: `CompactionChoices` and `RunOptions`."""


@overload
def compact(
    target: Target,
    *,
    options: CompactionOptions | None = None,
    dry_run: Literal[False] = False,
    **run: Unpack[CompactArguments],
) -> CompactResult: ...
@overload
def compact(
    target: Target,
    *,
    options: CompactionOptions | None = None,
    dry_run: Literal[True],
    **run: Unpack[CompactArguments],
) -> CompactionPlan: ...
@overload
def compact(
    target: Target,
    *,
    options: CompactionOptions | None = None,
    dry_run: bool,
    **run: Unpack[CompactArguments],
) -> CompactResult | CompactionPlan: ...
@cleans_up
def compact(
    target: Target,
    *,
    options: CompactionOptions | None = None,
    dry_run: bool = False,
    **run: Unpack[CompactArguments],
) -> CompactResult | CompactionPlan:
    """Merge small fragments and purge deleted rows of a dataset.

    Args:
        target: The dataset, see `Target`.
        options: All choices at once instead of one by one; the table's config is not asked then.
        dry_run: Return the plan and do nothing.
        **run: See `CompactionChoices` and `RunOptions`. Under a job key, the last commit of the compaction
            bears it.

    Raises:
        UnsupportedTypeError: the version of data files asked for cannot hold a column.
        RetryableCommitConflictError: other writers got in the way of every group, `max_replans` times.
        CommitConflictError: another commit contradicts the compaction.
        TaskFailedError: a task failed; nothing of this round is committed, and its files are removed.
    """
    chosen, how = _split(run)
    call = Run.start("compact", target, how)
    warnings: tuple[str, ...] = ()
    if options is not None:
        check_type(options, CompactionOptions, "CompactionOptions", field="options")
    if options is None:
        options, warnings = resolve_options(call.dataset.config, chosen)
    elif chosen:
        raise InvalidArgumentError("give either all options at once or single ones", field="options")
    if dry_run:
        return plan_compaction(call.dataset, options, warnings=warnings)
    found = call.find_job()
    if found is not None:
        return CompactResult(**found)
    work = _Compaction(call, options, warnings)
    try:
        call.replanned(work.round, on_conflict=work.note_conflict)
    except RetryableCommitConflictError as conflict:
        # What was committed stands, and the fragments that lost are still there for the next run.
        if not work.commits:
            raise
        work.note_loss(conflict)
    return work.result()


def _split(arguments: CompactArguments) -> tuple[dict[str, object], RunOptions]:
    """What was chosen of `CompactionChoices`, and how the operation is run."""
    names = CompactionChoices.__annotations__
    chosen: dict[str, object] = {
        name: value for name, value in arguments.items() if name in names and value is not None
    }
    if "data_storage_version" in chosen:
        chosen["migrate"] = True
    run = {name: value for name, value in arguments.items() if name not in names}
    return chosen, cast("RunOptions", run)


def rewrite_tasks(
    dataset: Dataset,
    groups: Sequence[CompactionGroup],
    options: CompactionOptions,
    job_key: str | None = None,
) -> list[RewriteTask]:
    """The tasks of groups planned from a version; to be committed under the job key, if there is one."""
    return [
        RewriteTask(
            snapshot=dataset.narrowed(group.fragments),
            storage_version=output_version(dataset, options),
            group=group,
            batch_rows=options.batch_rows,
            max_bytes_per_file=options.max_bytes_per_file or MAX_BYTES_PER_FILE,
            spill_limit=spill_limit(dataset.config),
            job_key=job_key,
        )
        for group in groups
    ]


def _indexed_rows(dataset: Dataset) -> dict[str, int]:
    return {item.name: item.rows - item.unindexed_rows for item in coverage(dataset)}


def _doubts(results: Sequence[RewriteResult]) -> list[str]:
    return [
        f"fragments {ids_text(result.group.fragment_ids)} were rewritten, not copied: {result.doubt}"
        for result in results
        if result.doubt is not None
    ]


class _Compaction:
    """One call of `compact`, over its rounds of planning."""

    def __init__(self, run: Run, options: CompactionOptions, warnings: tuple[str, ...]) -> None:
        self.run = run
        self.head = run.dataset
        self.options = options
        self.warnings = warnings
        self.commits: list[CommitResult] = []
        self.rewritten: list[RewriteResult] = []
        self.remapped = 0
        self.deferred = 0
        self.index_bytes = 0
        self.index_seconds = 0.0
        self.notes: tuple[str, ...] = ()
        self.skipped: dict[str, None] = {}
        self.conflicts: list[str] = []
        self.reservations: list[str] = []

    def round(self, attempt: Attempt) -> None:
        """Plan from the head, rewrite and commit.

        Raises:
            RetryableCommitConflictError: some groups lost against another writer; the others are committed.
        """
        if attempt.replans.count:
            self.head = attempt.dataset
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
                chunk = valid_groups(planned, self.head, chunk, self.options)
            # Only the last commit bears the job key: a re-run after a crash half-way has to do the rest.
            is_last = start + size >= len(groups)
            key = self.run.commits.job_key if is_last else None
            lost = self._rewrite(chunk, replace(self.run.commits, job_key=key)) or lost
        if lost is not None:
            raise lost

    def note_conflict(self, conflict: RetryableCommitConflictError) -> None:
        """Remember a conflict that leads to another planning."""
        self._note(f"planned afresh after: {conflict.theirs}")

    def note_loss(self, conflict: RetryableCommitConflictError) -> None:
        """Remember the conflict after which there is no planning any more."""
        self._note(f"gave some groups up after: {conflict.theirs}")

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
            self.commits[-1].version if self.commits else self.run.dataset.version,
            attempts=sum(done.attempts for done in self.commits) + len(self.conflicts),
            conflicts=(*self.conflicts, *rebased),
            already_committed=any(done.already_committed for done in self.commits),
        )
        return CompactResult(
            **common,
            groups=len(self.rewritten),
            groups_copied=sum(result.copied for result in self.rewritten),
            rows_written=sum(result.rows for result in self.rewritten),
            rows_purged=sum(result.purged_rows for result in self.rewritten),
            fragments_removed=sum(len(result.group.fragments) for result in self.rewritten),
            fragments_added=sum(len(result.new_fragments) for result in self.rewritten),
            bytes_written=sum(result.bytes_written for result in self.rewritten),
            bytes_removed=sum(result.group.data_bytes for result in self.rewritten),
            indices_remapped=self.remapped,
            remaps_deferred=self.deferred,
            index_bytes_written=self.index_bytes,
            index_seconds=self.index_seconds,
            rows_indexed_before=_indexed_rows(self.run.dataset),
            rows_indexed_after=_indexed_rows(self.head),
            commits=len(self.commits),
            notes=(*self.warnings, *self.notes, *_doubts(self.rewritten)),
            skipped=tuple(self.skipped),
        )

    def _note(self, line: str) -> None:
        self.conflicts.append(line)
        self.run.report(line)

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
                    self.run.runner,
                    rewrite_group,
                    rewrite_tasks(planned, groups, self.options, options.job_key),
                    report=self.run.report,
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
                left = [result.group for result in pending]
                valid = valid_groups(planned, self.head, left, self.options)
                discard_rewrites(store, [result for result in pending if result.group not in valid])
                pending = [result for result in pending if result.group in valid]
                check_not_left_over(self.head, pending, options.job_key)
            if not pending:
                return
            reservation = None
            if not reserved:
                pending, reservation = reserve_ids(self.head, pending, options)
                reserved = True
                if reservation is not None:
                    self.reservations.append(reservation.transaction.describe())
            self.run.report("committing", 0, 1)
            committed = commit_rewrites(self.head, pending, options, self.options, reservation)
            self._record(committed, pending)
            self.run.report("committed", 1, 1)

        try:
            with_replanning(
                commit_valid, max_replans=self.run.max_replans, on_conflict=lambda error, _: met.append(error)
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
            self.deferred += committed.segments_deferred
            self.index_bytes += committed.index_bytes
            self.index_seconds += committed.index_seconds
            self.skipped |= dict.fromkeys(committed.notes)
