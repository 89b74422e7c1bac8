"""Commit result: a version that stands, and what came of the call that asked for it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from lance_ops.table.dataset import Dataset
from lance_ops.table.transaction.transaction import Transaction


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A commit that stands.

    Attributes:
        dataset: The version that it made.
        version: Its number.
        transaction: What was committed, after rebasing.
        attempts: Manifests that were put together for it.
        conflicts: One line for each transaction of another writer that it was carried over.
        already_committed: An earlier or concurrent run of the same job, or an earlier call with the same
            files, had made `version`. This call changed nothing.
        orphans: Files, relative to the root of the dataset, that were written for this call and that the
            version does not refer to; only when it was already committed.
        settle: What proves that it stands, where that was left to the caller; see `commit`.
    """

    dataset: Dataset
    version: int
    transaction: Transaction
    attempts: int
    conflicts: tuple[str, ...] = ()
    already_committed: bool = False
    orphans: tuple[str, ...] = ()
    settle: Callable[[], None] | None = field(default=None, compare=False, repr=False)
