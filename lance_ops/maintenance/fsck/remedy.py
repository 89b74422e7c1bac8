"""Remedies for a damaged dataset, in commands that can be copied."""

import shlex

from lance_ops.errors import (
    FileMissingError,
    FormatError,
    LanceOpsError,
    NotFoundError,
    UnreadableIndexError,
)
from lance_ops.uri_secrets import hide_credentials


def hint_for(error: LanceOpsError, uri: str) -> str | None:
    """The hint of an error; for damage also how to see what is damaged, and how to go back.

    Args:
        error: What went wrong with the dataset.
        uri: The dataset, as the user gave it.
    """
    cause = error
    while not _is_damage(cause) and not _is_answer(cause) and isinstance(cause.__cause__, LanceOpsError):
        cause = cause.__cause__
    if not _is_damage(cause):
        return error.hint
    commands = damage_commands(uri)
    return commands if error.hint is None else f"{error.hint}; {commands}"


def damage_commands(uri: str) -> str:
    """How to see what is damaged in a dataset, and how to go back to a sound version.

    Args:
        uri: The dataset, as the user gave it.
    """
    place = shlex.quote(hide_credentials(uri))
    return (
        f"`lance-ops fsck {place} --deep` lists what is damaged; `lance-ops restore {place} VERSION` goes "
        f"back to an older version, once `lance-ops fsck {place} --version VERSION --deep` calls it sound"
    )


def _is_answer(error: LanceOpsError) -> bool:
    # A version, tag or branch that was asked for and is not there, however that showed.
    return isinstance(error, NotFoundError) and not isinstance(error, FileMissingError)


def _is_damage(error: LanceOpsError) -> bool:
    # The rows are sound when an index is not, and its own hint says how it is made anew.
    return isinstance(error, FormatError | FileMissingError) and not isinstance(error, UnreadableIndexError)
