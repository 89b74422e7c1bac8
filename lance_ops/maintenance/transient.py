"""Transient errors: whether a retry of a failed operation by a scheduler may succeed.

Conflicts are not handled here: they are planned again, in the way of each scheduler.
"""

from lance_ops.errors import (
    AlreadyExistsError,
    BucketMissingError,
    CommitOutcomeUnknownError,
    FormatError,
    LanceOpsError,
    NotFoundError,
    PermissionDeniedError,
    ProgramLostError,
    SparkStartError,
    StorageError,
    StorageFullError,
    TaskFailedError,
)

_TRANSIENT = (StorageError, TaskFailedError, CommitOutcomeUnknownError, SparkStartError, ProgramLostError)
# Of these some are failures of a store, and none of them goes away by itself.
_LASTING = (
    AlreadyExistsError,
    BucketMissingError,
    PermissionDeniedError,
    StorageFullError,
    NotFoundError,
    FormatError,
)


def may_pass(error: LanceOpsError) -> bool:
    """Return whether a retry may help: the store, Spark or a task failed, without a permanent cause."""
    return isinstance(error, _TRANSIENT) and not isinstance(origin_of(error), _LASTING)


def origin_of(error: LanceOpsError) -> LanceOpsError:
    """Return the cause of a failed task, if it is known here and an error of ours; else the error itself."""
    while isinstance(error, TaskFailedError) and isinstance(error.__cause__, LanceOpsError):
        error = error.__cause__
    return error
