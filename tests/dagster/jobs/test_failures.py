import dagster as dg
import pytest

from lance_ops import errors
from lance_ops.dagster import LanceDatasetRef
from lance_ops.dagster.jobs.failures import translated_errors

REF = LanceDatasetRef("t", "/data/t.lance")


def raised(error, *, retry_number=0, conflict_retries=2, pause=8.0):
    with (
        pytest.raises(Exception) as caught,  # noqa: PT011 - what it is, is the question
        translated_errors(REF, retry_number=retry_number, conflict_retries=conflict_retries, pause=pause),
    ):
        raise error
    return caught.value


def conflict(kind):
    return kind("in the way", ours="Delete", theirs="Rewrite", version=7)


def task_failed(cause):
    error = errors.TaskFailedError("task 1 of 1 failed")
    error.__cause__ = cause
    return error


def test_a_retryable_conflict_asks_for_a_retry_with_growing_pauses():
    seen = [
        raised(conflict(errors.RetryableCommitConflictError), retry_number=number, conflict_retries=20)
        for number in (0, 1, 19)
    ]
    assert all(isinstance(error, dg.RetryRequested) for error in seen)
    for error, longest in zip(seen, (8.0, 16.0, 120.0), strict=True):
        assert 0 <= error.seconds_to_wait <= longest


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (errors.RetryableCommitConflictError, "retryable"),
        (errors.IncompatibleCommitConflictError, "incompatible"),
        (errors.CommitConflictError, "conflict"),
    ],
)
def test_a_conflict_that_stays_becomes_a_failure_that_names_both_sides(kind, name):
    failure = raised(conflict(kind), retry_number=2)
    assert isinstance(failure, dg.Failure)
    assert failure.allow_retries is False
    values = {key: value.value for key, value in failure.metadata.items()}
    assert values["lance/conflict_kind"] == name
    assert (values["lance/conflict_ours"], values["lance/conflict_theirs"]) == ("Delete", "Rewrite")
    assert values["lance/conflict_version"] == 7
    assert values["dagster/uri"] == REF.uri


@pytest.mark.parametrize(
    "error",
    [
        errors.StorageError("the store is away"),
        errors.CommitOutcomeUnknownError("nobody knows"),
        errors.SparkStartError("no JVM"),
        task_failed(errors.StorageError("the store is away")),
        task_failed(None),
        RuntimeError("a bug"),
        dg.Failure("the rest is left to another attempt"),
    ],
)
def test_what_may_pass_is_tried_again_and_told_at_last(error):
    seen = [raised(error, retry_number=number) for number in range(3)]
    assert [type(one) for one in seen[:2]] == [dg.RetryRequested] * 2
    assert seen[0].seconds_to_wait < seen[1].seconds_to_wait
    assert all(one.__cause__ is error for one in seen[:2])
    assert error in (seen[2], seen[2].__cause__)


@pytest.mark.parametrize(
    "error",
    [dg.RetryRequested(9), dg.Failure("no", allow_retries=False), dg.DagsterInvariantViolationError("no")],
)
def test_what_speaks_to_dagster_passes(error):
    assert raised(error) is error


def test_an_interrupt_is_no_failure():
    with (
        pytest.raises(KeyboardInterrupt),
        translated_errors(REF, retry_number=0, conflict_retries=2, pause=1.0),
    ):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidArgumentError("no", field="f", hint="h", path="p"),
        errors.SchemaMismatchError("no", ["a", "b"]),
        errors.CorruptManifestError("no"),
        errors.UnsupportedFeatureError("no", [1 << 40]),
        errors.DatasetNotFoundError("no"),
        errors.CleanupRefusedError("no"),
        task_failed(errors.PermissionDeniedError("no")),
        errors.StorageFullError("full"),
    ],
)
def test_what_stays_fails_at_once(error):
    failure = raised(error)
    assert isinstance(failure, dg.Failure)
    assert failure.allow_retries is False
    named = error.__cause__ or error
    assert type(named).__name__ in failure.metadata["lance/error"].value


def test_a_failure_says_where_and_what_to_do():
    failure = raised(errors.InvalidArgumentError("no", field="f", hint="h", path="p"))
    assert [failure.metadata[f"lance/error_{name}"].value for name in ("field", "hint", "path")] == [
        "f",
        "h",
        "p",
    ]


@pytest.mark.parametrize(
    "error",
    [
        errors.CorruptManifestError("cut off", path="_versions/1.manifest"),
        errors.CorruptFileError("cut off", path="data/x.lance"),
        task_failed(errors.FileMissingError("gone", path="data/x.lance")),
    ],
)
def test_a_failure_by_damage_names_the_commands(error):
    hint = raised(error).metadata["lance/error_hint"].value
    assert f"`lance-ops fsck {REF.uri} --deep`" in hint
    assert f"`lance-ops restore {REF.uri} VERSION`" in hint


@pytest.mark.parametrize(
    "error", [errors.AlreadyExistsError("the tag exists"), errors.BucketMissingError("no bucket")]
)
def test_a_failure_of_the_store_that_lasts_is_not_tried_again(error):
    for raising in (error, task_failed(error)):
        failure = raised(raising)
        assert isinstance(failure, dg.Failure)
        assert failure.allow_retries is False
        assert failure.metadata["lance/error"].value.startswith(type(error).__name__)


def test_a_program_that_was_lost_is_submitted_again():
    assert isinstance(raised(errors.ProgramLostError("killed")), dg.RetryRequested)
