"""Engine: common procedure of all operations.

An operation consists of its plan, its tasks and its commit. Common to all are: one clock, one read of the
head, the check of the job key, a new plan after a conflict, the removal of files that no version uses, and
the common fields of results.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypedDict, TypeVar

from lance_ops.errors import InvalidArgumentError, RetryableCommitConflictError
from lance_ops.maintenance.progress import Reporter
from lance_ops.maintenance.results import OperationResult
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.runner import LocalRunner, Runner
from lance_ops.maintenance.target import Target, check_changeable, open_latest
from lance_ops.maintenance.tasks import is_not_committed, reading, remove_files
from lance_ops.maintenance.versions_made import commit
from lance_ops.storage import Store
from lance_ops.storage.retry import Backoff, retry
from lance_ops.table.commit.committer import Committer
from lance_ops.table.commit.jobs.job_keys import find_job
from lance_ops.table.commit.request import CommitRequest, CommitResult
from lance_ops.table.dataset import Dataset

P = TypeVar("P")
T = TypeVar("T")
R = TypeVar("R", bound=OperationResult)

REPLANS = 5
"""Default number of new plans after conflicts."""

_BACKOFF = Backoff(0.1, longest=5.0)


class Common(TypedDict):
    """Fields of all results; see `OperationResult`."""

    uri: str
    read_version: int | None
    version: int
    seconds: float
    attempts: int
    conflicts: tuple[str, ...]
    rebased_over: tuple[str, ...]
    already_committed: bool


@dataclass(frozen=True, slots=True)
class Replans:
    """Plans that failed before the successful one; `conflicts` has the reasons, one line each."""

    conflicts: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Number of repeated plans."""
        return len(self.conflicts)


def with_replanning(
    plan_and_commit: Callable[[Replans], T],
    *,
    max_replans: int,
    on_conflict: Callable[[RetryableCommitConflictError], None],
) -> T:
    """Run an operation, planning it again from the head after retryable conflicts.

    Args:
        plan_and_commit: Plans from the head, executes, commits, and returns the result. It receives the
            replans before it, for its result. It has removed its own files when it raises a conflict.
        max_replans: How often to plan again after the first time; 0 for never.
        on_conflict: Receives every conflict that leads to another planning.

    Raises:
        RetryableCommitConflictError: The last one, when `max_replans` is used up.
    """
    if max_replans < 0:
        raise InvalidArgumentError(f"max_replans must be at least 0, got {max_replans}", field="max_replans")
    conflicts: list[str] = []

    def note(conflict: RetryableCommitConflictError, _: int) -> None:
        conflicts.append(f"planned again after: {conflict.theirs}")
        on_conflict(conflict)

    return retry(
        lambda: plan_and_commit(Replans(tuple(conflicts))),
        map(_BACKOFF.pause, range(1, max_replans + 1)),
        on=RetryableCommitConflictError,
        before=note,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """Options of every commit of an operation.

    Attributes:
        properties: Stored in the transaction.
        job_key: Marks the transaction as that of a job.
        committer: Commits the manifest, if the store has no put-if-absent.
        storage_options: Options of a dataset created by the commit.
    """

    properties: Mapping[str, str] | None = None
    job_key: str | None = None
    committer: Committer | None = None
    storage_options: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One call of an operation.

    Attributes:
        store: Store of the dataset.
        head: The newest version at the start of the call; None without a dataset.
        runner: Executes the tasks.
        report: Receives progress events.
        commits: Options of the commits.
        max_replans: Maximum number of new plans after conflicts.
        started: Start of the call, on the monotonic clock.
        is_newest: True if `head` was the newest version; else the caller chose it.
    """

    store: Store
    head: Dataset | None
    runner: Runner
    report: Reporter
    commits: CommitOptions
    max_replans: int
    started: float
    is_newest: bool = True

    @classmethod
    def start(
        cls, operation: str, target: Target, options: RunOptions, *, max_replans: int = REPLANS
    ) -> "Run":
        """Open the dataset for an operation.

        Args:
            operation: Its name in events.
            target: The dataset; for a `Dataset`, its head.
            options: Options of the caller.
            max_replans: Default of the operation.

        Raises:
            DatasetNotFoundError: There is no dataset.
            LanceOpsError: It cannot be changed, see `check_changeable`.
        """
        started = time.monotonic()
        head = open_latest(target, options.get("storage_options"))
        return cls.on(operation, head.store, head, options, max_replans=max_replans, started=started)

    @classmethod
    def on(
        cls,
        operation: str,
        store: Store,
        head: Dataset | None,
        options: RunOptions,
        *,
        max_replans: int = REPLANS,
        started: float | None = None,
        is_newest: bool = True,
    ) -> "Run":
        """Like `start`, on a version that is open already; on none, where that is not needed."""
        return cls(
            store=store,
            head=head,
            runner=options.get("runner") or LocalRunner(),
            report=Reporter(operation, options.get("progress")),
            commits=CommitOptions(
                properties=options.get("properties"),
                job_key=options.get("job_key"),
                committer=options.get("committer"),
                storage_options=options.get("storage_options"),
            ),
            max_replans=options.get("max_replans", max_replans),
            started=time.monotonic() if started is None else started,
            is_newest=is_newest,
        )

    @property
    def dataset(self) -> Dataset:
        """The head, for an operation that requires one."""
        assert self.head is not None
        return self.head

    def execute(
        self,
        plan: Callable[[Dataset], P],
        commit: Callable[["Attempt", P], R],
        result: Callable[..., R],
        *,
        reads: str = "the plan",
        on_conflict: Callable[[RetryableCommitConflictError], None] | None = None,
    ) -> R:
        """Plan and commit, again on the head after each conflict; nothing if the job is already committed.

        Args:
            plan: Plans for one version.
            commit: Runs the tasks, commits and returns the result.
            result: Builds the result of a call whose job is already committed from the common fields.
            reads: Name of the reader during planning, for messages.
            on_conflict: Called with each conflict; may raise to end the operation.
        """
        found = self.find_job()
        if found is not None:
            return result(**found)

        def attempt(attempt: Attempt) -> R:
            with reading(attempt.dataset, reads):
                planned = plan(attempt.dataset)
            return commit(attempt, planned)

        return self.replanned(attempt, on_conflict=on_conflict)

    def find_job(self, *, by_now: bool = False) -> Common | None:
        """Return the common fields of a result if the job is already committed; else None.

        Args:
            by_now: Also check commits since the start of the call.
        """
        key = self.commits.job_key
        found = None if key is None else find_job(self.dataset, key, is_head=self.is_newest and not by_now)
        if found is None:
            return None
        return self.common(found.version, attempts=0, already_committed=True)

    def replanned(
        self,
        work: Callable[["Attempt"], T],
        *,
        on_conflict: Callable[[RetryableCommitConflictError], None] | None = None,
    ) -> T:
        """Run the work, again on the head after each conflict.

        Files of an attempt are removed if it fails and is known to be uncommitted.

        Raises:
            RetryableCommitConflictError: The last one, after `max_replans`.
        """

        def attempt(replans: Replans) -> T:
            attempt = Attempt(self, self._newest() if replans.count else self.head, replans)
            try:
                return work(attempt)
            except Exception as error:
                if is_not_committed(error):
                    remove_files(self.store, attempt.written)
                raise

        def note(conflict: RetryableCommitConflictError) -> None:
            if on_conflict is not None:
                on_conflict(conflict)
            else:
                self.report(f"conflict, planning again: {conflict.theirs}")

        return with_replanning(attempt, max_replans=self.max_replans, on_conflict=note)

    def common(
        self,
        version: int,
        *,
        read_version: int | None = None,
        attempts: int = 1,
        conflicts: tuple[str, ...] = (),
        rebased_over: tuple[str, ...] = (),
        already_committed: bool = False,
    ) -> Common:
        """Return the common fields of the result.

        Args:
            version: Version after the operation.
            read_version: The version of the plan; the first head if None.
            attempts: See `OperationResult`, as the others.
            conflicts: See `OperationResult`.
            rebased_over: See `OperationResult`.
            already_committed: See `OperationResult`.
        """
        if read_version is None and self.head is not None:
            read_version = self.head.version
        return Common(
            uri=self.store.uri,
            read_version=read_version,
            version=version,
            seconds=time.monotonic() - self.started,
            attempts=attempts,
            conflicts=conflicts,
            rebased_over=rebased_over,
            already_committed=already_committed,
        )

    def _newest(self) -> Dataset:
        if self.head is None:
            return Dataset.open(self.store, storage_options=self.commits.storage_options)
        newest = self.head.latest()
        check_changeable(newest)
        return newest


@dataclass(slots=True)
class Attempt:
    """One plan of a run with its commit.

    Attributes:
        run: Its call.
        head: The version of the plan; None without a dataset.
        replans: Earlier plans.
        written: Files only for its commit, relative to the root of the dataset; a folder ends in a slash.
    """

    run: Run
    head: Dataset | None
    replans: Replans = field(default_factory=Replans)
    written: list[str] = field(default_factory=list)

    @property
    def dataset(self) -> Dataset:
        """The version, for an operation that requires one."""
        assert self.head is not None
        return self.head

    def commit(self, request: CommitRequest, *, is_job: bool = True) -> CommitResult:
        """Commit on this version, or create the dataset, with the options of the run.

        Args:
            request: What to commit; its properties are kept besides those of the run.
            is_job: This is the work that the job key stands for.
        """
        options = self.run.commits
        self.run.report("committing", 0, 1)
        done = commit(
            self.run.store if self.head is None else self.head,
            replace(
                request,
                properties={**(options.properties or {}), **request.properties},
                job_key=options.job_key if is_job else None,
                # An attempt that lost may have lost to another run of the job.
                job_is_new=self.head is not None and not self.replans.count,
                committer=options.committer,
                storage_options=options.storage_options,
            ),
        )
        remove_orphans(done)
        self.run.report("committed", 1, 1)
        return done

    def common(self, done: CommitResult | None = None) -> Common:
        """Return the common fields of the result of this commit; None: there was nothing to commit."""
        if done is None:
            return self.run.common(
                self.dataset.version,
                read_version=None if self.head is None else self.head.version,
                attempts=1 + self.replans.count,
                conflicts=self.replans.conflicts,
            )
        return self.run.common(
            done.version,
            read_version=None if self.head is None else self.head.version,
            attempts=0 if done.already_committed else done.attempts + self.replans.count,
            conflicts=(*self.replans.conflicts, *done.conflicts),
            rebased_over=done.conflicts,
            already_committed=done.already_committed,
        )


def remove_orphans(done: CommitResult, *, keep: Collection[str] = ()) -> None:
    """Remove files of a commit that another run of its job made.

    Files used by the version are kept: they are from an earlier attempt whose response was lost.

    Args:
        done: The commit.
        keep: Shared files to keep.
    """
    remove_files(done.dataset.store, [path for path in done.orphans if path not in keep])
