"""Damage comes with the commands that show it and that go back."""

import pytest

from lance_ops.errors import (
    CorruptFileError,
    CorruptManifestError,
    DatasetNotFoundError,
    FileMissingError,
    InvalidArgumentError,
    StorageError,
    TaskFailedError,
    UnreadableIndexError,
    VersionNotFoundError,
)
from lance_ops.maintenance.fsck.remedy import hint_for


@pytest.mark.parametrize("kind", [CorruptFileError, CorruptManifestError, FileMissingError])
def test_damage_names_the_commands(kind):
    hint = hint_for(kind("broken", path="data/x.lance"), "/lake/my table.lance")
    assert "`lance-ops fsck '/lake/my table.lance' --deep`" in hint
    assert "`lance-ops restore '/lake/my table.lance' VERSION`" in hint
    assert hint_for(kind("broken", hint="look"), "/t").startswith("look; `lance-ops fsck /t --deep`")


def test_damage_behind_a_failed_task_counts():
    error = TaskFailedError("a task failed")
    error.__cause__ = FileMissingError("gone")
    assert "lance-ops fsck" in hint_for(error, "/t")


@pytest.mark.parametrize(
    "error",
    [
        *(StorageError("slow", hint="again"), InvalidArgumentError("no", hint="yes")),
        *(DatasetNotFoundError("none", hint="where?"), UnreadableIndexError("index", hint="rebuild")),
    ],
)
def test_other_errors_keep_their_hint(error):
    assert hint_for(error, "/t") == error.hint


def test_what_was_asked_for_and_is_not_there_is_no_damage_though_a_file_is_missing():
    error = VersionNotFoundError("there is no tag 'x'", hint="its tags: y")
    error.__cause__ = FileMissingError("no such file")
    assert hint_for(error, "/t") == "its tags: y"


def test_no_password_stands_in_a_command():
    assert "secret" not in hint_for(CorruptFileError("broken"), "https://me:secret@host/t")
