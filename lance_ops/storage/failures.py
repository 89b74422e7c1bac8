"""Turns what operating systems and filesystem libraries raise into the errors of this package."""

import errno
import ftplib

from lance_ops.errors import (
    AlreadyExistsError,
    BucketMissingError,
    FileMissingError,
    LanceOpsError,
    PermissionDeniedError,
    StorageError,
    StorageFullError,
)

_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_GONE = frozenset({404, 410})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def missing(where: str) -> FileMissingError:
    """Build the error for an object that is not there."""
    return FileMissingError("no such file", path=where)


def missing_bucket(where: str, reason: str) -> BucketMissingError:
    """Return the error for an address without a store, which may be a typing error."""
    return BucketMissingError(
        f"the bucket or container does not exist: {reason}",
        path=where,
        hint="check its name and the endpoint in the storage options, or create it",
    )


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
        reading: True if a missing file or folder means that the object is not there. While writing, it means
            that something in the way is a file instead of a folder, or the other way round.
        reason: The text to show instead of that of the error, which may hold secrets.
    """
    number = error.errno
    reason = reason or error.strerror or str(error) or type(error).__name__
    answer = getattr(error.__cause__, "response", None)
    if isinstance(answer, dict) and answer.get("Error", {}).get("Code") == "NoSuchBucket":
        return missing_bucket(where, reason)
    if isinstance(error, FileExistsError) or number == errno.EEXIST:
        return already_exists(where)
    if isinstance(error, PermissionError) or number in _DENIED:
        return permission_denied(where, reason)
    if number in _FULL:
        return storage_full(where, reason)
    if reading and is_clearly_missing(error):
        return missing(where)
    in_the_way = isinstance(error, NotADirectoryError) or number == errno.ENOTDIR
    hint = "a part of this path is a file: name a folder for the dataset" if in_the_way else None
    return StorageError(f"the store failed: {reason}", path=where, hint=hint)


def is_clearly_missing(error: OSError) -> bool:
    """Return whether an error proves that an object does not exist.

    Filesystem libraries turn failures of all kinds into `FileNotFoundError`; their cause distinguishes them.
    Treating a store that is down as empty may overwrite or remove a dataset.
    """
    if not _says_missing(error):
        return False
    cause = error.__cause__
    if cause is not None and not _allows_absence(cause):
        return False
    # Raised while another error was handled, without saying that it comes from it.
    context = None if error.__suppress_context__ else error.__context__
    return not isinstance(context, OSError) or _allows_absence(context)


def _says_missing(error: BaseException) -> bool:
    kinds = FileNotFoundError | NotADirectoryError | IsADirectoryError
    return isinstance(error, OSError) and (error.errno in _MISSING or isinstance(error, kinds))


def _allows_absence(cause: BaseException) -> bool:
    """Return whether the cause of a `FileNotFoundError` is a lookup without a result."""
    status = _http_status(cause)
    if status is not None:
        return status in _GONE
    if isinstance(cause, OSError):
        return _says_missing(cause) and is_clearly_missing(cause)
    if isinstance(cause, ftplib.error_perm):  # noqa: S321 - names the error of a library below
        # One code for both; only the words differ.
        text = str(cause).lower()
        return text.startswith("550") and "denied" not in text and "permi" not in text
    return isinstance(cause, LookupError | StopIteration)


def _http_status(error: BaseException) -> int | None:
    """Find the status of the answer in the errors of aiohttp, requests, azure and botocore."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status", "status_code"):
            status = getattr(holder, name, None)
            if isinstance(status, int):
                return status
        if isinstance(holder, dict):
            status = holder.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if isinstance(status, int):
                return status
    return None
