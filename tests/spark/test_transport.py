"""Outcomes of tasks: final errors travel to the driver, transient ones let Spark try again."""

from types import SimpleNamespace

import pytest

from lance_ops.errors import (
    PermissionDeniedError,
    SchemaMismatchError,
    StorageError,
    StorageFullError,
)
from lance_ops.spark import transport
from lance_ops.spark.transport import ATTEMPTS_VARIABLE, capture, load_outcome, task_attempts

TRANSIENT = [OSError(5, "503"), TimeoutError("late"), StorageError("503"), StorageFullError("full")]
FINAL = [SchemaMismatchError("no", []), PermissionDeniedError("no"), PermissionError("no"), ValueError("no")]


def failing(error: Exception):
    def compute():
        raise error

    return compute


@pytest.fixture
def attempt(monkeypatch):
    """Says which attempt of a task this is, from 0 on."""

    def say(number: int | None) -> None:
        context = None if number is None else SimpleNamespace(attemptNumber=lambda: number)
        monkeypatch.setattr(transport.TaskContext, "get", staticmethod(lambda: context))

    monkeypatch.delenv(ATTEMPTS_VARIABLE, raising=False)
    return say


@pytest.mark.parametrize("error", [*TRANSIENT, *FINAL], ids=lambda error: type(error).__name__)
def test_transient_errors_are_raised_while_spark_has_attempts(attempt, error, monkeypatch):
    for number, attempts, variable in ((0, 4, ""), (2, None, "4"), (3, None, "")):
        attempt(number)
        monkeypatch.setenv(ATTEMPTS_VARIABLE, variable)
        if error in TRANSIENT:
            with pytest.raises(type(error)):
                capture(failing(error), attempts)
        else:
            assert type(load_outcome(capture(failing(error), attempts)).error) is type(error)


@pytest.mark.parametrize("error", [*TRANSIENT, *FINAL], ids=lambda error: type(error).__name__)
def test_the_last_attempt_sends_every_error(attempt, error, monkeypatch):
    for number, attempts, variable in ((3, 4, ""), (0, 1, "4"), (3, None, "4"), (None, 4, "4")):
        attempt(number)
        monkeypatch.setenv(ATTEMPTS_VARIABLE, variable)
        assert type(load_outcome(capture(failing(error), attempts)).error) is type(error)


@pytest.mark.parametrize(
    ("conf", "attempts"),
    [
        ({"spark.master": "local"}, 1),
        ({"spark.master": "local[*]", "spark.task.maxFailures": "9"}, 1),
        ({"spark.master": "local[*, 3]"}, 3),
        ({"spark.master": "local-cluster[2,1,1024]"}, 4),
        ({"spark.master": "yarn", "spark.task.maxFailures": "9"}, 9),
        ({}, 4),
    ],
)
def test_attempts_are_those_of_the_master(conf, attempts):
    assert task_attempts(conf) == attempts
