"""Compaction commit: reserve ids, remap indices, replace old fragments by new ones."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lance_ops.errors import CommitConflictError
from lance_ops.index.kind import TaskMap
from lance_ops.index.upkeep.build import in_turn, segment_directory
from lance_ops.index.upkeep.remap import Followed, defer_remap, follow, follow_tasks
from lance_ops.index.upkeep.routes import Route
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.passing import notes_by_watch
from lance_ops.maintenance.compact.plan import followers_of
from lance_ops.maintenance.compact.rewrite import RewriteResult
from lance_ops.maintenance.engine import CommitOptions, remove_orphans
from lance_ops.maintenance.jobs.folder import JobFolder
from lance_ops.maintenance.tasks import is_not_committed, remove_files
from lance_ops.maintenance.text import ids_text
from lance_ops.maintenance.versions_made import commit
from lance_ops.table.commit.result import CommitResult
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_address_map import build_address_map
from lance_ops.table.transaction.apply_fragments import reserved_ids
from lance_ops.table.transaction.operations import ReserveFragments, Rewrite, RewriteGroup
from lance_ops.table.transaction.transaction import JOB_WORK, ROW_ORDER_KEPT, ROW_ORDER_KEY, work_key


@dataclass(slots=True)
class Reservation:
    """Recently reserved ids, and whether their commit is proven: see `settle_later` of `commit`.

    Attributes:
        commit: Their commit, with `prove` as its `settle`.
        is_lost: The commit failed: the ids are not reserved.
    """

    commit: CommitResult
    is_lost: bool = False
    _settle: Callable[[], None] | None = None

    def prove(self) -> None:
        """Confirm the commit, once."""
        settle, self._settle = self._settle, None
        if settle is not None:
            self.is_lost = True
            settle()
            self.is_lost = False


def reserve_ids(
    dataset: Dataset,
    results: Sequence[RewriteResult],
    options: CommitOptions,
    spare: Sequence[int] = (),
    *,
    settle_later: bool = False,
) -> tuple[list[RewriteResult], Reservation | None]:
    """Assign ids to all new fragments with at most one ReserveFragments commit, in the order of the groups.

    The reservation has no job key: it is not the work of the key.

    Args:
        dataset: The version to reserve on.
        results: The rewritten groups.
        options: Options of the commit.
        spare: Unused reserved ids of uncommitted groups: these are used first.
        settle_later: The caller confirms the reservation.

    Returns:
        The results with ids, and the reservation; None if none was needed.
    """
    missing = sum(len(result.new_fragments) for result in results) - len(spare)
    if missing <= 0:
        return _numbered(results, spare), None
    try:
        reserved = commit(
            dataset,
            ReserveFragments(missing),
            properties=options.properties,
            committer=options.committer,
            settle_later=settle_later,
        )
    except CommitConflictError as error:
        raise _of_the_rewrite(error, dataset, results) from error
    found = Reservation(reserved)
    if reserved.settle is not None:
        found = Reservation(reserved, _settle=partial(_settle, reserved.settle, dataset, results))
        found.commit = replace(reserved, settle=found.prove)
    return _numbered(results, (*spare, *reserved_ids(reserved.dataset.manifest, missing))), found


def _settle(settle: Callable[[], None], dataset: Dataset, results: Sequence[RewriteResult]) -> None:
    try:
        settle()
    except CommitConflictError as error:
        raise _of_the_rewrite(error, dataset, results) from error


def _of_the_rewrite(
    error: CommitConflictError, dataset: Dataset, results: Sequence[RewriteResult]
) -> CommitConflictError:
    # The conflict must mention the compaction, not its preparation.
    old = [fragment_id for result in results for fragment_id in result.group.fragment_ids]
    return type(error)(
        "another commit conflicts with the compaction",
        ours=f"Rewrite of fragments {ids_text(old)} (read version {dataset.version})",
        theirs=error.theirs,
        version=error.version,
        path=error.path,
        hint=error.hint,
    )


def _numbered(results: Sequence[RewriteResult], given: Sequence[int]) -> list[RewriteResult]:
    ids = iter(sorted(given))
    return [
        replace(
            result,
            new_fragments=tuple(fragment.replace(id=next(ids)) for fragment in result.new_fragments),
        )
        for result in results
    ]


@dataclass(frozen=True, slots=True)
class CommittedRewrites:
    """Result of `commit_rewrites`.

    Attributes:
        commit: The commit.
        followed: Index segments that were remapped with it, or are unreadable.
        segments_deferred: Segments with a deferred remap.
        notes: Unreadable indices that were not remapped.
        index_seconds: Duration of all concurrent remaps.
    """

    commit: CommitResult
    followed: tuple[Followed, ...]
    segments_deferred: int
    notes: tuple[str, ...]
    index_seconds: float


def commit_rewrites(
    dataset: Dataset,
    results: Sequence[RewriteResult],
    options: CommitOptions,
    choices: CompactionOptions,
    reservation: Reservation | None = None,
    run: TaskMap = in_turn,
    *,
    read: Dataset | None = None,
    job: JobFolder | None = None,
    job_is_new: bool = False,
) -> CommittedRewrites:
    """Replace old fragments by new ones in one Rewrite, with every covering index remapped or deferred.

    Rows that were deleted since the groups were read are deleted in the new fragments. An unreadable index
    does not stop it: the rewritten fragments leave its coverage, so that both libraries scan them until the
    index is rebuilt.

    Args:
        dataset: The version whose indices are remapped, and in which the groups are valid: every later commit
            is checked for conflicts.
        results: With ids from `reserve_ids`.
        options: Options of the commit.
        choices: Options of the compaction.
        reservation: A recent result of `reserve_ids`.
        run: Runs the tasks of the indices.
        read: The version from which the groups were read, if another one.
        job: Records of the results, if any: other runs of the job may commit them, too.
        job_is_new: Skip the check whether the job is already committed.

    Raises:
        JobCancelledError: the job was ended.
        TaskFailedError: an index could not be written. Its files are removed.
        RetryableCommitConflictError: a commit after the version touches the groups or the indices. The
            remapped indices are removed, the rewritten files are left to the caller.
    """
    source = read or dataset
    groups = [(result.group.fragments, result.new_fragments) for result in results]
    known = {
        fragment.id: vector
        for result in results
        for fragment, vector in zip(result.group.fragments, result.deletions, strict=bool(result.deletions))
    }

    def deleted_rows(fragment: Fragment) -> DeletionVector:
        vector = known[fragment.id] if fragment.id in known else source.deletion_vector(fragment)
        return DeletionVector.from_offsets(()) if vector is None else vector

    routes = followers_of(dataset, choices, [result.group for result in results])
    index_seconds = 0.0
    followed: list[Followed] = []
    reuse: IndexMetadata | None = None
    names = options.job_key if job is None else work_key(job.mark)
    # So that another run of the job recognizes commits of its results.
    work = {} if job is None else {JOB_WORK: f"{job.mark}/{job.incarnation}"}
    try:
        if routes:
            if reservation is not None:
                # The commit that would prove it may take long.
                reservation.prove()
            started = time.perf_counter()
            moves = build_address_map(groups, deleted_rows)
            noted = notes_by_watch(
                ([fragment.id for fragment in result.new_fragments], result.noted) for result in results
            )
            tasks = follow_tasks(dataset, moves, groups, routes, names, noted)
            followed = run(follow, tasks, "remapping indices") if tasks else []
            base = dataset if reservation is None else reservation.commit.dataset
            reuse = defer_remap(dataset, moves, routes, base.version, names)
            index_seconds = time.perf_counter() - started
        operation = Rewrite(
            tuple(RewriteGroup(tuple(old), new) for old, new in groups),
            tuple(item.index for item in followed if item.index is not None),
            reuse,
        )
        done = commit(
            source,
            operation,
            # A concurrent delete then finds its rows without a check.
            properties={**(options.properties or {}), **work, ROW_ORDER_KEY: ROW_ORDER_KEPT},
            job_key=options.job_key,
            committer=options.committer,
            head=None if reservation is None else reservation.commit,
            seen=None if read is None else dataset,
            guard=None if job is None else job.check_open,
            job_is_new=job_is_new,
        )
    except Exception as error:
        if is_not_committed(error):
            written = [segment_directory(item.index.new_uuid) for item in followed if item.index is not None]
            written += [] if reuse is None else [reuse.directory]
            remove_files(dataset.store, [f"{directory}/" for directory in written])
        raise
    # Recorded results belong to all runs of the job: its end determines the unused ones.
    shared = set() if job is None else {path for result in results for path in result.paths}
    remove_orphans(done, keep=shared)
    lost = "rewritten fragments left its coverage" if reuse is None else "it was not remapped"
    notes = tuple(
        f"{item.problem.message}; {lost}; {item.problem.hint}"
        for item in followed
        if item.problem is not None
    )
    deferred = sum(item.route is Route.DEFER for item in routes)
    return CommittedRewrites(done, tuple(followed), deferred, notes, index_seconds)
