"""Repair commands for a damaged dataset."""

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
    """Return the hint of an error; for damage with commands to check and restore.

    Args:
        error: The error.
        uri: The dataset, as given by the user.
    """
    cause = error
    while not _is_damage(cause) and not _is_answer(cause) and isinstance(cause.__cause__, LanceOpsError):
        cause = cause.__cause__
    if not _is_damage(cause):
        return error.hint
    commands = damage_commands(uri)
    return commands if error.hint is None else f"{error.hint}; {commands}"


def damage_commands(uri: str) -> str:
    """Return commands to check a dataset and to restore a sound version.

    Args:
        uri: The dataset, as given by the user.
    """
    place = shlex.quote(hide_credentials(uri))
    return (
        f"`lance-ops fsck {place} --deep` lists the damage; `lance-ops restore {place} VERSION` restores an "
        f"older version, if `lance-ops fsck {place} --version VERSION --deep` finds no damage"
    )


def _is_answer(error: LanceOpsError) -> bool:
    # A missing version, tag or branch, however reported.
    return isinstance(error, NotFoundError) and not isinstance(error, FileMissingError)


def _is_damage(error: LanceOpsError) -> bool:
    # The rows are sound if only an index is damaged, and its own hint has the repair.
    return isinstance(error, FormatError | FileMissingError) and not isinstance(error, UnreadableIndexError)
