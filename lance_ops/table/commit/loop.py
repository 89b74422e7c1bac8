"""Commit loop: from an operation to the next version, or to an error that changed nothing.

1. Write the transaction file.
2. Read every transaction between the read version and the head, and judge it. A gap is a conflict.
3. Adapt the operation to the head, build the manifest, and store it unless the version exists.
4. If another writer was faster, go back to 2.
5. See that no newer version passed ours by.

Source: format, "Committing Datasets"; architecture, "Life of a commit" and invariants 1, 2, 3, 6 and 7.
"""

import contextlib
import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from lance_ops.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    DatasetExistsError,
    DatasetNotFoundError,
    FormatError,
    InvalidArgumentError,
    LanceOpsError,
    NotFoundError,
    PathEscapeError,
    StorageError,
    VersionNotFoundError,
)
from lance_ops.storage import Store, open_store
from lance_ops.table.commit.apply import build_manifest
from lance_ops.table.commit.committer import Committer, PutIfAbsentCommitter, committer_for
from lance_ops.table.commit.concurrent_commits import (
    Passed,
    base_conflict,
    conflict,
    contradiction,
    read_intervening,
)
from lance_ops.table.commit.conflict_matrix import judge
from lance_ops.table.commit.conflict_rules import Outcome
from lance_ops.table.commit.job_keys import CommittedJob, find_committed_job, stands
from lance_ops.table.commit.job_record import JobNote, evidence_of, file_mark, list_record, put_note
from lance_ops.table.commit.left_over import find_left_over
from lance_ops.table.commit.lineage import Standing, find_standing
from lance_ops.table.commit.publish import publish
from lance_ops.table.commit.read_version import read_version_of
from lance_ops.table.commit.rebase import MergedDeletions, Rebase, rebase
from lance_ops.table.commit.restored import confirm_restored
from lance_ops.table.commit.result import CommitResult
from lance_ops.table.commit.stamps import latest_credible
from lance_ops.table.commit.validate import check_age
from lance_ops.table.dataset import Dataset
from lance_ops.table.history.data_version import DATA_TRANSACTION_KEY, data_transaction
from lance_ops.table.history.pins import pinned
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.feature_flags import check_writable
from lance_ops.table.manifest.file import encode_manifest, read_latest, read_manifest, read_summary
from lance_ops.table.manifest.fragment_reuse import with_moved_coverage
from lance_ops.table.manifest.listing import ManifestLocation, is_still_newest, latest, locate, write_hint
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.naming import NamingScheme, manifest_path
from lance_ops.table.transaction.operations import (
    CommittedOperation,
    Delete,
    ManifestOptions,
    Operation,
    Restore,
    Rewrite,
    Update,
    brought_files,
    deletion_files,
)
from lance_ops.table.transaction.transaction import (
    JOB_KEY,
    Transaction,
    check_job_key,
    encode_transaction,
    job_mark,
    new_transaction,
    transaction_path,
)

_LONGEST_PAUSE = 0.5
_SHORTEST_PAUSE = 0.01


def commit(
    target: Dataset | Store | str,
    operation: Operation,
    *,
    read_version: int | None = None,
    properties: Mapping[str, str] | None = None,
    job_key: str | None = None,
    max_attempts: int = 20,
    committer: Committer | None = None,
    affected_rows: Mapping[int, DeletionVector] | None = None,
    storage_options: Mapping[str, str] | None = None,
    data_storage_version: str | None = None,
    stable_row_ids: bool = False,
    job_is_new: bool = False,
    head: Dataset | None = None,
) -> CommitResult:
    """Commit an operation as the next version.

    Args:
        target: The snapshot that the operation was worked out on. A URI or store creates a dataset when the
            operation is an Overwrite without read version; else it stands for its newest version.
        operation: What to commit. Its files must be in the store.
        read_version: Version that the operation was worked out on, if it is not that of `target`.
        properties: Notes to store with the transaction.
        job_key: Key of the job. If a commit in the lineage of the newest version carries it, whether its
            version still exists or not, that one is returned and nothing is committed; see `job_keys`.
        max_attempts: How often to try while other writers are faster.
        committer: Who decides races; the store itself when None.
        affected_rows: Row offsets that a Delete or Update deletes, by fragment id; read from its deletion
            files when they are needed and not given.
        storage_options: For opening a URI.
        data_storage_version: Version of data files to come, when an Overwrite brings none.
        stable_row_ids: Create the dataset with stable row ids.
        job_is_new: The caller looked for the job in the lineage of the read version and did not find it:
            only later versions are asked.
        head: A version that the caller committed on top of the read version a moment ago: while none follows
            it, it is not looked for again.

    Returns:
        The committed version.

    Raises:
        RetryableCommitConflictError: Another writer's commit is in the way, or a version since the read
            version is not there to be judged; planning afresh from the head may succeed. Nothing changed.
        IncompatibleCommitConflictError: Another writer's commit contradicts the operation. Nothing changed.
        CommitOutcomeUnknownError: Nobody knows whether the version is there. Delete nothing.
        DatasetExistsError: A dataset was to be created where one is.
        UnsupportedFeatureError: The dataset uses features that are not implemented. Nothing was written.
        InvalidArgumentError: The operation does not fit the dataset. Nothing changed.
        JobUnprovenError: Whether the job is done cannot be told any more; see `job_keys.find_job`.
    """
    if not isinstance(operation, CommittedOperation):
        raise InvalidArgumentError(
            f"{operation.kind} can be read in history, not committed", field="operation"
        )
    if max_attempts < 1:
        raise InvalidArgumentError("at least one attempt is needed", field="max_attempts")
    if job_key is not None:
        check_job_key(job_key)
    notes = {**(properties or {}), **({} if job_key is None else {JOB_KEY: job_key})}
    if isinstance(target, str):
        target = open_store(target, storage_options)
    base = read_version_of(target, operation, read_version, storage_options)
    store = target.store if isinstance(target, Dataset) else target
    ours = new_transaction(operation, base.version if base else 0, properties=notes)
    work = _Commit(
        store=store,
        base=base,
        operation=operation,
        ours=ours,
        committer=committer or committer_for(store),
        affected_rows=affected_rows or {},
        storage_options=dict(base.storage_options if base is not None else storage_options or {}),
        data_storage_version=data_storage_version,
        stable_row_ids=stable_row_ids,
        files=tuple(sorted(brought_files(operation, base.manifest if base else None))),
        job_is_new=job_is_new,
        ahead=head,
    )
    try:
        with work.held:
            return work.create() if base is None else work.onto(base, max_attempts)
    except CommitOutcomeUnknownError:
        # What the commit wrote may be part of the version: it stays, all of it.
        raise
    except LanceOpsError as error:
        work.discard()
        if isinstance(error, CommitConflictError):
            error.orphans = work.files
        raise


@dataclass(slots=True)
class _Commit:
    """One call of `commit`: what it was given, and what it found and wrote so far."""

    store: Store
    base: Dataset | None
    operation: CommittedOperation
    ours: Transaction
    committer: Committer
    affected_rows: Mapping[int, DeletionVector]
    storage_options: Mapping[str, str]
    data_storage_version: str | None
    stable_row_ids: bool
    files: tuple[str, ...]
    job_is_new: bool = False
    ahead: Dataset | None = None
    theirs: list[Passed] = field(default_factory=list)
    merged: MergedDeletions = field(default_factory=MergedDeletions)
    transaction_file: bytes | None = None
    written: Transaction | None = None
    restored: Manifest | None = None
    noted_for: int | None = None
    held: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    attempt: JobNote | None = None
    passed_restore: bool = False

    def create(self) -> CommitResult:
        # Listed before it is certain that there is no dataset: what comes later belongs to the next one.
        left = set(list_record(self.store)) if self.ours.job_key is not None else set()
        try:
            head = latest(self.store)
        except DatasetNotFoundError:
            pass
        else:
            return self._existing(head)
        options = ManifestOptions(
            datetime.now(UTC),
            data_storage_version=self.data_storage_version,
            stable_row_ids=self.stable_row_ids,
        )
        manifest = build_manifest(None, self.ours, options)
        self._write_transaction(self.ours, manifest.transaction)
        # No key of a dataset that lay here before counts.
        self._remove(left)
        self._note_attempt()
        path = manifest_path(1, NamingScheme.V2)
        location = ManifestLocation(1, path, scheme=NamingScheme.V2, newest_at=time.monotonic())
        if not publish(self.store, self.committer, location, encode_manifest(manifest), self.ours):
            return self._existing(latest(self.store))
        self._settle(manifest, location, self.ours)
        return self._done(manifest, location, self.ours, attempts=1)

    def _existing(self, head: ManifestLocation) -> CommitResult:
        done = self._find_job(head, read_manifest(self.store, head))
        if done is not None:
            return done
        raise DatasetExistsError(
            "a dataset is here already",
            path=self.store.uri,
            hint="append to it, or overwrite it with mode 'overwrite'",
        )

    def onto(self, base: Dataset, max_attempts: int) -> CommitResult:
        self._check(base.manifest, base.location)
        if self.stable_row_ids and not base.manifest.uses_stable_row_ids:
            raise InvalidArgumentError(
                "stable row ids are given from the first row on: they cannot be switched on later",
                path=self.store.uri,
                field="stable_row_ids",
            )
        head, manifest = self._known_head(base) or self._head(base)
        # First of all: what a run before this one committed need not fit any more.
        done = None if self.job_is_new else self._find_job(head, manifest)
        if done is not None:
            return done
        self.operation.check(base.manifest)
        if isinstance(self.ours.operation, Restore):
            self.held.enter_context(pinned(self.store, self.ours.operation.version, self.ours.describe()))
            restored = locate(self.store, self.ours.operation.version)
            self.restored = read_manifest(self.store, restored)
            self._check(self.restored, restored)
            self._note_data_transaction(self.restored)
        elif self.ours.operation.keeps_data:
            self._note_data_transaction(manifest)
        self._write_transaction(self.ours)
        known = base.version
        for attempt in range(1, max_attempts + 1):
            if attempt > 1:
                limit = min(_LONGEST_PAUSE, _SHORTEST_PAUSE * 2**attempt)
                time.sleep(random.uniform(0.0, limit))  # noqa: S311 - spreads writers, no secret
                head, manifest = self._head(base)
            done = self._judge_since(known, head, manifest)
            if done is not None:
                return done
            known = head.version
            final, next_manifest = self._build(base.manifest, manifest)
            self._write_transaction(final, next_manifest.transaction)
            self._note_attempt()
            self._check_restored()
            self._check_left_over()
            path = manifest_path(manifest.version + 1, head.scheme)
            # Once it is known to stand, no version was above it when it was stored.
            location = ManifestLocation(
                manifest.version + 1, path, scheme=head.scheme, newest_at=time.monotonic()
            )
            if publish(self.store, self.committer, location, encode_manifest(next_manifest), final):
                self._settle(next_manifest, location, final)
                if self.restored is not None:
                    self._confirm_restored(location, next_manifest, manifest, self.restored)
                return self._done(next_manifest, location, final, attempts=attempt)
        raise base_conflict(self.ours, f"other writers were faster {max_attempts} times in a row", known + 1)

    def _confirm_restored(
        self, location: ManifestLocation, manifest: Manifest, before: Manifest, restored: Manifest
    ) -> None:
        put = partial(publish, self.store, self.committer)
        try:
            confirm_restored(self.store, put, location, manifest, before, restored)
        except StorageError as error:
            # The version is there, so nothing of it may be removed.
            raise CommitOutcomeUnknownError(
                f"version {location.version} was written, and whether what it brings back is still there "
                f"cannot be told ({error})",
                path=f"{self.store.uri}/{location.path}",
                hint="look whether fsck finds the newest version sound",
            ) from error

    def _settle(self, manifest: Manifest, location: ManifestLocation, final: Transaction) -> None:
        """Make sure that the stored version is one that others build on.

        Raises:
            RetryableCommitConflictError: It took the name of a version that was cleaned away, below the
                newest one. It is removed again.
            CommitOutcomeUnknownError: That cannot be told.
        """
        standing = find_standing(
            self.store, location, manifest, final, base=self.base.manifest if self.base else None
        )
        if standing is Standing.ORPHANED:
            try:
                self.store.delete(location.path)
            except LanceOpsError as error:
                raise CommitOutcomeUnknownError(
                    f"version {location.version} lies below the newest version, where nobody looks for it, "
                    f"and could not be removed ({error})",
                    path=f"{self.store.uri}/{location.path}",
                    hint="remove this manifest, then run the operation again",
                ) from error
            reason = "other writers committed this version and more, and it was cleaned away before ours came"
            raise base_conflict(self.ours, reason, location.version)
        if standing is Standing.UNKNOWN:
            raise CommitOutcomeUnknownError(
                f"version {location.version} was written, and newer versions do not tell whether they were "
                f"built on it",
                path=f"{self.store.uri}/{location.path}",
                hint="look whether the newest version has what was committed",
            )

    def _known_head(self, base: Dataset) -> tuple[ManifestLocation, Manifest] | None:
        """The newest version where it is at hand."""
        known = self.ahead or base
        if is_still_newest(self.store, known.location) and self._is_same(known):
            return known.location, known.manifest
        return None

    def _head(self, base: Dataset) -> tuple[ManifestLocation, Manifest]:
        """The newest version, in the same history as the read version."""
        head, manifest = read_latest(self.store, base.manifest)
        if head.version < base.version:
            raise base_conflict(
                self.ours, f"the read version {base.version} is newer than the head", head.version
            )
        if not self.theirs:
            # When it was cleaned away, the versions after it are all there, or the commit ends there.
            self._is_there(base, head.scheme)
        if manifest is not base.manifest:
            self._check(manifest, head)
        return head, manifest

    def _check(self, manifest: Manifest, location: ManifestLocation) -> None:
        path = f"{self.store.uri}/{location.path}"
        check_writable(manifest, path=path)
        check_age(manifest, path=path)

    def _check_restored(self) -> None:
        """Notice a cleanup that knows no pins and removed the version that ours brings back."""
        if self.restored is not None:
            locate(self.store, self.restored.version)

    def _check_left_over(self) -> None:
        """Notice a cleanup that removed our files while another run of the job counted (see `left_over`)."""
        key = self.ours.job_key
        if key is None or not self.passed_restore:
            return
        lost = find_left_over(self.store, [*self.files, self.ours.path])
        if lost is not None:
            reason = f"a cleanup removed {lost} while another run of job {key!r} was committed"
            raise base_conflict(self.ours, reason, self.theirs[-1].version)

    def _is_same(self, base: Dataset) -> bool:
        """Whether the dataset is the one that was read a moment ago, without reading its manifest again."""
        # The name is unique, and whoever removes a dataset removes this file, too.
        name = base.manifest.transaction_file
        # A name that leads elsewhere says nothing; the manifest itself does.
        with contextlib.suppress(PathEscapeError):
            if name and self.store.exists(transaction_path(name)):
                return True
        return self._is_there(base, base.location.scheme)

    def _is_there(self, base: Dataset, scheme: NamingScheme) -> bool:
        """Whether the read version exists.

        Raises:
            RetryableCommitConflictError: Another one does: the dataset was deleted and made anew.
        """
        path = manifest_path(base.version, scheme)
        try:
            now = read_summary(self.store, ManifestLocation(base.version, path, scheme=scheme))
        except VersionNotFoundError:
            return False
        except FormatError:
            # What a restore replaces may be damaged.
            if isinstance(self.ours.operation, Restore):
                return True
            raise
        same = now.transaction_file == base.manifest.transaction_file
        if not same or now.timestamp != base.manifest.timestamp:
            raise base_conflict(self.ours, "the dataset was replaced by another one", base.version)
        return True

    def _find_job(self, head: ManifestLocation, manifest: Manifest) -> CommitResult | None:
        if self.ours.job_key is None:
            return None
        found = find_committed_job(self.store, head, manifest, self.ours.job_key)
        if found is None:
            return None
        if not found.removed:
            with contextlib.suppress(NotFoundError):
                return self._already(locate(self.store, found.version))
        return self._already_removed(found)

    def _already(self, location: ManifestLocation) -> CommitResult:
        if self.base is None:
            dataset = Dataset.open(self.store, location.version, storage_options=self.storage_options)
        else:
            dataset = self.base.checkout_version(location.version)
        transaction = dataset.read_transaction()
        return self._not_again(dataset, transaction, location.version, transaction.operation.files())

    def _already_removed(self, found: CommittedJob) -> CommitResult:
        """The job is done, and its version was removed since then: the head stands for it."""
        if self.base is None:
            dataset = Dataset.open(self.store, storage_options=self.storage_options)
        else:
            dataset = self.base.latest()
        done = self.ours.replace(uuid=found.transaction_uuid)
        # Where the commit was of these very files, others versions may use them still.
        ours = found.evidence in map(file_mark, self.files)
        return self._not_again(dataset, done, found.version, self.files if ours else ())

    def _not_again(
        self, dataset: Dataset, done: Transaction, version: int, used: Iterable[str]
    ) -> CommitResult:
        self.discard()
        orphans = tuple(sorted(set(self.files).difference(used)))
        return CommitResult(dataset, version, done, attempts=0, already_committed=True, orphans=orphans)

    def _judge_since(self, known: int, head: ManifestLocation, manifest: Manifest) -> CommitResult | None:
        """Judge the commits after `known`; a commit of the same job ends the matter."""
        collision: CommitConflictError | None = None
        for committed in read_intervening(self.store, self.ours, known, head, manifest):
            if self._is_ours(committed.transaction) and stands(
                self.store, head, manifest, committed.version, committed.transaction.uuid
            ):
                return self._already(locate(self.store, committed.version))
            self.theirs.append(Passed.of(committed))
            self.passed_restore |= isinstance(committed.transaction.operation, Restore)
            verdict = judge(self.ours, committed.transaction)
            # The first collision is the one to tell, unless a later commit turns out to be our own.
            if collision is None and verdict.outcome is Outcome.RETRYABLE:
                collision = conflict(self.ours, committed, verdict.reason)
            elif collision is None and verdict.outcome is Outcome.INCOMPATIBLE:
                collision = contradiction(self.ours, committed, verdict.reason)
        if collision is not None:
            raise collision
        return None

    def _is_ours(self, theirs: Transaction) -> bool:
        """Whether a commit is that of the same job, or brought the same files: names of files are unique."""
        if self.ours.job_key is not None and theirs.job_key == self.ours.job_key:
            return True
        return not set(self.files).isdisjoint(theirs.operation.files())

    def _build(self, base: Manifest, head: Manifest) -> tuple[Transaction, Manifest]:
        if self.ours.operation.keeps_data and head.version != self.noted_for:
            self._note_data_transaction(head)
        operation = rebase(
            Rebase(
                store=self.store,
                ours=self.ours,
                base=base,
                head=head,
                theirs=self.theirs,
                affected_rows=self.affected_rows,
                options=self.storage_options,
                merged=self.merged,
                mark=self._mark(),
            )
        )
        final = self.ours
        if operation is not final.operation:
            final = final.replace(operation=operation)
        if isinstance(operation, Rewrite | Update):
            head = with_moved_coverage(Bases(self.store, head.base_paths, self.storage_options), head)
        now = datetime.now(UTC)
        options = ManifestOptions(
            now,
            follow_until=latest_credible(self.store, head, now),
            base_schema=base.schema,
            data_storage_version=self.data_storage_version,
            restored=self.restored,
        )
        encoded = self.transaction_file if final is self.written else None
        return final, build_manifest(head, final, options, encoded=encoded)

    def _mark(self) -> int | None:
        """Of deletion files that are merged; see `write_deletion_file`."""
        key = self.ours.job_key
        decides = isinstance(self.committer, PutIfAbsentCommitter) and self.store.supports_put_if_absent
        return job_mark(key) if key is not None and decides else None

    def _note_data_transaction(self, source: Manifest) -> None:
        """Note which transaction made the rows, so that it is known when that version is cleaned away."""
        # Only a shortcut: without it, readers walk back through history as far as it goes.
        self.noted_for = source.version
        self.ours = self.ours.replace(
            properties={k: v for k, v in self.ours.properties.items() if k != DATA_TRANSACTION_KEY}
        )
        with contextlib.suppress(LanceOpsError):
            noted = {**self.ours.properties, DATA_TRANSACTION_KEY: data_transaction(self.store, source)}
            self.ours = self.ours.replace(properties=noted)

    def _write_transaction(self, transaction: Transaction, encoded: bytes | None = None) -> None:
        """Write the transaction file, again if a rebase changed the transaction."""
        if transaction is self.written:
            return
        data = encode_transaction(transaction) if encoded is None else encoded
        self.written = transaction
        if data != self.transaction_file:
            # First, because a put that fails may have written the file.
            self.transaction_file = data
            # Readers look here when the manifest has no copy of it: it has to last as long as the manifest.
            self.store.put(transaction.path, data, durable="later")

    def _note_attempt(self) -> None:
        """Note the attempt of a job where cleanup leaves it: no note means that there was no attempt."""
        if self.ours.job_key is not None and self.attempt is None:
            # First, because a put that fails may have written the note.
            self.attempt = JobNote(self.ours.uuid, self.ours.read_version, evidence_of(self.files))
            put_note(self.store, self.attempt)

    def _done(
        self, manifest: Manifest, location: ManifestLocation, final: Transaction, attempts: int
    ) -> CommitResult:
        # From here on nothing may fail: the version is there.
        if self.attempt is not None:
            # Readers of the attempt look for the version; when it is gone, this tells.
            done = replace(self.attempt, version=manifest.version, moment=manifest.timestamp)
            with contextlib.suppress(LanceOpsError):
                put_note(self.store, done)
        write_hint(self.store, manifest.version)
        self._remove_superseded(final.operation)
        dataset = Dataset(
            self.store,
            location,
            manifest,
            storage_options=self.storage_options,
            root=None if self.base is None else self.base.root,
            pruners=None if self.base is None else self.base.pruners,
        )
        conflicts = tuple(committed.describe() for committed in self.theirs)
        return CommitResult(dataset, manifest.version, final, attempts, conflicts)

    def _remove_superseded(self, committed: Operation) -> None:
        """Remove deletion files that a merge replaced: no version refers to them."""
        if isinstance(self.ours.operation, Delete | Update) and isinstance(committed, Delete | Update):
            written = {*deletion_files(self.ours.operation.updated_fragments), *self.merged.paths}
            self._remove(written - deletion_files(committed.updated_fragments))

    def discard(self) -> None:
        """Remove what this call wrote; only when it is certain that nothing was committed."""
        written = set(self.merged.paths)
        if self.transaction_file is not None:
            written.add(self.ours.path)
        if self.attempt is not None:
            written.add(self.attempt.path)
        self._remove(written)

    def _remove(self, paths: set[str]) -> None:
        with contextlib.suppress(LanceOpsError):
            self.store.delete_many(sorted(paths))
