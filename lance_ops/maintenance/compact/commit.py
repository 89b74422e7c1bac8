"""Compaction commit: reserve ids, move indices along, swap old fragments for new."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lance_ops.errors import CommitConflictError, UnreadableIndexError
from lance_ops.index.upkeep.build import segment_directory
from lance_ops.index.upkeep.remap import defer_remap, remap_indices
from lance_ops.index.upkeep.routes import Route
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.plan import routes_of
from lance_ops.maintenance.compact.rewrite import RewriteResult
from lance_ops.maintenance.engine import CommitOptions, remove_orphans
from lance_ops.maintenance.tasks import is_not_committed, remove_files
from lance_ops.maintenance.text import ids_text
from lance_ops.maintenance.versions_made import commit
from lance_ops.table.commit.jobs.job_keys import find_job
from lance_ops.table.commit.jobs.left_over import find_left_over
from lance_ops.table.commit.result import CommitResult
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_address_map import build_address_map
from lance_ops.table.transaction.apply_fragments import reserved_ids
from lance_ops.table.transaction.operations import ReserveFragments, Rewrite, RewriteGroup, RewrittenIndex


def reserve_ids(
    dataset: Dataset, results: Sequence[RewriteResult], options: CommitOptions
) -> tuple[list[RewriteResult], CommitResult | None]:
    """Give all new fragments their ids with one ReserveFragments commit, in the order of the groups.

    The reservation carries no job key: it is not the work that the key stands for.

    Returns:
        The results with ids, and the reservation; None when there is no new fragment.
    """
    number = sum(len(result.new_fragments) for result in results)
    if not number:
        return list(results), None
    try:
        reserved = commit(
            dataset, ReserveFragments(number), properties=options.properties, committer=options.committer
        )
    except CommitConflictError as error:
        # Whoever reads of the conflict knows of a compaction, not of its preparations.
        old = [fragment_id for result in results for fragment_id in result.group.fragment_ids]
        raise type(error)(
            "a commit stands in the way of the compaction",
            ours=f"Rewrite of fragments {ids_text(old)} (read version {dataset.version})",
            theirs=error.theirs,
            version=error.version,
            path=error.path,
            hint=error.hint,
        ) from error
    ids = iter(reserved_ids(reserved.dataset.manifest, number))
    numbered = [
        replace(
            result,
            new_fragments=tuple(fragment.replace(id=next(ids)) for fragment in result.new_fragments),
        )
        for result in results
    ]
    return numbered, reserved


def check_not_left_over(dataset: Dataset, results: Sequence[RewriteResult], job_key: str | None) -> None:
    """See that groups that are to be committed on a later version than planned are all there.

    Args:
        dataset: The version that they are to be committed on.
        results: The groups.
        job_key: What they were written under.

    Raises:
        CommitConflictError: A cleanup removed files of theirs while another run of the job was committed.
    """
    if job_key is None or find_job(dataset, job_key) is not None:
        return
    lost = find_left_over(dataset.store, [path for result in results for path in result.paths])
    if lost is not None:
        raise CommitConflictError(
            "a cleanup removed what this run of the job had written, after another run was committed",
            ours=f"compaction of job {job_key!r}",
            theirs="a restore that undid the other run",
            version=dataset.version,
            path=f"{dataset.uri}/{lost}",
            hint="run the job again",
        )


@dataclass(frozen=True, slots=True)
class CommittedRewrites:
    """What `commit_rewrites` did.

    Attributes:
        commit: The commit.
        segments_moved: Index segments that were moved along.
        segments_deferred: Those that were left to the fragment reuse index.
        notes: Indices that were not moved, because they cannot be read.
        index_bytes: What was written of index segments.
        index_seconds: How long that took.
    """

    commit: CommitResult
    segments_moved: int
    segments_deferred: int
    notes: tuple[str, ...]
    index_bytes: int
    index_seconds: float


def commit_rewrites(
    dataset: Dataset,
    results: Sequence[RewriteResult],
    options: CommitOptions,
    choices: CompactionOptions,
    reservation: CommitResult | None = None,
) -> CommittedRewrites:
    """Swap old fragments for new ones in one Rewrite, with every covering index moved along or deferred.

    An index that cannot be read does not stop it: the rewritten fragments leave its coverage, so that both
    libraries scan them until the index is built anew.

    Args:
        dataset: The version that the groups were planned from or found valid in: the read version of the
            Rewrite, so that every commit after it is judged.
        results: With ids from `reserve_ids`.
        options: For the commit.
        choices: Of the compaction.
        reservation: From `reserve_ids`, when that was just now.

    Raises:
        RetryableCommitConflictError: a commit after the version touches the groups or the indices. The moved
            indices are removed, the rewritten files are left to the caller.
    """
    groups = [(result.group.fragments, result.new_fragments) for result in results]
    known = {
        fragment.id: vector
        for result in results
        for fragment, vector in zip(result.group.fragments, result.deletions, strict=bool(result.deletions))
    }

    def deleted_offsets(fragment: Fragment) -> npt.NDArray[np.uint32]:
        vector = known[fragment.id] if fragment.id in known else dataset.deletion_vector(fragment)
        return vector.offsets() if vector is not None else np.zeros(0, np.uint32)

    routes = routes_of(dataset, choices)
    index_seconds = 0.0
    moved: list[RewrittenIndex] = []
    unreadable: list[UnreadableIndexError] = []
    reuse: IndexMetadata | None = None
    old_ids = frozenset(fragment.id for old, _ in groups for fragment in old)
    try:
        if routes:
            started = time.perf_counter()
            moves = build_address_map(groups, deleted_offsets)
            moved, unreadable = remap_indices(dataset, moves, groups, routes, options.job_key)
            base = dataset if reservation is None else reservation.dataset
            reuse = defer_remap(dataset, moves, routes, base.version, options.job_key)
            index_seconds = time.perf_counter() - started
        operation = Rewrite(tuple(RewriteGroup(old, new) for old, new in groups), tuple(moved), reuse)
        done = commit(
            dataset,
            operation,
            properties=options.properties,
            job_key=options.job_key,
            committer=options.committer,
            head=None if reservation is None else reservation.dataset,
        )
    except Exception as error:
        if is_not_committed(error):
            written = [segment_directory(index.new_uuid) for index in moved]
            written += [] if reuse is None else [reuse.directory]
            remove_files(dataset.store, [f"{directory}/" for directory in written])
        raise
    remove_orphans(done)
    lost = "rewritten fragments left its coverage" if reuse is None else "it was not moved along"
    notes = tuple(f"{error.message}; {lost}; {error.hint}" for error in unreadable)
    deferred = [
        item
        for item in routes
        if item.route is Route.DEFER and not old_ids.isdisjoint(item.segment.fragment_ids or ())
    ]
    index_bytes = sum(file.size_bytes for index in moved for file in index.files)
    return CommittedRewrites(done, len(moved), len(deferred), notes, index_bytes, index_seconds)
