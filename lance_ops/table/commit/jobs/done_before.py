"""Done before: what a call returns whose work an earlier run of its job, or the same files, committed."""

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
    """The call whose work may be done.

    Attributes:
        store: Root of the dataset.
        base: The version that the call was worked out on, if any.
        ours: What it was to commit.
        brought: Files that it brought.
        storage_options: For opening the dataset anew.
    """

    store: Store
    base: Dataset | None
    ours: Transaction
    brought: tuple[str, ...]
    storage_options: Mapping[str, str]

    def find(self, head: ManifestLocation, manifest: Manifest) -> CommitResult | None:
        """The commit of its job in the lineage of the newest version; None: there is none, or no job key."""
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
        """What a version committed that turned out to be ours."""
        if self.base is None:
            dataset = Dataset.open(self.store, location.version, storage_options=self.storage_options)
        else:
            dataset = self.base.checkout_version(location.version)
        transaction = dataset.read_transaction()
        return self._result(dataset, transaction, location.version, transaction.operation.files())

    def _removed(self, found: CommittedJob) -> CommitResult:
        """The job is done, and its version was removed since then: the head stands for it."""
        if self.base is None:
            dataset = Dataset.open(self.store, storage_options=self.storage_options)
        else:
            dataset = self.base.latest()
        done = self.ours.replace(uuid=found.transaction_uuid)
        # Where the commit was of these very files, others versions may use them still.
        ours = found.evidence in map(file_mark, self.brought)
        return self._result(dataset, done, found.version, self.brought if ours else ())

    def _result(self, dataset: Dataset, done: Transaction, version: int, used: Iterable[str]) -> CommitResult:
        orphans = tuple(sorted(set(self.brought).difference(used)))
        return CommitResult(dataset, version, done, attempts=0, already_committed=True, orphans=orphans)
