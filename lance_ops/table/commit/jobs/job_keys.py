"""Job keys: exactly-once commits. A job names its commit, and a re-run finds it.

The key proves that the effect of the job is in the lineage of the newest version. Later commits may have
deleted, replaced or rewritten its rows: the job still counts as done. A restore of a version before it has
undone the job, and a re-run applies it again; a restore of a version after it brings it back. A branch or a
clone knows the jobs of its source version. See `job_record`.

Idempotency: the result of a call whose work an earlier run of its job, or the same files, committed.

Leftover files: files of a run that another run of the same job made obsolete.

Files written under a job key have the mark of the key in their name, and are committed under that key or not
at all. Once a commit of the job is in the lineage of the newest version, unused files of the job can be
removed immediately (`lance_ops.maintenance.cleanup.marks`). A cleanup announces them, checks that the newest
version is unchanged, then removes them. Only a later restore can undo the job, so that a live run may commit
its files. Such a run commits on a version created after the check of the cleanup, hence after the
announcement: it reads the version that it commits on, then checks for announcements, then for its files. It
finds one of the two, or the cleanup has left its files alone.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from lance_ops.errors import JobUnprovenError, NotFoundError
from lance_ops.storage import Store
from lance_ops.storage.retry import is_there
from lance_ops.table.commit.jobs.ancestry import Ancestry, Place, Step, step_of
from lance_ops.table.commit.jobs.earlier_record import earlier_jobs, find_earlier_job, is_of_job
from lance_ops.table.commit.jobs.job_record import (
    KEEP_JOB_KEYS,
    LOST,
    JobEntry,
    JobRecord,
    file_mark,
    new_entry,
    seal,
)
from lance_ops.table.commit.request import CommitResult
from lance_ops.table.dataset import Dataset
from lance_ops.table.history.pins import list_removals
from lance_ops.table.manifest.feature_flags import flags_for
from lance_ops.table.manifest.file.read import read_latest
from lance_ops.table.manifest.file.summary import read_summary
from lance_ops.table.manifest.listing import ManifestLocation, locate, manifest_path
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.operations import JOBS_ENTRY, Rewrite
from lance_ops.table.transaction.transaction import Transaction, check_job_key, job_uuid_prefix


@dataclass(frozen=True, slots=True)
class CommittedJob:
    """A commit in the lineage of the newest version.

    Attributes:
        version: Version that it made.
        transaction_uuid: Its transaction.
        removed: The version itself was removed; its effects remain.
        evidence: See `JobEntry`.
    """

    version: int
    transaction_uuid: str
    removed: bool = False
    evidence: int = 0


def find_job(dataset: "Dataset", job_key: str, *, is_head: bool = False) -> CommittedJob | None:
    """Find the commit of a job in the lineage of the newest version, whether its version still exists or not.

    Args:
        dataset: Any snapshot; versions after it count too.
        job_key: Key that was given to the operation.
        is_head: The snapshot is the newest version, so that no newer one is searched for.

    Returns:
        None when the job was never committed, or when a restore has undone it.

    Raises:
        InvalidArgumentError: The key is not a string, or empty.
        JobUnprovenError: An earlier release tried or committed it, and another library's cleanup removed the
            versions that would tell whether it still counts; or the record of job keys is lost.
        CorruptManifestError: The record of job keys is damaged.
        CorruptFileError: A file of the record is damaged.
    """
    check_job_key(job_key)
    head, manifest = dataset.location, dataset.manifest
    if not is_head:
        head, manifest = read_latest(dataset.store, manifest)
    return find_committed_job(dataset.store, head, manifest, job_key)


def find_transaction(dataset: "Dataset", transaction_uuid: str) -> CommittedJob | None:
    """Find a commit by transaction UUID; if its version was removed, only with a job key."""
    store = dataset.store
    head, manifest = read_latest(store, dataset.manifest)
    found = _find(store, head, manifest, transaction_uuid[: len(job_uuid_prefix(""))])
    if found is not None and found.transaction_uuid == transaction_uuid:
        return found
    if is_of_job(transaction_uuid):
        return None
    step, _ = Ancestry(store, head, manifest).find(transaction_uuid, 0)
    return None if step is None else CommittedJob(step.version, transaction_uuid)


def find_committed_job(
    store: Store,
    head: ManifestLocation,
    manifest: Manifest,
    job_key: str,
    storage_options: Mapping[str, str] | None = None,
) -> CommittedJob | None:
    """See `find_job`.

    Args:
        store: Root of the dataset.
        head: The newest version.
        manifest: Its manifest.
        job_key: Key of the job.
        storage_options: For opening the stores of other bases.
    """
    return _find(store, head, manifest, job_uuid_prefix(job_key), storage_options)


def _find(
    store: Store,
    head: ManifestLocation,
    manifest: Manifest,
    prefix: str,
    storage_options: Mapping[str, str] | None = None,
) -> CommittedJob | None:
    record = JobRecord.of(manifest.config, store.uri, manifest.base_paths, storage_options)
    entry, lost = None, None
    try:
        entry = None if record is None else record.find(store, prefix)
    except JobUnprovenError as error:
        # The files of the job may prove it.
        lost = error
    if entry is None:
        entry = find_earlier_job(store, head, manifest, prefix, record)
    if entry is None:
        if lost is not None:
            raise lost
        return None
    if not entry.version:
        raise JobUnprovenError(
            f"transaction {entry.uuid} of this job may have been committed, and later versions were "
            "removed without a record, so it is unknown whether the job is done",
            path=store.uri,
            hint="check whether its effect is in the table; use another job key to apply it again",
        )
    step = _step(store, head, manifest, entry.version)
    removed = step is None or step.uuid != entry.uuid
    return CommittedJob(entry.version, entry.uuid, removed, entry.evidence)


def _step(store: Store, head: ManifestLocation, manifest: Manifest, version: int) -> Step | None:
    if version == head.version:
        return step_of(store, manifest)
    path = manifest_path(version, head.scheme)
    try:
        return step_of(store, read_summary(store, ManifestLocation(version, path, scheme=head.scheme)))
    except NotFoundError:
        return None


def stands(store: Store, head: ManifestLocation, manifest: Manifest, version: int, uuid: str) -> bool:
    """Return whether a commit whose version was read just now is in the lineage of the head."""
    return Ancestry(store, head, manifest).place(uuid, version) is Place.INSIDE


def with_job(
    store: Store,
    head: ManifestLocation | None,
    before: Manifest | None,
    after: Manifest,
    ours: Transaction,
    brought: tuple[str, ...],
    restored: Manifest | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Manifest:
    """Return a version that is about to be committed with its job in the record.

    The first job of a table begins the record with all that the earlier one knows. Without a record, so does
    a compaction of files that jobs wrote.

    Args:
        store: Root of the dataset.
        head: The newest version; None when there is none.
        before: Its manifest.
        after: The next version.
        ours: Its transaction.
        brought: Files that it adds.
        restored: The version that it brings back, if any.
        storage_options: For opening the stores of other bases.
    """
    if ours.job_key is None and not _takes_last_traces(ours, after):
        return after
    record = JobRecord.of(after.config, store.uri, after.base_paths, storage_options)
    if record is None or datetime.now(UTC) - record.begun < KEEP_JOB_KEYS:
        # First: a process of an earlier release that checks from now on refuses, and one that checked before
        # leaves a note, or sees this commit among those since its read version.
        seal(store)
    jobs: list[JobEntry] = []
    if record is None:
        record = JobRecord(after.version, after.timestamp)
        if head is not None and before is not None:
            jobs, is_whole = earlier_jobs(store, head, before, restored)
            record = record if is_whole else replace(record, file=LOST)
    if ours.job_key is not None:
        jobs.append(new_entry(ours.uuid, ours.job_key, after.version, brought))
    config = {**after.config, JOBS_ENTRY: str(record.add(store, *jobs))}
    manifest = after.replace(config=config)
    reader_flags, writer_flags = flags_for(manifest)
    return manifest.replace(reader_flags=reader_flags, writer_flags=writer_flags)


def _takes_last_traces(ours: Transaction, after: Manifest) -> bool:
    """Return whether a compaction replaces files that may be the only evidence of jobs."""
    operation = ours.operation
    if JOBS_ENTRY in after.config or not isinstance(operation, Rewrite):
        return False
    return any(is_of_job(path.rpartition("/")[2]) for path in operation.replaced_files())


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


def find_left_over(store: Store, paths: Sequence[str]) -> str | None:
    """Return one of the files to be committed that is removed or announced for removal; usually None.

    Call it, after reading the new version, whenever files of a job are carried over a restore or committed on
    another version than planned, unless the job is done there.

    Args:
        store: Root of the dataset.
        paths: The files. Files of index segments are not checked: they are never carried over a restore.
    """
    announced = {path for removal in list_removals(store) for path in removal.files}
    files = (path for path in paths if not path.endswith("/"))
    return next(
        (path for path in files if path in announced or not is_there(store, path)),
        None,
    )
