"""Missing files: a cleanup may remove them while an operation reads their version."""

import contextlib
from collections.abc import Iterator

from lance_ops.errors import (
    NotFoundError,
    RetryableCommitConflictError,
    TaskFailedError,
    UnreadableIndexError,
)
from lance_ops.storage.retry import is_there
from lance_ops.table.dataset import Dataset

# What a missing file ends in: at once, inside a task wherever it ran, or inside an index.
_SIGNS = (NotFoundError, TaskFailedError, UnreadableIndexError)


@contextlib.contextmanager
def reading(dataset: Dataset, ours: str) -> Iterator[None]:
    """Read a version that a cleanup may remove meanwhile: then plan again on the head instead of failing.

    Cleanup removes the manifest of a version before the files that only this version used. So a missing file
    of an existing manifest is reported as damage.

    Args:
        dataset: The version.
        ours: Name of the reader, for the message.

    Raises:
        RetryableCommitConflictError: The version was removed.
    """
    try:
        yield
    except _SIGNS as error:
        store, path = dataset.store, dataset.location.path
        if is_there(store, path):
            raise
        raise RetryableCommitConflictError(
            "the version was removed while it was read",
            ours=f"{ours} of version {dataset.version}",
            theirs=f"a cleanup that removed version {dataset.version}",
            version=dataset.version,
            path=dataset.uri,
            hint="keep versions in cleanup for longer than operations take",
        ) from error
