"""Commit files: files that one commit writes besides data and manifest, and removes if it fails."""

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
    """Transaction file and merged deletion files of a commit.

    Attributes:
        store: Root of the dataset.
        ours: The transaction as it was begun; rebases keep its name.
        brought: Files that the operation adds.
        merged: Deletion files of its rebases.
    """

    store: Store
    ours: Transaction
    brought: tuple[str, ...]
    merged: MergedDeletions = field(default_factory=MergedDeletions)
    _stored: bytes | None = None
    _of: Transaction | None = None

    def encoded(self, transaction: Transaction) -> bytes | None:
        """Return the bytes of a transaction, if it is the one written last."""
        return self._stored if transaction is self._of else None

    def write_transaction(self, transaction: Transaction, encoded: bytes | None = None) -> None:
        """Write the transaction file, again if a rebase changed the transaction."""
        if transaction is self._of:
            return
        data = encode_transaction(transaction) if encoded is None else encoded
        self._of = transaction
        if data != self._stored:
            # Set before the put, because a failed put may have written the file.
            self._stored = data
            # Readers use this file if the manifest has no copy of the transaction: it must last as long as
            # the manifest.
            self.store.put(transaction.path, data, durable="later")

    def remove_superseded(self, committed: Operation) -> None:
        """Remove files that a rebase replaced or found without live rows: no version refers to them."""
        begun = self.ours.operation
        if isinstance(begun, Delete | Update):
            self.remove({*deletion_files(begun.updated_fragments), *self.merged.paths} - committed.files())
        elif isinstance(begun, Rewrite):
            self.remove({*data_files(begun.new_fragments), *self.merged.paths} - committed.files())

    def discard(self) -> None:
        """Remove all files; only call this when it is certain that nothing was committed."""
        written = set(self.merged.paths)
        if self._stored is not None:
            written.add(self.ours.path)
        self.remove(written)

    def remove(self, paths: Collection[str]) -> None:
        """Remove files as far as the store allows; cleanup removes the rest."""
        with contextlib.suppress(LanceOpsError):
            self.store.delete_many(sorted(paths))
