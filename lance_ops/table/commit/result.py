"""Commit result: a committed version and the outcome of the call."""

from collections.abc import Callable
from dataclasses import dataclass, field

from lance_ops.table.dataset import Dataset
from lance_ops.table.transaction.transaction import Transaction


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A committed version.

    Attributes:
        dataset: The version.
        version: Its number.
        transaction: The committed transaction, after rebasing.
        attempts: Number of manifests built for it.
        conflicts: One line for each transaction of another writer that it was rebased over.
        already_committed: An earlier or concurrent run of the same job, or an earlier call with the same
            files, had made `version`. This call changed nothing.
        orphans: Files, relative to the root of the dataset, that were written for this call and that the
            version does not refer to; only when it was already committed.
        settle: Verifies that the version is in the history, where that was left to the caller; see `commit`.
    """

    dataset: Dataset
    version: int
    transaction: Transaction
    attempts: int
    conflicts: tuple[str, ...] = ()
    already_committed: bool = False
    orphans: tuple[str, ...] = ()
    settle: Callable[[], None] | None = field(default=None, compare=False, repr=False)
