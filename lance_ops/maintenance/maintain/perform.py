"""One due operation on a dataset: arguments from its policy, attempts, and its result as numbers.

`lance_ops.maintain`, Airflow, Dagster and fleets run their operations here.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lance_ops.errors import CommitConflictError, LanceOpsError, RetryableCommitConflictError
from lance_ops.maintenance.cleanup.operation import cleanup
from lance_ops.maintenance.column_files.operation import compact_columns
from lance_ops.maintenance.compact.operation import compact
from lance_ops.maintenance.compact.options import CompactionOptions
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.maintenance.health.verdicts import options_of_policy
from lance_ops.maintenance.index.operation import optimize_indices
from lance_ops.maintenance.results import OperationResult
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.table.dataset import Dataset

OPERATIONS = ("compact", "index", "cleanup")
"""In their order: compacted rows are indexed, and what both leave behind is cleaned up."""

_FRAGMENTS_AT_ONCE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a compaction beside its policy; None for no limit.

    Attributes:
        max_source_bytes: Maximum bytes to rewrite.
        commit_every: Groups after which it commits.
        budget_bytes: Maximum bytes read and written.
        budget_seconds: Maximum estimated duration.
    """

    max_source_bytes: int | None = None
    commit_every: int | None = None
    budget_bytes: int | None = None
    budget_seconds: float | None = None

    def of(self, options: CompactionOptions, level: int = 0) -> CompactionOptions:
        """Return options within these limits.

        Args:
            options: Of the policy.
            level: Number of conflicts before, each of which makes the groups smaller.
        """
        changes: dict[str, Any] = {
            "max_source_bytes": self.max_source_bytes or options.max_source_bytes,
            "commit_every": self.commit_every or options.commit_every,
            "budget_bytes": self.budget_bytes or options.budget_bytes,
            "budget_seconds": self.budget_seconds or options.budget_seconds,
        }
        if level:
            # A smaller compaction ends sooner, so that fewer commits of others conflict.
            changes["commit_every"] = 1
            changes["max_source_fragments"] = max(2, _FRAGMENTS_AT_ONCE >> (2 * level))
        return replace(options, **changes)

    def bytes_left(self, moved: int) -> int | None:
        """Return the bytes that may still be read and written after some were; None for no limit."""
        limits = [limit for limit in (self.max_source_bytes, self.budget_bytes) if limit is not None]
        return max(0, min(limits) - moved) if limits else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Performed:
    """Result of an operation as numbers.

    Attributes:
        changed: True if it changed anything.
        summary: The result in one line.
        error: Parts that failed; empty for none.
        bytes_read: Bytes read.
        bytes_written: Bytes written, with those of indices.
        bytes_freed: Bytes of removed files.
        rows_deleted: Deleted rows.
        versions_after: Versions afterwards; None if unknown.
        conflicts: Commits of others that required a new plan.
        result: The whole result.
    """

    changed: bool
    summary: str
    error: str = ""
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_freed: int = 0
    rows_deleted: int = 0
    versions_after: int | None = None
    conflicts: int = 0
    result: OperationResult

    def followed_by(self, other: "Performed") -> "Performed":
        """Return the numbers of both; the result is that of this one, at the version of the other."""
        return replace(
            self,
            summary=f"{self.summary}; {other.summary}",
            bytes_read=self.bytes_read + other.bytes_read,
            bytes_written=self.bytes_written + other.bytes_written,
            conflicts=self.conflicts + other.conflicts,
            result=replace(self.result, version=other.result.version),
        )


def perform(
    operation: str,
    dataset: Dataset,
    policy: MaintenancePolicy,
    run: RunOptions,
    *,
    limits: Limits | None = None,
    level: int = 0,
) -> Performed:
    """Run one operation as a policy has it.

    Args:
        operation: One of `OPERATIONS`.
        dataset: The newest version.
        policy: Its policy.
        run: Run options; a cleanup commits nothing and uses its progress only.
        limits: Limits of a compaction.
        level: Number of conflicts before.

    Raises:
        LanceOpsError: As raised by the operation.
    """
    if operation == "compact":
        return _compacted(dataset, policy, run, limits or Limits(), level)
    if operation == "index":
        return _refreshed(dataset, policy, run)
    return _cleaned(dataset, policy, run)


def _compacted(
    dataset: Dataset, policy: MaintenancePolicy, run: RunOptions, limits: Limits, level: int
) -> Performed:
    """Merge fragments, then join the data files of those that the policy finds to have too many."""
    done = compact(dataset, options=limits.of(options_of_policy(dataset, policy), level), **run)
    rows = Performed(
        changed=bool(done.groups),
        summary=done.summary(),
        error="; ".join(str(item) for item in done.failed[:3]),
        bytes_read=done.bytes_removed,
        bytes_written=done.bytes_written + done.index_bytes_written,
        conflicts=len(done.lost_to),
        result=done,
    )
    left = limits.bytes_left(rows.bytes_read + rows.bytes_written)
    if left == 0:
        return rows
    key = run.get("job_key")
    again: RunOptions = run if key is None else {**run, "job_key": f"{key}|columns"}
    joined = compact_columns(dataset.latest(), **policy.column_files_options(), max_bytes=left, **again)
    if not joined.fragments:
        return rows
    columns = Performed(
        changed=True,
        summary=joined.summary(),
        bytes_read=joined.bytes_removed,
        bytes_written=joined.bytes_written,
        conflicts=len(joined.lost_to),
        result=joined,
    )
    return rows.followed_by(columns) if rows.changed else columns


def _refreshed(dataset: Dataset, policy: MaintenancePolicy, run: RunOptions) -> Performed:
    done = optimize_indices(dataset, most_segments=policy.most_segments, limits=policy.wear_limits, **run)
    return Performed(
        changed=done.changed,
        summary=done.summary(),
        bytes_written=done.bytes_written,
        conflicts=len(done.lost_to),
        result=done,
    )


def _cleaned(dataset: Dataset, policy: MaintenancePolicy, run: RunOptions) -> Performed:
    done = cleanup(
        dataset,
        older_than=policy.older_than,
        retain_versions=policy.retain_versions,
        grace=policy.cleanup_grace,
        committer=run.get("committer"),
        progress=run.get("progress"),
        storage_options=run.get("storage_options"),
    )
    return Performed(
        changed=done.changed,
        summary=done.summary(),
        error="; ".join(done.errors[:3]),
        bytes_freed=done.bytes_removed,
        versions_after=done.versions_kept,
        result=done,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """Outcome of the attempts at an operation.

    Attributes:
        outcome: `done`, `nothing` (nothing to change), `conflict` or `failed`.
        level: Number of conflicts, with those before.
        seconds: Duration of all attempts.
        done: The result; None after an error.
        error: The error; None without one.
    """

    outcome: str
    level: int
    seconds: float
    done: Performed | None = None
    error: Exception | None = None

    @property
    def why(self) -> str:
        """The error in one line; empty without one."""
        if self.error is not None:
            return error_line(self.error)
        return "" if self.done is None else self.done.error


def try_operation(
    work: Callable[[int], Performed],
    *,
    level: int = 0,
    retries: int = 0,
    is_late: Callable[[], bool] = lambda: False,
) -> Tried:
    """Run an operation, again with smaller groups after a conflict; raises nothing except interrupts.

    Args:
        work: Runs it, for a number of conflicts before.
        level: Number of conflicts of earlier runs.
        retries: Maximum attempts after the first one.
        is_late: Returns true if no further attempt may start.
    """
    began, last = time.monotonic(), level + retries

    def tried(outcome: str, done: Performed | None = None, error: Exception | None = None) -> Tried:
        return Tried(outcome=outcome, level=level, seconds=time.monotonic() - began, done=done, error=error)

    while True:
        try:
            done = work(level)
        except RetryableCommitConflictError as error:
            level += 1
            if level <= last and not is_late():
                continue
            return tried("conflict", error=error)
        except CommitConflictError as error:
            return tried("conflict", error=error)
        except Exception as error:  # noqa: BLE001 - the caller reports it with its operation
            return tried("failed", error=error)
        return tried("done" if done.changed else "nothing", done)


def error_line(error: BaseException) -> str:
    """Return the type and message of an error."""
    message = error.message if isinstance(error, LanceOpsError) else str(error)
    return f"{type(error).__name__}: {message}"


def stored_bytes(dataset: Dataset) -> int:
    """Return the bytes of the data files of a version, with side files."""
    return sum(fragment.data_bytes for fragment in dataset.with_side_sizes().fragments)
