"""Commit result: a version that stands, and what came of the call that asked for it."""

from dataclasses import dataclass

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
    """

    dataset: Dataset
    version: int
    transaction: Transaction
    attempts: int
    conflicts: tuple[str, ...] = ()
    already_committed: bool = False
    orphans: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """What was committed as JSON values."""
        return {
            "operation": self.transaction.operation.kind,
            "uri": self.dataset.uri,
            "read_version": self.transaction.read_version,
            "version": self.version,
            "attempts": self.attempts,
            "conflicts": list(self.conflicts),
            "already_committed": self.already_committed,
        }

    def summary(self) -> str:
        """What was committed, in one line."""
        return self.transaction.describe()
