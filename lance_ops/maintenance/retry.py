"""Replanning: planning afresh from the head after a retryable conflict."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from lance_ops.errors import InvalidArgumentError, RetryableCommitConflictError

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pause before the n-th new planning: random up to `base * 2**(n-1)` seconds, never above `ceiling`.

    Full jitter: writers that collided once draw independent pauses and spread out.
    """

    base: float = 0.1
    ceiling: float = 5.0

    def pause(self, replan: int) -> float:
        """The pause before the given replan, from 1."""
        limit = min(self.ceiling, self.base * 2 ** min(replan - 1, 16))
        return random.uniform(0.0, limit)  # noqa: S311 - not a secret


@dataclass(frozen=True, slots=True)
class Replans:
    """Plannings that failed before the one that counts; `conflicts` says why, one line each."""

    conflicts: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How often it was planned afresh."""
        return len(self.conflicts)


def with_replanning(
    plan_and_commit: Callable[[Replans], R],
    *,
    max_replans: int,
    on_conflict: Callable[[RetryableCommitConflictError, int], None] | None = None,
    backoff: Backoff | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> R:
    """Run an operation, planning it afresh from the head while it meets retryable conflicts.

    Args:
        plan_and_commit: Plans from the head, executes, commits, and returns the result. It receives the
            replans before it, for its result. It has removed its own files when it raises a conflict.
        max_replans: How often to plan again after the first time; 0 for never.
        on_conflict: Told every conflict that leads to another planning, with its number from 1.
        backoff: Pause between plannings.
        sleep: Replaces `time.sleep` in tests.

    Raises:
        RetryableCommitConflictError: the last one, when `max_replans` is used up.
    """
    if max_replans < 0:
        raise InvalidArgumentError(f"max_replans must be at least 0, got {max_replans}", field="max_replans")
    backoff = backoff or Backoff()
    replans = Replans()
    while True:
        try:
            return plan_and_commit(replans)
        except RetryableCommitConflictError as conflict:
            if replans.count == max_replans:
                raise
            replans = Replans((*replans.conflicts, f"planned again after: {conflict.theirs}"))
            if on_conflict is not None:
                on_conflict(conflict, replans.count)
            sleep(backoff.pause(replans.count))
