"""Commit files: what one commit writes besides data and manifest, and removes when it came to nothing."""

import contextlib
from collections.abc import Collection
from dataclasses import dataclass, field

from lance_ops.errors import LanceOpsError
from lance_ops.storage import Store
from lance_ops.table.commit.rebase.work import MergedDeletions
from lance_ops.table.transaction.operations import (
    Delete,
    Operation,
    Rewrite,
    Update,
    data_files,
    deletion_files,
)
from lance_ops.table.transaction.transaction import Transaction, encode_transaction


@dataclass(slots=True)
class CommitFiles:
    """Transaction file, and deletion files that were merged.

    Attributes:
        store: Root of the dataset.
        ours: The transaction as it was begun; rebases keep its name.
        brought: Files that the operation brings.
        merged: Deletion files of its rebases.
    """

    store: Store
    ours: Transaction
    brought: tuple[str, ...]
    merged: MergedDeletions = field(default_factory=MergedDeletions)
    _stored: bytes | None = None
    _of: Transaction | None = None

    def encoded(self, transaction: Transaction) -> bytes | None:
        """The bytes of a transaction, if it is the one that was written last."""
        return self._stored if transaction is self._of else None

    def write_transaction(self, transaction: Transaction, encoded: bytes | None = None) -> None:
        """Write the transaction file, again if a rebase changed the transaction."""
        if transaction is self._of:
            return
        data = encode_transaction(transaction) if encoded is None else encoded
        self._of = transaction
        if data != self._stored:
            # First, because a put that fails may have written the file.
            self._stored = data
            # Readers look here when the manifest has no copy of it: it has to last as long as the manifest.
            self.store.put(transaction.path, data, durable="later")

    def remove_superseded(self, committed: Operation) -> None:
        """Remove files that a rebase replaced, or found to hold no live row: no version refers to them."""
        begun = self.ours.operation
        if isinstance(begun, Delete | Update):
            self.remove({*deletion_files(begun.updated_fragments), *self.merged.paths} - committed.files())
        elif isinstance(begun, Rewrite):
            self.remove({*data_files(begun.new_fragments), *self.merged.paths} - committed.files())

    def discard(self) -> None:
        """Remove all of it; only when it is certain that nothing was committed."""
        written = set(self.merged.paths)
        if self._stored is not None:
            written.add(self.ours.path)
        self.remove(written)

    def remove(self, paths: Collection[str]) -> None:
        """Remove files as far as the store does it; what stays waits for cleanup."""
        with contextlib.suppress(LanceOpsError):
            self.store.delete_many(sorted(paths))
