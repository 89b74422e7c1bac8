"""Commit loop: from an operation to the next version, or to an error that changed nothing.

1. Write the transaction file.
2. Read every transaction between the read version and the head, and judge it. A gap is a conflict.
3. Adapt the operation to the head, build the manifest, and store it unless the version exists.
4. If another writer was faster, go back to 2.
5. See that no newer version passed ours by.

Source: format, "Committing Datasets"; architecture, "Life of a commit" and invariants 1, 2, 3, 6 and 7.
"""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from lance_ops.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    DatasetExistsError,
    DatasetNotFoundError,
    InvalidArgumentError,
    LanceOpsError,
    RetryableCommitConflictError,
)
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.storage import Store, open_store
from lance_ops.storage.prefetch import has_latency, side_by_side
from lance_ops.storage.retry import Backoff
from lance_ops.table.commit.apply import build_manifest
from lance_ops.table.commit.committer import (
    CommitFiles,
    Committer,
    committer_for,
    deletion_mark,
    follow_renaming,
    publish,
)
from lance_ops.table.commit.concurrent_commits import base_conflict, emptied_fragments
from lance_ops.table.commit.head import check_head, find_head, known_head
from lance_ops.table.commit.jobs.job_keys import DoneBefore, with_job
from lance_ops.table.commit.jobs.job_record import knows_job, list_job_files, note_begun
from lance_ops.table.commit.judged_commits import CarriedFields, JudgedCommits
from lance_ops.table.commit.lineage import confirm_restored, settle
from lance_ops.table.commit.rebase.rebase import rebase
from lance_ops.table.commit.rebase.work import Rebase
from lance_ops.table.commit.request import CommitRequest, CommitResult, read_version_of
from lance_ops.table.dataset import Dataset, snapshot_of
from lance_ops.table.history.data_version import with_data_transaction
from lance_ops.table.history.pins import pinned
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.field_ids import highest_given
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.file.recurring import recurring
from lance_ops.table.manifest.file.write import encode_manifest
from lance_ops.table.manifest.fragment_reuse.read import with_moved_coverage
from lance_ops.table.manifest.listing import (
    VERSIONS_DIRECTORY,
    ManifestLocation,
    NamingScheme,
    latest,
    locate,
    manifest_path,
    parse_manifest_name,
    write_hint,
)
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.transaction.operations import (
    JOBS_ENTRY,
    CommittedOperation,
    DataReplacement,
    ManifestOptions,
    Merge,
    Operation,
    Overwrite,
    Project,
    Restore,
    Rewrite,
    Update,
    brought_files,
)
from lance_ops.table.transaction.transaction import (
    JOB_KEY,
    Transaction,
    check_job_key,
    new_transaction,
)

CREDIBLE_LEAD = timedelta(minutes=10)
"""Maximum clock difference between machines and stores."""

_BACKOFF = Backoff(0.04, longest=0.5)

_LOOKS = 16
"""Maximum further lookups of the head in an attempt."""


def commit(target: Dataset | Store | str, request: CommitRequest) -> CommitResult:
    """Commit an operation as the next version.

    Args:
        target: The snapshot that the operation is based on. A URI or store creates a dataset when the
            operation is an Overwrite without read version; else it stands for its newest version.
        request: What to commit, and how.

    Returns:
        The committed version.

    Raises:
        RetryableCommitConflictError: Another writer's commit conflicts, or a version since the read version
            is missing; planning again from the head may succeed. Nothing changed.
        IncompatibleCommitConflictError: Another writer's commit contradicts the operation. Nothing changed.
        CommitOutcomeUnknownError: It is unknown whether the version exists. Delete nothing.
        DatasetExistsError: The dataset to create already exists.
        UnsupportedFeatureError: The dataset uses features that are not implemented. Nothing was written.
        InvalidArgumentError: The operation does not fit the dataset. Nothing changed.
        JobUnprovenError: It is unknown whether the job is done; see `job_keys.find_job`.
    """
    operation, job_key = request.operation, request.job_key
    if not isinstance(operation, CommittedOperation):
        raise InvalidArgumentError(
            f"{operation.kind} can be read in history, not committed", field="operation"
        )
    if request.max_attempts < 1:
        raise InvalidArgumentError("at least one attempt is needed", field="max_attempts")
    if job_key is not None:
        check_job_key(job_key)
    properties = {**request.properties, **({} if job_key is None else {JOB_KEY: job_key})}
    if isinstance(target, str):
        target = open_store(target, request.storage_options)
    given = snapshot_of(target)
    target = given or target
    base = read_version_of(target, request)
    store = target.store if isinstance(target, Dataset) else target
    ours = new_transaction(operation, base.version if base else 0, properties=properties)
    brought = tuple(sorted(brought_files(operation, base.manifest if base else None)))
    options = dict(base.storage_options if base is not None else request.storage_options or {})
    work = _Commit(
        store=store,
        base=base,
        request=request,
        operation=operation,
        ours=ours,
        committer=request.committer or committer_for(store),
        storage_options=options,
        files=CommitFiles(store, ours, brought),
        before=DoneBefore(store, base, ours, brought, options),
        theirs=JudgedCommits(store, brought, CarriedFields.of(operation, base), request.hooks.judge),
    )
    try:
        with work.held:
            result = work.create() if base is None else work.onto(base)
    except CommitOutcomeUnknownError:
        # Files of the commit may be part of the version: all of them stay.
        raise
    except LanceOpsError as error:
        work.files.discard()
        if isinstance(error, CommitConflictError):
            error.orphans = brought
        raise
    if result.already_committed:
        work.files.discard()
    return result


@dataclass(slots=True)
class _Commit:
    """One call of `commit`: its arguments, and its state so far."""

    store: Store
    base: Dataset | None
    request: CommitRequest
    operation: CommittedOperation
    ours: Transaction
    committer: Committer
    storage_options: Mapping[str, str]
    files: CommitFiles
    before: DoneBefore
    theirs: JudgedCommits
    restored: Manifest | None = None
    noted_for: int | None = None
    held: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def create(self) -> CommitResult:
        # Listed before it is certain that there is no dataset: later files belong to the next one.
        left = set(list_job_files(self.store)) if self.ours.job_key is not None else set()
        try:
            head = latest(self.store)
        except DatasetNotFoundError:
            pass
        else:
            return self._existing(head)
        options = ManifestOptions(
            datetime.now(UTC),
            data_storage_version=self.request.data_storage_version,
            stable_row_ids=self.request.stable_row_ids,
        )
        manifest = build_manifest(None, self.ours, options)
        self.files.write_transaction(self.ours, manifest.transaction)
        # Keys of a dataset that was at this location before do not count.
        self.files.remove(left)
        manifest = with_job(self.store, None, None, manifest, self.ours, self.files.brought)
        path = manifest_path(1, NamingScheme.V2)
        location = ManifestLocation(1, path, scheme=NamingScheme.V2, newest_at=time.monotonic())
        if not publish(self.store, self.committer, location, encode_manifest(manifest), self.ours):
            return self._existing(latest(self.store))
        try:
            settle(self.store, location, manifest, self.ours, knows_job=knows_job)
        except RetryableCommitConflictError:
            # A clone of a later version was made at this location.
            return self._existing(latest(self.store))
        return self._done(manifest, location, self.ours, 1)

    def _existing(self, head: ManifestLocation) -> CommitResult:
        done = self.before.find(head, read_manifest(self.store, head))
        if done is not None:
            return done
        raise DatasetExistsError(
            "dataset already exists",
            path=self.store.uri,
            hint="append to it, or replace it with mode 'overwrite'",
        )

    def onto(self, base: Dataset) -> CommitResult:
        chain = self.request.chain
        check_head(self.store, base.manifest, base.location)
        if self.request.stable_row_ids and not base.manifest.uses_stable_row_ids:
            raise InvalidArgumentError(
                "stable row ids must be enabled when the dataset is created: they cannot be enabled later",
                path=self.store.uri,
                field="stable_row_ids",
            )
        known = self._look(base)
        head, manifest = known or find_head(self.store, base, self.ours, check_base=True)
        # First of all: what a run before this one committed need not fit any more.
        done = None if self.request.job_is_new else self.before.find(head, manifest)
        if done is not None:
            return done
        self.operation.check(base.manifest)
        if isinstance(self.ours.operation, Restore):
            self.held.enter_context(pinned(self.store, self.ours.operation.version, self.ours.describe()))
            restored = locate(self.store, self.ours.operation.version)
            self.restored = read_manifest(self.store, restored)
            check_head(self.store, self.restored, restored)
            self._note_data_transaction(self.restored)
        elif self.ours.operation.keeps_data and head.version != self.noted_for:
            self._note_data_transaction(manifest)
        self.files.write_transaction(self.ours)
        judged = (chain.seen or base).version
        for attempt in range(1, self.request.max_attempts + 1):
            if attempt > 1:
                time.sleep(_BACKOFF.pause(attempt - 1))
                # Once others were judged, the read version is known to be below them.
                head, manifest = find_head(self.store, base, self.ours, check_base=not self.theirs)
            done_at = self.theirs.judge_since(self.ours, judged, head, manifest)
            if done_at is None and attempt > 1:
                done_at, head, manifest = self._catch_up(base, judged, head, manifest)
            if done_at is not None:
                return self._found(base, done_at, head, manifest)
            judged = head.version
            final, next_manifest = self._build(base.manifest, head, manifest)
            self.files.write_transaction(final, next_manifest.transaction)
            if self.restored is not None:
                # A cleanup that ignores pins may have removed the version that ours restores.
                locate(self.store, self.restored.version)
            self.theirs.check_left_over(self.ours)
            if self.request.hooks.guard is not None:
                self.request.hooks.guard()
            path = manifest_path(manifest.version + 1, head.scheme)
            # Once it is verified, no version was above it when it was stored.
            location = ManifestLocation(
                manifest.version + 1, path, scheme=head.scheme, newest_at=time.monotonic()
            )
            encoded = encode_manifest(next_manifest)
            if publish(self.store, self.committer, location, encoded, final):
                stands = follow_renaming(self.store, location, encoded)
                if stands is None:
                    continue
                location = stands
                recurring.keep_successor(self.store.uri, location.path, encoded, next_manifest, manifest)
                prove = partial(
                    settle,
                    self.store,
                    location,
                    next_manifest,
                    final,
                    base=base.manifest,
                    knows_job=knows_job,
                )
                if self._settles_later:
                    return replace(self._done(next_manifest, location, final, attempt), settle=prove)
                prove()
                if self.restored is not None:
                    put = partial(publish, self.store, self.committer)
                    confirm_restored(self.store, put, location, next_manifest, manifest, self.restored)
                return self._done(next_manifest, location, final, attempt)
        raise base_conflict(self.ours, f"other writers were faster {attempt} times in a row", judged + 1)

    def _found(
        self, base: Dataset, done_at: ManifestLocation, head: ManifestLocation, manifest: Manifest
    ) -> CommitResult:
        """Return the result for a version since the read version that is this work already.

        A put that was not answered, or a process that died, may have stored it where a cleanup had removed
        another version: then the newest version was not built on it.

        Raises:
            RetryableCommitConflictError: It is not in the history.
            CommitOutcomeUnknownError: That is unknown.
        """
        result = self.before.at(done_at)
        done = result.transaction
        if done_at.version == head.version:
            return result
        if done.job_key is not None:
            # Earlier releases committed without a record.
            recorded = JOBS_ENTRY in result.dataset.manifest.config
            if recorded and not knows_job(self.store, manifest, done.job_key):
                reason = f"version {done_at.version} has the same work, and is not in the history"
                raise base_conflict(self.ours, reason, done_at.version)
        elif done.uuid == self.ours.uuid:
            settle(self.store, done_at, result.dataset.manifest, done, base=base.manifest)
        return result

    def _catch_up(
        self, base: Dataset, judged: int, head: ManifestLocation, manifest: Manifest
    ) -> tuple[ManifestLocation | None, ManifestLocation, Manifest]:
        """Judge the commits that arrived while those up to the head were judged.

        The more commits arrive during a pause, the longer they take to judge: a writer that commits steadily
        would be faster than every put that follows right after.

        Returns:
            A commit of the same job, if there is one; and the head.
        """
        for _ in range(_LOOKS):
            if head.version - judged <= 1:
                break
            judged = head.version
            head, manifest = find_head(self.store, base, self.ours, check_base=False)
            done_at = self.theirs.judge_since(self.ours, judged, head, manifest)
            if done_at is not None:
                return done_at, head, manifest
        return None, head, manifest

    def _look(self, base: Dataset) -> tuple[ManifestLocation, Manifest] | None:
        """The newest version where it is at hand; where that takes long, the transaction is put meanwhile."""
        chain = self.request.chain
        known = chain.newest or base
        is_sure = self.ours.job_key is None or self.request.job_is_new
        ahead = has_latency(self.store) and is_sure and not isinstance(self.ours.operation, Restore)
        if ahead:
            self.operation.check(base.manifest)
            if self.ours.operation.keeps_data:
                self._note_data_transaction(known.manifest)
        own = chain.newest is not None
        look = partial(known_head, self.store, known, self.ours, is_own=own, settle=chain.settle)
        if not ahead:
            return look()
        # A failed lookup ends the commit, which removes the files it put.
        found, _ = side_by_side(self.store, look, partial(self.files.write_transaction, self.ours))
        return found

    def _build(self, base: Manifest, at: ManifestLocation, head: Manifest) -> tuple[Transaction, Manifest]:
        if self.ours.operation.keeps_data and head.version != self.noted_for:
            self._note_data_transaction(head)
        assert self.base is not None
        seen = self.request.chain.seen
        operation = rebase(
            Rebase(
                store=self.store,
                ours=self.ours,
                snapshot=self.base,
                base=base,
                head=head,
                theirs=self.theirs.passed,
                emptied=frozenset() if seen is None else emptied_fragments(self.base, seen),
                affected_rows=self.request.affected_rows,
                options=self.storage_options,
                merged=self.files.merged,
                mark=deletion_mark(self.committer, self.store, self.ours.job_key),
            )
        )
        final = self.ours
        if operation is not final.operation:
            final = final.replace(operation=operation)
        if _touches_coverage(operation):
            head = with_moved_coverage(Bases(self.store, head.base_paths, self.storage_options), head)
        now = datetime.now(UTC)
        options = ManifestOptions(
            now,
            follow_until=latest_credible(self.store, head, now),
            base_schema=base.schema,
            data_storage_version=self.request.data_storage_version,
            restored=self.restored,
            highest_field_id=highest_field_id(self.store, operation, head, self.restored),
        )
        built = build_manifest(head, final, options, encoded=self.files.encoded(final))
        brought, given = self.files.brought, self.storage_options
        return final, with_job(self.store, at, head, built, self.ours, brought, self.restored, given)

    @property
    def _settles_later(self) -> bool:
        return self.request.chain.settle_later and has_latency(self.store)

    def _note_data_transaction(self, source: Manifest) -> None:
        """Record which transaction made the rows, so that it is known after that version is cleaned up."""
        self.noted_for = source.version
        self.ours = with_data_transaction(self.store, self.ours, source)

    def _done(
        self, manifest: Manifest, location: ManifestLocation, final: Transaction, attempts: int
    ) -> CommitResult:
        # From here on nothing may fail: the version is there.
        if not self._settles_later:
            write_hint(self.store, manifest.version)
        self.files.remove_superseded(final.operation)
        if self.ours.job_key is not None:
            with contextlib.suppress(LanceOpsError):
                note_begun(self.store, manifest)
        dataset = Dataset(
            self.store,
            location,
            manifest,
            storage_options=self.storage_options,
            root=None if self.base is None else self.base.root,
            pruners=None if self.base is None else self.base.given_pruners,
        )
        conflicts = tuple(committed.describe() for committed in self.theirs)
        return CommitResult(dataset, manifest.version, final, attempts, conflicts)


def latest_credible(store: Store, head: Manifest, now: datetime) -> datetime:
    """Return the latest plausible timestamp of the newest version.

    Our own clock may be wrong. So a timestamp far ahead is compared with the time at which the store received
    the manifest, which costs a listing; there is no request in the ordinary case.

    Args:
        store: Root of the dataset.
        head: The newest version.
        now: The time of this machine, UTC.
    """
    limit = now + CREDIBLE_LEAD
    if head.timestamp <= limit:
        return limit
    for info in store.list(VERSIONS_DIRECTORY):
        parsed = parse_manifest_name(info.path.removeprefix(f"{VERSIONS_DIRECTORY}/"))
        if parsed is not None and parsed[0] == head.version:
            return max(limit, info.modified + CREDIBLE_LEAD)
    return limit


def highest_field_id(
    store: Store, operation: Operation, head: Manifest, restored: Manifest | None
) -> int | None:
    """Return the highest field id ever allocated; None where an operation leaves all field ids in use.

    Args:
        store: Root of the dataset.
        operation: The operation to commit.
        head: The version to commit on.
        restored: The version that a Restore restores.
    """
    schema = operation.schema if isinstance(operation, Merge | Overwrite | Project) else None
    schema = schema if restored is None else restored.schema
    if schema is None or set(prepare_schema(schema).ids) == set(prepare_schema(head.schema).ids):
        return None
    return highest_given(store, head)


def _touches_coverage(operation: Operation) -> bool:
    """Return whether an operation takes fragments out of the coverage of indices, or moves it."""
    if isinstance(operation, Rewrite):
        return bool(operation.moved_fragments())
    return isinstance(operation, DataReplacement | Update)
