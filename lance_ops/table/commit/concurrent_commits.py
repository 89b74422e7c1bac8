"""Concurrent commits: all commits of other writers since our read version; any gap prevents our commit.

A version that cleanup removed, that cannot be read, or whose transaction is missing may have changed
anything, or deleted the rows that ours would bring back. pylance skips such versions; here they are a
conflict (architecture, invariant 1).
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lance_ops.errors import (
    IncompatibleCommitConflictError,
    LanceOpsError,
    NotFoundError,
    RetryableCommitConflictError,
    StorageError,
)
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.file.summary import ManifestSummary, read_summary
from lance_ops.table.manifest.fragment import SEQUENCES, Fragment
from lance_ops.table.manifest.fragments.totals import ids_of
from lance_ops.table.manifest.listing import ManifestLocation, manifest_path
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.operations import Delete, Rewrite, RewriteGroup, Update
from lance_ops.table.transaction.transaction import (
    ROW_ORDER_KEPT,
    ROW_ORDER_KEY,
    Transaction,
    read_transaction,
)

_PARALLEL_READS = 16
_READ_AT_ONCE = 256
_REPLAN = "plan the operation again from the newest version"


@dataclass(frozen=True, slots=True)
class Committed:
    """A transaction and the version that it created."""

    version: int
    transaction: Transaction

    def describe(self) -> str:
        """Return a one-line description for messages."""
        return f"version {self.version}: {self.transaction.describe()}"


@dataclass(frozen=True, slots=True)
class Passed:
    """Summary of a commit that ours is rebased over: there may be many, and large ones.

    Attributes:
        version: Version that it created.
        description: One line for messages.
        changed: Ids of the existing fragments that it changed.
        emptied: Ids of changed fragments whose last rows it deleted.
        groups: Fragment groups of a Rewrite, without row ids.
        keeps_order: The writer guarantees that the row order was kept.
    """

    version: int
    description: str
    changed: frozenset[int]
    emptied: frozenset[int] = frozenset()
    groups: tuple[RewriteGroup, ...] = ()
    keeps_order: bool = False

    @classmethod
    def of(cls, committed: Committed) -> "Passed":
        """Keep the parts that messages and rebases need."""
        operation = committed.transaction.operation
        emptied = operation.emptied_fragments() if isinstance(operation, Delete | Update) else frozenset()
        groups = _without_sequences(operation.groups) if isinstance(operation, Rewrite) else ()
        changed = operation.changed_fragments()
        kept = committed.transaction.properties.get(ROW_ORDER_KEY) == ROW_ORDER_KEPT
        return cls(committed.version, committed.describe(), changed, emptied, groups, kept)

    def describe(self) -> str:
        """Return a one-line description for messages."""
        return self.description


def _without_sequences(groups: Iterable[RewriteGroup]) -> tuple[RewriteGroup, ...]:
    def light(fragments: Iterable[Fragment]) -> tuple[Fragment, ...]:
        return tuple(item.replace(**dict.fromkeys(SEQUENCES)) for item in fragments)

    return tuple(RewriteGroup(light(group.old_fragments), light(group.new_fragments)) for group in groups)


def read_intervening(
    store: Store, ours: Transaction, after: int, head: ManifestLocation, head_manifest: Manifest
) -> Iterator[Committed]:
    """Read the transactions of all versions in `(after, head]`, oldest first, in batches.

    Args:
        store: Root of the dataset.
        ours: The transaction to commit, for errors.
        after: The last version that is known already.
        head: The newest version.
        head_manifest: Its manifest.

    Raises:
        RetryableCommitConflictError: A version of the range is missing, cannot be read, or records no
            transaction.
    """

    def read(version: int) -> Committed:
        if version == head.version:
            return _committed(store, ours, version, lambda: head_manifest)
        location = ManifestLocation(version, manifest_path(version, head.scheme), scheme=head.scheme)
        return _committed(store, ours, version, lambda: read_summary(store, location))

    versions = range(after + 1, head.version + 1)
    if len(versions) <= 2:
        yield from map(read, versions)
        return
    with ThreadPoolExecutor(min(_PARALLEL_READS, len(versions))) as pool:
        for start in range(0, len(versions), _READ_AT_ONCE):
            yield from pool.map(read, versions[start : start + _READ_AT_ONCE])


def emptied_fragments(planned: Dataset, head: Dataset) -> frozenset[int]:
    """Return fragments that are gone in a later version because commits in between deleted all their rows.

    Fragments are left out if a version in between records no transaction.
    """
    left = ids_of(head.fragments)
    gone = ids_of(planned.fragments) - left
    found: set[int] = set()
    for version in range(planned.version + 1, head.version + 1) if gone else ():
        try:
            path = manifest_path(version, head.location.scheme)
            location = ManifestLocation(version, path, scheme=head.location.scheme)
            transaction = read_transaction(head.store, read_summary(head.store, location))
        except LanceOpsError:
            continue
        if transaction is not None and isinstance(transaction.operation, Delete | Update):
            found |= transaction.operation.emptied_fragments()
    return frozenset(gone & found)


def _committed(
    store: Store, ours: Transaction, version: int, read: Callable[[], Manifest | ManifestSummary]
) -> Committed:
    try:
        transaction = read_transaction(store, read())
    except NotFoundError as error:
        raise _gap(ours, version, "was removed, so its changes are unknown", error) from error
    except StorageError:
        # The store is down or refuses access: says nothing about the version, and a new plan would not help.
        raise
    except LanceOpsError as error:
        raise _gap(ours, version, "cannot be read, so its changes are unknown", error) from error
    if transaction is None:
        raise _gap(ours, version, "records no transaction", None)
    return Committed(version, transaction)


def _gap(
    ours: Transaction, version: int, what: str, cause: LanceOpsError | None
) -> RetryableCommitConflictError:
    return RetryableCommitConflictError(
        f"version {version}, committed after the read version, {what}",
        ours=ours.describe(),
        theirs=f"version {version}: unknown",
        version=version,
        path=cause.path if cause else None,
        hint=_REPLAN,
    )


def conflict(ours: Transaction, theirs: Committed | Passed, reason: str) -> RetryableCommitConflictError:
    """Return the error for a conflict that planning again from the head may solve."""
    return RetryableCommitConflictError(
        reason, ours=ours.describe(), theirs=theirs.describe(), version=theirs.version, hint=_REPLAN
    )


def contradiction(ours: Transaction, theirs: Committed, reason: str) -> IncompatibleCommitConflictError:
    """Return the error for a conflict that planning again does not solve."""
    return IncompatibleCommitConflictError(
        reason, ours=ours.describe(), theirs=theirs.describe(), version=theirs.version
    )


def base_conflict(ours: Transaction, what: str, version: int) -> RetryableCommitConflictError:
    """Return the error for a read version that has changed since the operation was planned."""
    return RetryableCommitConflictError(
        what, ours=ours.describe(), theirs=f"version {version}", version=version, hint=_REPLAN
    )
