"""Retries: which errors are retried, how often, and after which pauses."""

import time

import pytest

from lance_ops.errors import PermissionDeniedError, StorageError
from lance_ops.storage.retry import Backoff, persistently, retry


class Failing:
    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


def test_a_call_that_fails_is_repeated_after_growing_pauses(slept: list[float]) -> None:
    call = Failing(OSError("1"), OSError("2"), OSError("3"))
    assert retry(call, (0.0, 1.0, 3.0), on=OSError) == "done"
    assert slept == [1.0, 3.0]


def test_the_last_error_is_raised_after_the_last_pause(slept: list[float]) -> None:
    call = Failing(OSError("1"), OSError("2"), OSError("3"))
    with pytest.raises(OSError, match="2"):
        retry(call, (1.0,), on=OSError)
    assert (call.calls, slept) == (2, [1.0])


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), ValueError("other")])
def test_interrupts_and_other_errors_are_raised_unchanged(error: BaseException) -> None:
    call = Failing(error)
    with pytest.raises(type(error)):
        retry(call, (0.0,) * 9, on=OSError)
    assert call.calls == 1


def test_a_condition_decides_which_errors_are_retried() -> None:
    call = Failing(OSError("passes"), OSError("stays"))
    with pytest.raises(OSError, match="stays"):
        retry(call, (0.0,) * 9, on=OSError, when=lambda error: "passes" in str(error))
    assert call.calls == 2


def test_errors_that_are_retried_are_reported_with_their_number() -> None:
    reported: list[tuple[str, int]] = []
    call = Failing(OSError("a"), OSError("b"))
    retry(call, (0.0, 0.0), on=OSError, before=lambda error, number: reported.append((str(error), number)))
    assert reported == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("least", [0.0, 0.5])
def test_random_pauses_grow_to_a_bound_and_are_never_negative(least: float) -> None:
    backoff = Backoff(0.5, longest=3.0, least=least)
    for number, limit in ((1, 0.5), (2, 1.0), (3, 2.0), (4, 3.0), (500, 3.0)):
        pauses = [backoff.pause(number) for _ in range(200)]
        assert all(limit * least <= pause <= limit for pause in pauses)
        assert max(pauses) > limit / 2
        assert len(set(pauses)) > 100


def test_a_store_that_fails_is_called_three_times(slept: list[float]) -> None:
    call = Failing(*(StorageError(str(number)) for number in range(4)))
    with pytest.raises(StorageError, match="2"):
        persistently(call)
    assert slept == pytest.approx([0.1, 0.3])


def test_a_store_that_refuses_is_called_once(slept: list[float]) -> None:
    call = Failing(PermissionDeniedError("no"))
    with pytest.raises(PermissionDeniedError):
        persistently(call)
    assert not slept
