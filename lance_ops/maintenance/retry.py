"""Replanning: planning again from the head after a retryable conflict."""

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
    """Plans that failed before the successful one; `conflicts` has the reasons, one line each."""

    conflicts: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Number of repeated plans."""
        return len(self.conflicts)


def with_replanning(
    plan_and_commit: Callable[[Replans], R],
    *,
    max_replans: int,
    on_conflict: Callable[[RetryableCommitConflictError, int], None] | None = None,
    backoff: Backoff | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> R:
    """Run an operation, planning it again from the head after retryable conflicts.

    Args:
        plan_and_commit: Plans from the head, executes, commits, and returns the result. It receives the
            replans before it, for its result. It has removed its own files when it raises a conflict.
        max_replans: Maximum number of new plans; 0 for none.
        on_conflict: Called with every conflict that leads to a new plan, and its number from 1.
        backoff: Pause between plans.
        sleep: Replaces `time.sleep` in tests.

    Raises:
        RetryableCommitConflictError: the last one, after `max_replans`.
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
