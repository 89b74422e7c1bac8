"""Compaction commit: reserve ids, remap indices, swap old fragments for new.

Groups of a round are committed in their order, as soon as enough of them are done; those that lost against
other writers are planned again.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from lance_ops.errors import CommitConflictError, LanceOpsError, RetryableCommitConflictError
from lance_ops.index.kind import TaskMap
from lance_ops.index.upkeep.remap import (
    Followed,
    defer_remap,
    discard_followed,
    follow,
    follow_tasks,
    in_turn,
    segment_directory,
)
from lance_ops.index.upkeep.routes import Route
from lance_ops.maintenance.compact.accuracy import RULE_KEY
from lance_ops.maintenance.compact.groups import Method
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.compact.plan import followers_of, valid_groups
from lance_ops.maintenance.compact.recorded import encode_result
from lance_ops.maintenance.compact.rewrite import RewriteResult, discard_rewrites, notes_by_watch
from lance_ops.maintenance.compact.state import Compaction, MeasuredGroup, Round, overtaken
from lance_ops.maintenance.engine import CommitOptions, Replans, remove_orphans, with_replanning
from lance_ops.maintenance.jobs.folder import JobFolder
from lance_ops.maintenance.jobs.results import lost_files, put_intent
from lance_ops.maintenance.results import FollowedSegment
from lance_ops.maintenance.tasks import is_not_committed, reading, remove_files, run_tasks
from lance_ops.maintenance.text import ids_text
from lance_ops.maintenance.versions_made import commit
from lance_ops.table.commit.concurrent_commits import emptied_fragments
from lance_ops.table.commit.request import CommitChain, CommitHooks, CommitRequest, CommitResult
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import ids_of
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_address_map import build_address_map
from lance_ops.table.transaction.apply_fragments import reserved_ids
from lance_ops.table.transaction.operations import ReserveFragments, Rewrite, RewriteGroup, present_files
from lance_ops.table.transaction.transaction import JOB_WORK, ROW_ORDER_KEPT, ROW_ORDER_KEY, work_key


@dataclass(slots=True)
class Reservation:
    """Ids that were reserved a moment ago, and whether that is proven: see `CommitChain.settle_later`.

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
            CommitRequest(
                ReserveFragments(missing),
                properties=options.properties or {},
                committer=options.committer,
                chain=CommitChain(settle_later=settle_later),
            ),
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
            CommitRequest(
                operation,
                # So that a delete that others commit over it finds its rows without looking at them.
                properties={**(options.properties or {}), **work, ROW_ORDER_KEY: ROW_ORDER_KEPT},
                job_key=options.job_key,
                job_is_new=job_is_new,
                committer=options.committer,
                hooks=CommitHooks(guard=None if job is None else job.check_open),
                chain=CommitChain(
                    after=None if reservation is None else reservation.commit,
                    seen=None if read is None else dataset,
                ),
            ),
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


T = TypeVar("T")
R = TypeVar("R")


def commit_ready(compaction: Compaction, current: Round, *, rest: bool) -> None:
    """Commit what is due of a round: so many groups as were asked for, or all that are done."""
    every, pause = compaction.options.commit_every, compaction.options.commit_every_seconds
    while True:
        places = sorted(current.results) if rest else current.ready()
        is_due = every is not None and len(places) >= every
        is_time = pause is not None and time.monotonic() - compaction.committed_at >= pause
        if not places or not (rest or is_due or is_time):
            return
        chosen = places if every is None else places[:every]
        if not rest and len(current.settled) + len(chosen) == len(current.tasks):
            # The last ones wait for the end, when it is known whether the job is done with them.
            return
        forget_lost_files(compaction.job, current, chosen)
        # Groups whose files were lost are rewritten once more, and committed with the next ones.
        if all(place in current.results for place in chosen):
            _Part(compaction, current, {place: current.results.pop(place) for place in chosen}).commit()
        compaction.committed_at = time.monotonic()


@dataclass(slots=True)
class _Part:
    """Groups of a round that are committed together.

    Attributes:
        compaction: Learns of the commit.
        current: The round; learns which groups lost against other writers.
        pending: Results that are not committed, by their places.
        intent: Record of the job that announces the commit.
        conflicts: That led to another attempt.
        is_reserved: The results have ids.
    """

    compaction: Compaction
    current: Round
    pending: dict[int, RewriteResult]
    intent: str | None = None
    conflicts: list[RetryableCommitConflictError] = field(default_factory=list)
    is_reserved: bool = False

    def commit(self) -> None:
        """Commit them on the head, as often as others are faster."""
        number = len(self.pending)
        try:
            self._commit_left()
        except Exception as error:
            if is_not_committed(error):
                self._discard(self.pending.values())
                self._withdraw()
            if not isinstance(error, RetryableCommitConflictError):
                raise
            self._spare(self.pending.values())
            self.current.lost = error
            self.current.settled.update(self.pending)
            return
        if not self.pending:
            self._withdraw()
        if self.conflicts and len(self.pending) == number:
            self.compaction.note(f"committed on the head after: {self.conflicts[-1].theirs}")
        elif self.conflicts and self.current.lost is not None:
            self.current.lost = self.conflicts[-1]

    def _commit_left(self) -> None:
        while True:
            try:
                with_replanning(
                    self._commit_valid,
                    max_replans=self.compaction.run.max_replans,
                    on_conflict=self.conflicts.append,
                )
            except RetryableCommitConflictError:
                # To lose against runs of the job itself is to get on, however often it happens.
                self.compaction.head = self.compaction.head.latest()
                left = self._without_committed()
                if len(left) == len(self.pending):
                    raise
                self.pending = left
            else:
                return

    def _commit_valid(self, replans: Replans) -> None:
        """Commit those that are as planned on the head."""
        compaction, current = self.compaction, self.current
        if replans.count:
            compaction.head = compaction.head.latest()
        if compaction.head.version != current.planned.version:
            self.pending = self._still_valid()
        if not self.pending:
            return
        # Only the last commit bears the key: a run that resumes after a crash has to do the rest.
        key = compaction.run.commits.job_key if current.is_last([*self.pending]) else None
        options = replace(compaction.run.commits, job_key=key)
        reservation = None if self.is_reserved else self._reserve(options)
        self._announce()
        compaction.run.report("committing", 0, 1)
        results = list(self.pending.values())
        notes = {
            **(options.properties or {}),
            RULE_KEY: compaction.options.rule,
            **compaction.accuracy.properties(_measured(results)),
        }
        try:
            committed = commit_rewrites(
                compaction.head,
                results,
                replace(options, properties=notes),
                compaction.options,
                reservation,
                self._run_all,
                read=None if current.planned.version == compaction.head.version else current.planned,
                job=compaction.job,
                job_is_new=compaction.is_unproven,
            )
        finally:
            if reservation is not None and not _is_proven(reservation):
                # Their ids are not kept.
                self.pending = {place: _unnumbered(result) for place, result in self.pending.items()}
                self.is_reserved = False
        self._record(committed)
        compaction.run.report("committed", 1, 1)

    def _reserve(self, options: CommitOptions) -> Reservation | None:
        """Give all new fragments their ids."""
        compaction = self.compaction
        results, reservation = reserve_ids(
            compaction.head,
            list(self.pending.values()),
            options,
            compaction.spare_ids,
            settle_later=compaction.job is None,
        )
        taken = {fragment.id for result in results for fragment in result.new_fragments}
        compaction.spare_ids = tuple(item for item in compaction.spare_ids if item not in taken)
        self.pending = dict(zip(self.pending, results, strict=True))
        self.is_reserved = True
        if reservation is not None:
            compaction.reservations.append(reservation.commit.transaction.describe())
        return reservation

    def _announce(self) -> None:
        """Record under the job what is about to be committed."""
        driver = self.compaction.driver
        if driver is not None and self.intent is None:
            self.compaction.intents += 1
            names = [self.current.names[place] for place in self.pending]
            version = self.compaction.head.version
            self.intent = put_intent(driver.job, driver.id, self.compaction.intents, version, names)

    def _withdraw(self) -> None:
        """Record that nothing was committed of what was announced."""
        job = self.compaction.job
        if self.intent is not None and job is not None:
            with contextlib.suppress(LanceOpsError):
                job.store.delete(f"{job.path}/{self.intent}")

    def _still_valid(self) -> dict[int, RewriteResult]:
        """Return those that can be committed on the head; other runs of the job may have committed others."""
        planned, head = self.current.planned, self.compaction.head
        groups = [item.group for item in self.pending.values()]
        emptied = emptied_fragments(planned, head)
        valid = set(valid_groups(planned, head, groups, self.compaction.options, emptied))
        kept: dict[int, RewriteResult] = {}
        for place, result in self._without_committed().items():
            if result.group in valid:
                kept[place] = result
            else:
                self.current.lost = self.current.lost or overtaken(planned, head, result.group)
                self.current.settled.add(place)
                self._spare([result])
                self._discard([result])
        return kept

    def _without_committed(self) -> dict[int, RewriteResult]:
        """Return those that no other run of the job has committed; the others are finished."""
        if self.compaction.job is None:
            return dict(self.pending)
        head = self.compaction.head
        present = present_files(head.manifest)
        there = ids_of(head.fragments)
        left: dict[int, RewriteResult] = {}
        for place, result in self.pending.items():
            is_there = bool(result.paths) and present.issuperset(result.paths)
            # Apart from their replacements, other writers brought these files: the commit reports the
            # conflict.
            if is_there and there.isdisjoint(result.group.fragment_ids):
                self.compaction.committed[self.current.names[place]] = result.paths
                self.current.settled.add(place)
            else:
                left[place] = result
        return left

    def _spare(self, lost: Iterable[RewriteResult]) -> None:
        """Keep ids reserved for uncommitted groups: the next ones use them."""
        # New fragments have id 0 before, and the old ones that id, or one below.
        ids = [fragment.id for result in lost for fragment in result.new_fragments if fragment.id]
        self.compaction.spare_ids = (*self.compaction.spare_ids, *ids)

    def _run_all(self, function: Callable[[T], R], tasks: Sequence[T], message: str, /) -> list[R]:
        """Run tasks of the indices; a failed one removes the results of the others."""
        run, head = self.compaction.run, self.compaction.head

        def discard(finished: list[R]) -> None:
            discard_followed(head.store, [item for item in finished if isinstance(item, Followed)])

        with reading(head, message):
            return run_tasks(run.runner, function, tasks, report=run.report, message=message, discard=discard)

    def _record(self, committed: CommittedRewrites) -> None:
        compaction, results, done = self.compaction, self.pending, committed.commit
        compaction.commits.append(done)
        compaction.head = done.dataset
        self.current.settled.update(results)
        if done.already_committed:
            return
        compaction.rewritten += results.values()
        compaction.accuracy.committed(_measured(results.values()))
        if compaction.job is not None:
            names = self.current.names
            compaction.committed |= {names[place]: result.paths for place, result in results.items()}
        compaction.followed += [_of_result(item) for item in committed.followed if item.index is not None]
        compaction.deferred += committed.segments_deferred
        compaction.index_seconds += committed.index_seconds
        compaction.skipped |= dict.fromkeys(committed.notes)

    def _discard(self, results: Iterable[RewriteResult]) -> None:
        """Remove files of uncommitted results; those of a job are kept until its end."""
        if self.compaction.job is None:
            discard_rewrites(self.compaction.head.store, list(results))


def _is_proven(reservation: Reservation) -> bool:
    """Confirm that reserved ids are ours, if that was left open so far."""
    try:
        reservation.prove()
    except LanceOpsError:
        return False
    return not reservation.is_lost


def _unnumbered(result: RewriteResult) -> RewriteResult:
    return replace(result, new_fragments=tuple(fragment.replace(id=0) for fragment in result.new_fragments))


def forget_lost_files(job: JobFolder | None, current: Round, places: Sequence[int]) -> None:
    """Rerun results whose files were removed by a tool without support for jobs."""
    if job is None or not places:
        return
    records = [encode_result(current.names[place], current.results[place]) for place in places]
    lost = lost_files(job, records)
    for place, record in zip(places, records, strict=True):
        if not lost.isdisjoint(record.files):
            del current.results[place]
            current.names[place] = record.name.next


def _measured(results: Iterable[RewriteResult]) -> list[MeasuredGroup]:
    return [
        MeasuredGroup(result.group, Method.COPY if result.copied else Method.REWRITE, result.seconds)
        for result in results
    ]


def _of_result(done: Followed) -> FollowedSegment:
    segment = done.item.segment
    return FollowedSegment(
        index=segment.name,
        segment=str(segment.uuid),
        kind=segment.kind,
        route=done.item.route.value,
        bytes_written=done.written_bytes,
        seconds=done.seconds,
        seconds_planned=done.item.cost.seconds,
    )
