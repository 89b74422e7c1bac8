"""Attempts: whether work on a version is done, at work, to be asked for again, or given up. Pure.

State that records what was asked for is compared with what runs did: a run that failed, was cancelled in the
queue or died has done nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

PAUSES = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=25))
"""Before the first, second and third retry, from the end of the run before it."""


class RunState(Enum):
    """State of a run, as far as attempts go."""

    WAITING = "waiting"
    WORKING = "working"
    SUCCEEDED = "succeeded"
    ENDED = "ended without success"


class Stage(Enum):
    """What is to be done about a piece of work."""

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
        began: When it started, or was created if it never started; seconds since 1970.
        ended: When it ended, or was last changed; seconds since 1970.
        started: It started, so it may have read an older version than it would now.
        read: Version that it recorded as read; None when it recorded nothing.
        asked_for: It was started for the version in question, whatever the clocks of the machines say.
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
    """What is to be done about a version.

    Attributes:
        stage: What is to be done.
        failed: Attempts that ended without success.
        last: Id of the run of the newest of them; "" when there is none.
        not_before: When the next attempt is due, in seconds since 1970; None unless paused.
    """

    stage: Stage
    failed: int = 0
    last: str = ""
    not_before: float | None = None


def outlook_of_version(
    attempts: Iterable[Attempt], *, since: int, known_at: float, now: float, anew: bool = False
) -> Outlook:
    """Compare what runs did with a version that they should have read.

    Args:
        attempts: Runs of the job, in any order.
        since: First version with the data.
        known_at: When the version was known to be readable by everybody, in seconds since 1970.
        now: Seconds since 1970.
        anew: The dataset was made anew, so that a version recorded by an earlier run says nothing.
    """
    failed: list[Attempt] = []
    at_work = False
    for attempt in attempts:
        after = attempt.asked_for or attempt.began >= known_at
        if attempt.state is RunState.SUCCEEDED:
            by_time = attempt.read is None or (anew and not after)
            if after if by_time else (attempt.read or 0) >= since:
                return Outlook(Stage.DONE)
            if after:
                # It reads a version of its own choice, and must not be asked for in every tick.
                failed.append(attempt)
        elif attempt.state is RunState.ENDED:
            # One that never started would have read this version, too, unless it was over before.
            if after or (not attempt.started and attempt.ended >= known_at):
                failed.append(attempt)
        elif attempt.state is RunState.WAITING or after:
            at_work = True
    if at_work:
        return Outlook(Stage.AT_WORK, len(failed))
    return next_stage(failed, now)


def next_stage(failed: Iterable[Attempt], now: float) -> Outlook:
    """Return what follows after attempts that ended without success.

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
