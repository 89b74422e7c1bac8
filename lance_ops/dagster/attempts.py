"""Attempts: decide whether work on a version is done, running, to be requested again, or given up. Pure.

The recorded requests are compared with the results of runs: a run that failed, was cancelled in the queue or
died has done nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

PAUSES = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=25))
"""Pauses before the first, second and third retry, from the end of the previous run."""


class RunState(Enum):
    """State of a run, as seen by retries."""

    WAITING = "waiting"
    WORKING = "working"
    SUCCEEDED = "succeeded"
    ENDED = "ended without success"


class Stage(Enum):
    """Next step for a piece of work."""

    DONE = "done"
    AT_WORK = "at work"
    PAUSED = "paused before a retry"
    DUE = "due"
    GIVEN_UP = "given up"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run.

    Attributes:
        run_id: Its id.
        state: Its state.
        began: Start, or creation if it never started; seconds since 1970.
        ended: End, or last change; seconds since 1970.
        started: True if it started, so it may have read an older version.
        read: Version that it recorded as read; None when it recorded nothing.
        asked_for: True if it was requested for this version, independent of clocks.
    """

    run_id: str
    state: RunState
    began: float
    ended: float
    started: bool = True
    read: int | None = None
    asked_for: bool = False


@dataclass(frozen=True, slots=True)
class Outlook:
    """Next step for a version.

    Attributes:
        stage: The next step.
        failed: Attempts that ended without success.
        last: Run id of the newest of them; "" without any.
        not_before: Time of the next attempt, in seconds since 1970; None unless paused.
    """

    stage: Stage
    failed: int = 0
    last: str = ""
    not_before: float | None = None


def outlook_of_version(
    attempts: Iterable[Attempt], *, since: int, known_at: float, now: float, recreated: bool = False
) -> Outlook:
    """Compare runs with the version that they should have read.

    Args:
        attempts: Runs of the job, in any order.
        since: First version with the data.
        known_at: Time at which the version was known to be readable, in seconds since 1970.
        now: Seconds since 1970.
        recreated: The dataset was, so that versions recorded by earlier runs do not count.
    """
    failed: list[Attempt] = []
    at_work = False
    for attempt in attempts:
        after = attempt.asked_for or attempt.began >= known_at
        if attempt.state is RunState.SUCCEEDED:
            by_time = attempt.read is None or (recreated and not after)
            if after if by_time else (attempt.read or 0) >= since:
                return Outlook(Stage.DONE)
            if after:
                # It reads a version of its own choice, and must not be requested in every tick.
                failed.append(attempt)
        elif attempt.state is RunState.ENDED:
            # A run that never started would have read this version, too, unless it ended before.
            if after or (not attempt.started and attempt.ended >= known_at):
                failed.append(attempt)
        elif attempt.state is RunState.WAITING or after:
            at_work = True
    if at_work:
        return Outlook(Stage.AT_WORK, len(failed))
    return next_stage(failed, now)


def next_stage(failed: Iterable[Attempt], now: float) -> Outlook:
    """Return the next step after attempts that ended without success.

    Args:
        failed: The attempts.
        now: Seconds since 1970.
    """
    ended = sorted(failed, key=lambda attempt: (attempt.ended, attempt.run_id))
    if not ended:
        return Outlook(Stage.DUE)
    last = ended[-1]
    if len(ended) > len(PAUSES):
        return Outlook(Stage.GIVEN_UP, len(ended), last.run_id)
    due = last.ended + PAUSES[len(ended) - 1].total_seconds()
    if now < due:
        return Outlook(Stage.PAUSED, len(ended), last.run_id, due)
    return Outlook(Stage.DUE, len(ended), last.run_id)
