import pytest

from lance_ops.errors import (
    IncompatibleCommitConflictError,
    InvalidArgumentError,
    RetryableCommitConflictError,
)
from lance_ops.maintenance.retry import Backoff, Replans, with_replanning


def conflict(theirs: str = "Delete of fragment 1 (version 7)") -> RetryableCommitConflictError:
    return RetryableCommitConflictError("collides", ours="Rewrite", theirs=theirs, version=7)


class Operation:
    def __init__(self, failures):
        self.failures = list(failures)
        self.replans: list[Replans] = []

    def __call__(self, replans: Replans) -> str:
        self.replans.append(replans)
        if self.failures:
            raise self.failures.pop(0)
        return "done"


def test_a_retryable_conflict_plans_afresh_and_is_remembered():
    operation, told, slept = Operation([conflict("A"), conflict("B")]), [], []
    result = with_replanning(
        operation,
        max_replans=2,
        on_conflict=lambda error, n: told.append((error.theirs, n)),
        sleep=slept.append,
    )
    assert result == "done"
    assert told == [("A", 1), ("B", 2)]
    assert len(slept) == 2
    assert operation.replans[-1].conflicts == ("planned again after: A", "planned again after: B")


def test_the_last_conflict_is_raised_when_the_replans_are_used_up():
    operation = Operation([conflict("A"), conflict("B"), conflict("C")])
    with pytest.raises(RetryableCommitConflictError, match="B"):
        with_replanning(operation, max_replans=1, sleep=lambda _: None)
    assert len(operation.replans) == 2


def test_an_incompatible_conflict_is_not_retried():
    operation = Operation([IncompatibleCommitConflictError("no", ours="Append", theirs="Overwrite")])
    with pytest.raises(IncompatibleCommitConflictError):
        with_replanning(operation, max_replans=9, sleep=lambda _: None)
    assert len(operation.replans) == 1


def test_the_pause_grows_to_a_ceiling_and_is_never_negative():
    backoff = Backoff(base=0.5, ceiling=3.0)
    for replan, limit in ((1, 0.5), (2, 1.0), (3, 2.0), (4, 3.0), (500, 3.0)):
        pauses = [backoff.pause(replan) for _ in range(200)]
        assert all(0 <= pause <= limit for pause in pauses)
        assert max(pauses) > limit / 2


def test_a_negative_number_of_replans_is_refused():
    with pytest.raises(InvalidArgumentError, match="max_replans"):
        with_replanning(Operation([]), max_replans=-1)
