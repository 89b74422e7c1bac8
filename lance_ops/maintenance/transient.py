"""Transience: whether an operation that failed may succeed when a scheduler tries it again as it is.

Conflicts are not judged here: they are planned anew, each scheduler in its own way.
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
    """Whether trying again may help: the store, Spark or a task failed, for no reason that lasts."""
    return isinstance(error, _TRANSIENT) and not isinstance(origin_of(error), _LASTING)


def origin_of(error: LanceOpsError) -> LanceOpsError:
    """What made a task fail, when that is known here and an error of ours; else the error itself."""
    while isinstance(error, TaskFailedError) and isinstance(error.__cause__, LanceOpsError):
        error = error.__cause__
    return error
