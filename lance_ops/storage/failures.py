"""Turns what operating systems and filesystem libraries raise into the errors of this package."""

import errno

from lance_ops.errors import (
    AlreadyExistsError,
    FileMissingError,
    LanceOpsError,
    PermissionDeniedError,
    StorageError,
    StorageFullError,
)

_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def missing(where: str) -> FileMissingError:
    """Build the error for an object that is not there."""
    return FileMissingError("no such file", path=where)


def already_exists(where: str) -> AlreadyExistsError:
    """Build the error for a lost put-if-absent."""
    return AlreadyExistsError("the file exists already and is not replaced", path=where)


def permission_denied(where: str, reason: str) -> PermissionDeniedError:
    """Build the error for refused access."""
    return PermissionDeniedError(
        f"access denied: {reason}", path=where, hint="check owner, mode or credentials"
    )


def storage_full(where: str, reason: str) -> StorageFullError:
    """Build the error for a full disk or an exhausted quota."""
    return StorageFullError(
        f"no space left: {reason}", path=where, hint="free space or raise the quota, then retry"
    )


def translate_os_error(
    error: OSError, where: str, *, reading: bool, reason: str | None = None
) -> LanceOpsError:
    """Classify an `OSError`.

    Args:
        error: As raised by Python or by a filesystem library; `errno` may be missing.
        where: The path or URI it is about.
        reading: Whether a missing file or folder means that the object is not there. While writing, it means
            that something in the way is a file instead of a folder, or the other way round.
        reason: The text to show instead of that of the error, which may hold secrets.
    """
    number = error.errno
    reason = reason or error.strerror or str(error) or type(error).__name__
    if isinstance(error, FileExistsError) or number == errno.EEXIST:
        return already_exists(where)
    if isinstance(error, PermissionError) or number in _DENIED:
        return permission_denied(where, reason)
    if number in _FULL:
        return storage_full(where, reason)
    if reading and (number in _MISSING or isinstance(error, FileNotFoundError | IsADirectoryError)):
        return missing(where)
    return StorageError(f"the store failed: {reason}", path=where)
