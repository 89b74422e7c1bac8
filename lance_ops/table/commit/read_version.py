"""Read version: the snapshot from which an operation was planned."""

from collections.abc import Mapping

from lance_ops.errors import InvalidArgumentError, RetryableCommitConflictError, VersionNotFoundError
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.naming import is_detached
from lance_ops.table.transaction.operations import Operation, Overwrite


def read_version_of(
    target: Dataset | Store,
    operation: Operation,
    read_version: int | None,
    options: Mapping[str, str] | None,
) -> Dataset | None:
    """Return the snapshot from which an operation was planned; None when it creates the dataset.

    Raises:
        RetryableCommitConflictError: That version was removed.
        InvalidArgumentError: It is detached, and has no successors.
    """
    if isinstance(target, Dataset):
        base = target
    elif read_version is None and isinstance(operation, Overwrite):
        return None
    else:
        base = Dataset.open(target, storage_options=options)
    if read_version is not None and read_version != base.version:
        try:
            base = base.checkout_version(read_version)
        except VersionNotFoundError as error:
            raise RetryableCommitConflictError(
                f"the read version {read_version} was removed",
                ours=operation.name,
                theirs=f"version {read_version}: unknown",
                version=read_version,
                hint="plan the operation again from the newest version",
            ) from error
    if is_detached(base.version):
        raise InvalidArgumentError(
            "a detached version has no successors", path=base.uri, hint="commit to a version of the history"
        )
    return base
