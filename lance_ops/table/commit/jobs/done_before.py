"""Idempotency: the result of a call whose work an earlier run of its job, or the same files, committed."""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lance_ops.errors import NotFoundError
from lance_ops.storage import Store
from lance_ops.table.commit.jobs.job_keys import CommittedJob, find_committed_job
from lance_ops.table.commit.jobs.job_record import file_mark
from lance_ops.table.commit.request import CommitResult
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.listing import ManifestLocation, locate
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.transaction import Transaction


@dataclass(frozen=True, slots=True)
class DoneBefore:
    """A call whose work may already be committed.

    Attributes:
        store: Root of the dataset.
        base: Read version of the call, if any.
        ours: The transaction to commit.
        brought: Files that it adds.
        storage_options: For opening the dataset again.
    """

    store: Store
    base: Dataset | None
    ours: Transaction
    brought: tuple[str, ...]
    storage_options: Mapping[str, str]

    def find(self, head: ManifestLocation, manifest: Manifest) -> CommitResult | None:
        """Find the commit of the job in the lineage of the newest version; None without one."""
        if self.ours.job_key is None:
            return None
        found = find_committed_job(self.store, head, manifest, self.ours.job_key, self.storage_options)
        if found is None:
            return None
        if not found.removed:
            with contextlib.suppress(NotFoundError):
                return self.at(locate(self.store, found.version))
        return self._removed(found)

    def at(self, location: ManifestLocation) -> CommitResult:
        """Return the result for a version that turned out to be our own commit."""
        if self.base is None:
            dataset = Dataset.open(self.store, location.version, storage_options=self.storage_options)
        else:
            dataset = self.base.checkout_version(location.version)
        transaction = dataset.read_transaction()
        return self._result(dataset, transaction, location.version, transaction.operation.files())

    def _removed(self, found: CommittedJob) -> CommitResult:
        """Return the head as the result of a job whose own version was removed."""
        if self.base is None:
            dataset = Dataset.open(self.store, storage_options=self.storage_options)
        else:
            dataset = self.base.latest()
        done = self.ours.replace(uuid=found.transaction_uuid)
        # If the commit had exactly these files, other versions may still use them.
        ours = found.evidence in map(file_mark, self.brought)
        return self._result(dataset, done, found.version, self.brought if ours else ())

    def _result(self, dataset: Dataset, done: Transaction, version: int, used: Iterable[str]) -> CommitResult:
        orphans = tuple(sorted(set(self.brought).difference(used)))
        return CommitResult(dataset, version, done, attempts=0, already_committed=True, orphans=orphans)
