"""Error codes: stable, unique, and one for each public class."""

import inspect
import pickle
import re

import pytest

from lance_ops import errors

CLASSES = [
    kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, errors.LanceOpsError)
]


def test_each_class_has_a_code_of_its_own():
    codes = [vars(kind).get("code") for kind in CLASSES]
    assert len(set(codes)) == len(codes) > 40
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code or "") for code in codes)


def test_a_subclass_without_a_code_has_that_of_its_base():
    class LocalError(errors.StorageError):
        pass

    assert LocalError("no").code == "storage"


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        # Programs compare with these: a class may get another name, its code may not.
        (errors.LanceOpsError, "lance-ops"),
        (errors.InvalidArgumentError, "invalid-argument"),
        (errors.RetryableCommitConflictError, "retryable-commit-conflict"),
        (errors.CommitOutcomeUnknownError, "commit-outcome-unknown"),
        (errors.DatasetNotFoundError, "dataset-not-found"),
    ],
)
def test_codes_that_programs_rely_on(kind, code):
    assert kind.code == code


def test_a_code_survives_pickling():
    error = pickle.loads(pickle.dumps(errors.StorageFullError("no space", path="/t")))
    assert (error.code, error.path) == ("storage-full", "/t")
