"""Leases of versions: a long job holds the version that it reads, so that cleanups keep it."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import cast

from lance_ops.errors import InvalidArgumentError, public
from lance_ops.maintenance.target import Target
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset, snapshot_of
from lance_ops.table.history.pins import PIN_LIFETIME, VersionLease

# A heartbeat comes every 15 seconds, and one may be late.
_SHORTEST = timedelta(minutes=1)


@contextlib.contextmanager
@public(target="uri_or_dataset")
def hold_version(
    uri_or_dataset: Target,
    version: int | str | None = None,
    *,
    lifetime: timedelta = timedelta(minutes=10),
    purpose: str = "a reader",
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[VersionLease]:
    """Keep a version and its files from cleanups of lance_ops while a `with` block runs.

    The lease is a small file below the dataset, refreshed four times in its lifetime by a thread, and removed
    at the end of the block. That of a killed process expires. The official library ignores it.

    Args:
        uri_or_dataset: The dataset; of an open `Dataset`, its own version by default.
        version: Number or tag of the version; by default the newest.
        lifetime: How long the lease counts after its last refresh: 1 minute to 7 days.
        purpose: Shown to people who find the lease.
        storage_options: Options of the store.

    Returns:
        The lease: its `version`; `check()` raises when that was removed, `refresh()` extends the lease.

    Raises:
        VersionNotFoundError: There is no such version.
        RetryableCommitConflictError: A cleanup is removing it.

    Examples:
        >>> with lo.hold_version("events.lance") as held:
        ...     rows = lo.dataset("events.lance", version=held.version).count_rows()
    """
    if not _SHORTEST <= lifetime <= PIN_LIFETIME:
        raise InvalidArgumentError(
            f"lifetime must be between {_SHORTEST} and {PIN_LIFETIME}, got {lifetime}", field="lifetime"
        )
    given = snapshot_of(uri_or_dataset)
    if given is None or version is not None:
        target = cast("str | os.PathLike[str] | Store", uri_or_dataset) if given is None else given.root
        options = storage_options if given is None else given.storage_options
        given = Dataset.open(target, version, storage_options=options)
    with VersionLease(given.store, given.version, purpose, lifetime) as lease:
        yield lease
