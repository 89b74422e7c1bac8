"""Concurrent commits: those of others since our read version, every one of them, or no commit of ours.

A version that cleanup removed, that cannot be read, or whose transaction is missing may have done anything,
also deleted the rows that ours would bring back. The peer skips such versions; here they are a conflict
(architecture, invariant 1).
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
from lance_ops.table.manifest.listing import ManifestLocation
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.naming import manifest_path
from lance_ops.table.transaction.operations import Delete, Rewrite, RewriteGroup, Update
from lance_ops.table.transaction.transaction import (
    ROW_ORDER_KEPT,
    ROW_ORDER_KEY,
    Transaction,
    read_transaction,
)

_PARALLEL_READS = 16
_READ_AT_ONCE = 256
_REPLAN = "plan the operation afresh from the head"


@dataclass(frozen=True, slots=True)
class Committed:
    """A transaction and the version that it led to."""

    version: int
    transaction: Transaction

    def describe(self) -> str:
        """One line for messages."""
        return f"version {self.version}: {self.transaction.describe()}"


@dataclass(frozen=True, slots=True)
class Passed:
    """What is kept of a commit that ours may be carried over: there may be many, and large ones.

    Attributes:
        version: Version that it led to.
        description: One line for messages.
        changed: Ids of the existing fragments that it changed.
        emptied: Ids of those among them of which it deleted all rows that were left.
        groups: What a Rewrite put in the place of what; the fragments without their row ids.
        keeps_order: Its writer vouches for the order of their rows.
    """

    version: int
    description: str
    changed: frozenset[int]
    emptied: frozenset[int] = frozenset()
    groups: tuple[RewriteGroup, ...] = ()
    keeps_order: bool = False

    @classmethod
    def of(cls, committed: Committed) -> "Passed":
        """Keep what messages and rebases need."""
        operation = committed.transaction.operation
        emptied = operation.emptied_fragments() if isinstance(operation, Delete | Update) else frozenset()
        groups = _without_sequences(operation.groups) if isinstance(operation, Rewrite) else ()
        changed = operation.changed_fragments()
        kept = committed.transaction.properties.get(ROW_ORDER_KEY) == ROW_ORDER_KEPT
        return cls(committed.version, committed.describe(), changed, emptied, groups, kept)

    def describe(self) -> str:
        """One line for messages."""
        return self.description


def _without_sequences(groups: Iterable[RewriteGroup]) -> tuple[RewriteGroup, ...]:
    def light(fragments: Iterable[Fragment]) -> tuple[Fragment, ...]:
        return tuple(item.replace(**dict.fromkeys(SEQUENCES)) for item in fragments)

    return tuple(RewriteGroup(light(group.old_fragments), light(group.new_fragments)) for group in groups)


def read_intervening(
    store: Store, ours: Transaction, after: int, head: ManifestLocation, head_manifest: Manifest
) -> Iterator[Committed]:
    """Read the transactions of all versions in `(after, head]`, oldest first, some at a time.

    Args:
        store: Root of the dataset.
        ours: The transaction to commit, for errors.
        after: The last version that is known already.
        head: The newest version.
        head_manifest: Its manifest.

    Raises:
        RetryableCommitConflictError: A version of the range is missing, cannot be read, or does not say what
            it did.
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
    """Fragments of a version that are gone in a later one because commits in between deleted all their rows.

    Where not every version in between tells what it did, nothing is said of those.
    """
    left = {fragment.id for fragment in head.fragments}
    gone = {fragment.id for fragment in planned.fragments} - left
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
        raise _gap(ours, version, "is gone, so nobody knows what it did", error) from error
    except StorageError:
        # The store is down or refuses: no statement about the version, and nothing a new plan would solve.
        raise
    except LanceOpsError as error:
        raise _gap(ours, version, "cannot be read, so nobody knows what it did", error) from error
    if transaction is None:
        raise _gap(ours, version, "does not say what it did", None)
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
    """The error for a collision that planning afresh from the head may solve."""
    return RetryableCommitConflictError(
        reason, ours=ours.describe(), theirs=theirs.describe(), version=theirs.version, hint=_REPLAN
    )


def contradiction(ours: Transaction, theirs: Committed, reason: str) -> IncompatibleCommitConflictError:
    """The error for a collision that planning afresh does not solve."""
    return IncompatibleCommitConflictError(
        reason, ours=ours.describe(), theirs=theirs.describe(), version=theirs.version
    )


def base_conflict(ours: Transaction, what: str, version: int) -> RetryableCommitConflictError:
    """The error for a read version that is not what it was when the operation was worked out."""
    return RetryableCommitConflictError(
        what, ours=ours.describe(), theirs=f"version {version}", version=version, hint=_REPLAN
    )
