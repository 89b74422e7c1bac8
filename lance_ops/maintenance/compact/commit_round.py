"""Commits of a round: finished groups in order, and handling of conflicts."""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from lance_ops.errors import LanceOpsError, RetryableCommitConflictError
from lance_ops.index.upkeep.remap import Followed, discard_followed
from lance_ops.maintenance.compact.accuracy import MeasuredGroup
from lance_ops.maintenance.compact.commit import (
    CommittedRewrites,
    Reservation,
    commit_rewrites,
    reserve_ids,
)
from lance_ops.maintenance.compact.method import Method
from lance_ops.maintenance.compact.outcome import Outcome
from lance_ops.maintenance.compact.plan import valid_groups
from lance_ops.maintenance.compact.recorded import (
    encode_result,
)
from lance_ops.maintenance.compact.rewrite import RewriteResult, discard_rewrites
from lance_ops.maintenance.compact.round import Round, overtaken
from lance_ops.maintenance.jobs.folder import JobFolder
from lance_ops.maintenance.jobs.results import lost_files, put_intent
from lance_ops.maintenance.results import FollowedSegment
from lance_ops.maintenance.retry import Replans, with_replanning
from lance_ops.maintenance.tasks import is_not_committed, run_tasks
from lance_ops.maintenance.vanished import reading
from lance_ops.table.commit.concurrent_commits import emptied_fragments
from lance_ops.table.transaction.operations import present_files

T = TypeVar("T")
R = TypeVar("R")


class RoundCommitter:
    """Commits the rounds of one call of `compact`.

    Args:
        so_far: The outcome so far; updated after every commit.
    """

    def __init__(self, so_far: Outcome) -> None:
        self.so_far = so_far
        self.run = so_far.run
        self.options = so_far.options
        self.accuracy = so_far.accuracy
        self.driver = so_far.driver
        self.job = so_far.job
        self.spare_ids: tuple[int, ...] = ()
        self._intents = 0
        self._committed_at = time.monotonic()

    def commit_ready(self, current: Round, *, rest: bool) -> None:
        """Commit due groups: a number of them, or all that are finished."""
        every = self.options.commit_every
        while True:
            places = sorted(current.results) if rest else current.ready()
            is_due = every is not None and len(places) >= every
            if not places or not (rest or is_due or self._is_time()):
                return
            chosen = places if every is None else places[:every]
            if not rest and len(current.settled) + len(chosen) == len(current.tasks):
                # The last ones wait for the end, when it is known whether the job is finished with them.
                return
            self._commit_part(current, chosen)
            self._committed_at = time.monotonic()

    def _is_time(self) -> bool:
        pause = self.options.commit_every_seconds
        return pause is not None and time.monotonic() - self._committed_at >= pause

    def _commit_part(self, current: Round, places: Sequence[int]) -> None:
        """Commit some groups; conflicting ones are recorded in the round."""
        forget_lost_files(self.job, current, places)
        if not all(place in current.results for place in places):
            # They are rewritten again, and committed with the next ones.
            return
        pending = {place: current.results.pop(place) for place in places}
        number = len(pending)
        intent: str | None = None
        met: list[RetryableCommitConflictError] = []
        reserved = False

        def commit_valid(replans: Replans) -> None:
            nonlocal pending, reserved, intent
            if replans.count:
                self.so_far.head = self.so_far.head.latest()
            if self.so_far.head.version != current.planned.version:
                pending = self._still_valid(current, pending)
            if not pending:
                return
            # Only the last commit has the key: a restart after a crash must do the rest.
            key = self.run.commits.job_key if current.is_last([*pending]) else None
            options = replace(self.run.commits, job_key=key)
            reservation = None
            if not reserved:
                results, reservation = reserve_ids(
                    self.so_far.head,
                    list(pending.values()),
                    options,
                    self.spare_ids,
                    settle_later=self.job is None,
                )
                taken = {fragment.id for result in results for fragment in result.new_fragments}
                self.spare_ids = tuple(item for item in self.spare_ids if item not in taken)
                pending = dict(zip(pending, results, strict=True))
                reserved = True
                if reservation is not None:
                    self.so_far.reservations.append(reservation.commit.transaction.describe())
            if self.driver is not None and intent is None:
                self._intents += 1
                names = [current.names[place] for place in pending]
                intent = put_intent(
                    self.driver.job, self.driver.id, self._intents, self.so_far.head.version, names
                )
            self.run.report("committing", 0, 1)
            results = list(pending.values())
            notes = {**(options.properties or {}), **self.accuracy.properties(_measured(results))}
            try:
                committed = commit_rewrites(
                    self.so_far.head,
                    results,
                    replace(options, properties=notes),
                    self.options,
                    reservation,
                    self._run_all,
                    read=None if current.planned.version == self.so_far.head.version else current.planned,
                    job=self.job,
                    job_is_new=self.so_far.is_unproven,
                )
            finally:
                if reservation is not None and not _is_proven(reservation):
                    # No other run keeps their ids.
                    pending = {place: _unnumbered(result) for place, result in pending.items()}
                    reserved = False
            self._record(current, committed, pending)
            self.run.report("committed", 1, 1)

        def commit_left() -> None:
            nonlocal pending
            while True:
                try:
                    with_replanning(
                        commit_valid,
                        max_replans=self.run.max_replans,
                        on_conflict=lambda error, _: met.append(error),
                    )
                except RetryableCommitConflictError:
                    # A conflict with a run of the same job is progress, without a limit.
                    self.so_far.head = self.so_far.head.latest()
                    left = self._without_committed(current, pending)
                    if len(left) == len(pending):
                        raise
                    pending = left
                else:
                    return

        try:
            commit_left()
        except Exception as error:
            if is_not_committed(error):
                self._discard(pending.values())
                self._withdraw(intent)
            if not isinstance(error, RetryableCommitConflictError):
                raise
            self._spare(pending.values())
            current.lost = error
            current.settled.update(pending)
            return
        if not pending:
            self._withdraw(intent)
        if met and len(pending) == number:
            self.so_far.note(f"committed on the head after: {met[-1].theirs}")
        elif met and current.lost is not None:
            current.lost = met[-1]

    def _still_valid(self, current: Round, pending: Mapping[int, RewriteResult]) -> dict[int, RewriteResult]:
        """Return those that can be committed on the head; other runs of the job may have committed others."""
        head = self.so_far.head
        groups = [item.group for item in pending.values()]
        emptied = emptied_fragments(current.planned, head)
        valid = set(valid_groups(current.planned, head, groups, self.options, emptied))
        kept: dict[int, RewriteResult] = {}
        for place, result in self._without_committed(current, pending).items():
            if result.group in valid:
                kept[place] = result
            else:
                current.lost = current.lost or overtaken(current.planned, head, result.group)
                current.settled.add(place)
                self._spare([result])
                self._discard([result])
        return kept

    def _without_committed(
        self, current: Round, pending: Mapping[int, RewriteResult]
    ) -> dict[int, RewriteResult]:
        """Return those that no other run of the job has committed; the others are finished."""
        if self.job is None:
            return dict(pending)
        head = self.so_far.head
        present = present_files(head.manifest)
        there = {fragment.id for fragment in head.fragments}
        left: dict[int, RewriteResult] = {}
        for place, result in pending.items():
            is_there = bool(result.paths) and present.issuperset(result.paths)
            # Apart from their replacements, other writers brought these files: the commit reports the
            # conflict.
            if is_there and there.isdisjoint(result.group.fragment_ids):
                self.so_far.committed[current.names[place]] = result.paths
                current.settled.add(place)
            else:
                left[place] = result
        return left

    def _spare(self, lost: Iterable[RewriteResult]) -> None:
        """Keep ids reserved for uncommitted groups: the next ones use them."""
        # New fragments have id 0 before, and the old ones that id, or one below.
        ids = [fragment.id for result in lost for fragment in result.new_fragments if fragment.id]
        self.spare_ids = (*self.spare_ids, *ids)

    def _run_all(self, function: Callable[[T], R], tasks: Sequence[T], message: str, /) -> list[R]:
        """Run tasks of the indices; a failed one removes the results of the others."""

        def discard(finished: list[R]) -> None:
            discard_followed(
                self.so_far.head.store, [item for item in finished if isinstance(item, Followed)]
            )

        with reading(self.so_far.head, message):
            return run_tasks(
                self.run.runner, function, tasks, report=self.run.report, message=message, discard=discard
            )

    def _record(
        self, current: Round, committed: CommittedRewrites, results: Mapping[int, RewriteResult]
    ) -> None:
        done = committed.commit
        self.so_far.commits.append(done)
        self.so_far.head = done.dataset
        current.settled.update(results)
        if done.already_committed:
            return
        self.so_far.rewritten += results.values()
        self.accuracy.committed(_measured(results.values()))
        if self.job is not None:
            self.so_far.committed |= {current.names[place]: result.paths for place, result in results.items()}
        self.so_far.followed += [_of_result(item) for item in committed.followed if item.index is not None]
        self.so_far.deferred += committed.segments_deferred
        self.so_far.index_seconds += committed.index_seconds
        self.so_far.skipped |= dict.fromkeys(committed.notes)

    def _discard(self, results: Iterable[RewriteResult]) -> None:
        """Remove files of uncommitted results; those of a job are kept until its end."""
        if self.job is None:
            discard_rewrites(self.so_far.head.store, list(results))

    def _withdraw(self, intent: str | None) -> None:
        """Mark an announced commit as failed."""
        if intent is not None and self.job is not None:
            with contextlib.suppress(LanceOpsError):
                self.job.store.delete(f"{self.job.path}/{intent}")


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
