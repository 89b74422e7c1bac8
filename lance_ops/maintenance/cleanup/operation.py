"""Cleanup operation: remove expired versions and the files that only they used."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import ClassVar, Literal, TypedDict, Unpack, overload
from uuid import uuid4

from lance_ops.errors import JobUnprovenError, LanceOpsError, NotFoundError, check_type, public
from lance_ops.maintenance.cleanup.execute import Outcome, execute_cleanup
from lance_ops.maintenance.cleanup.files import LinkedFolders
from lance_ops.maintenance.cleanup.line import CleanupOptions, Line
from lance_ops.maintenance.cleanup.plan import CleanupPlan, plan_cleanup
from lance_ops.maintenance.cleanup.trash import TRASH_DIRECTORY, trashed_among
from lance_ops.maintenance.engine import Run
from lance_ops.maintenance.jobs.listing import sweep_jobs
from lance_ops.maintenance.progress import Progress
from lance_ops.maintenance.results import OperationResult
from lance_ops.maintenance.store_clock import store_now
from lance_ops.maintenance.target import Target, store_of
from lance_ops.maintenance.text import bytes_text, count_text
from lance_ops.storage import Store
from lance_ops.storage.retry import persistently
from lance_ops.table.commit.committer import Committer
from lance_ops.table.commit.jobs.earlier_record import has_record_files
from lance_ops.table.commit.jobs.job_record import JobRecord, remove_unused_files
from lance_ops.table.commit.loop import commit
from lance_ops.table.commit.request import CommitRequest
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.listing import is_detached, latest, list_versions
from lance_ops.table.transaction.operations import MapUpdate, UpdateConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupResult(OperationResult):
    """Result of `cleanup`, which makes no version: `version` is the head it used.

    Attributes:
        versions_removed: Removed versions.
        versions_kept: Kept versions.
        versions_trashed: Those of the removed versions that went to the trash with their files.
        data_files_removed: Data files.
        deletion_files_removed: Deletion files.
        index_files_removed: Files of index segments.
        transaction_files_removed: Transaction files.
        temporary_files_removed: Temporary files of failed writers.
        bytes_removed: Size of everything removed, manifests included.
        files_kept: Kept files.
        files_spared: Victims of the plan that were kept for a later commit or tag.
        files_failed: Files that could not be removed, or not be proven unused. The next cleanup retries them.
        errors: The first errors.
        notes: Folders in which nothing was removed, with reasons.
    """

    operation: ClassVar[str] = "cleanup"

    versions_removed: int = 0
    versions_kept: int = 0
    versions_trashed: int = 0
    data_files_removed: int = 0
    deletion_files_removed: int = 0
    index_files_removed: int = 0
    transaction_files_removed: int = 0
    temporary_files_removed: int = 0
    bytes_removed: int = 0
    files_kept: int = 0
    files_spared: int = 0
    files_failed: int = 0
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """True if nothing failed."""
        return not self.files_failed and not self.errors

    @property
    def changed(self) -> bool:
        """True if anything was removed."""
        return self.bytes_removed > 0

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        if not self.changed:
            what = "nothing was removed" if self.files_failed else "nothing to remove"
            return f"{what}, {count_text(self.versions_kept, 'version')} kept"
        files = (
            self.data_files_removed
            + self.deletion_files_removed
            + self.index_files_removed
            + self.transaction_files_removed
            + self.temporary_files_removed
        )
        trashed = f" ({self.versions_trashed:,} to the trash)" if self.versions_trashed else ""
        return (
            f"removed {count_text(self.versions_removed, 'version')}{trashed} and "
            f"{count_text(files, 'file')}, "
            f"{bytes_text(self.bytes_removed)}; {count_text(self.versions_kept, 'version')} kept"
        )

    def __str__(self) -> str:
        lines = [OperationResult.__str__(self)]
        if self.files_failed:
            lines.append(f"  {count_text(self.files_failed, 'file')} failed; run it again to finish")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join([*lines, *(f"  error: {error}" for error in self.errors)])


class CleanupArguments(TypedDict, total=False):
    """Keyword arguments of `cleanup`; see there.

    Attributes:
        older_than: See `CleanupOptions`.
        retain_versions: See `CleanupOptions`.
        delete_unverified: See `CleanupOptions`.
        grace: See `CleanupOptions`.
        empty_trash: See `CleanupOptions`.
        clones: Shallow clones of the dataset, whose files are kept.
        job_key_age: No effect.
        committer: See `cleanup`.
        progress: Receives progress events.
        storage_options: Options of the store.
    """

    older_than: timedelta | None
    retain_versions: int | None
    delete_unverified: bool
    grace: timedelta
    empty_trash: bool
    clones: Sequence[Target]
    job_key_age: timedelta | None
    committer: Committer | None
    progress: Progress | None
    storage_options: Mapping[str, str] | None


@overload
def cleanup(
    uri_or_dataset: Target, *, dry_run: Literal[False] = False, **arguments: Unpack[CleanupArguments]
) -> CleanupResult: ...
@overload
def cleanup(
    uri_or_dataset: Target, *, dry_run: Literal[True], **arguments: Unpack[CleanupArguments]
) -> CleanupPlan: ...
@overload
def cleanup(
    uri_or_dataset: Target, *, dry_run: bool, **arguments: Unpack[CleanupArguments]
) -> CleanupResult | CleanupPlan: ...
@public(target="uri_or_dataset")
def cleanup(
    uri_or_dataset: Target,
    *,
    older_than: timedelta | None = None,
    retain_versions: int | None = None,
    delete_unverified: bool = False,
    grace: timedelta = timedelta(0),
    empty_trash: bool = False,
    clones: Sequence[Target] = (),
    job_key_age: timedelta | None = None,  # noqa: ARG001 - earlier callers give it
    committer: Committer | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> CleanupResult | CleanupPlan:
    """Remove old versions; the newest version, tagged and detached ones are always kept.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        older_than: See `CleanupOptions`.
        retain_versions: See `CleanupOptions`.
        delete_unverified: See `CleanupOptions`.
        grace: See `CleanupOptions`. The first cleanup after this time removes the files.
        empty_trash: See `CleanupOptions`.
        clones: Shallow clones of the dataset, whose files here are kept. Clones that are neither listed here
            nor protected by a tag at their source version cannot be found, and lose their files.
        job_key_age: No effect, since job keys are part of each version: the newest 100,000 are kept, whatever
            their age.
        committer: Commits the version that imports job keys of an earlier release, if the store has no
            put-if-absent.
        dry_run: Return the plan: every removed and kept file with the reason.
        progress: Receives progress events.
        storage_options: Options of the store.

    Raises:
        CleanupRefusedError: See `plan_cleanup`; nothing was removed.
        CorruptManifestError: See `plan_cleanup`; nothing was removed.
        InconsistentStoreError: See `plan_cleanup`; nothing was removed.
        DatasetNotFoundError: There is no dataset.

    Examples:
        >>> lo.cleanup("events.lance", retain_versions=1).versions_removed
        1
    """
    store = store_of(uri_or_dataset, storage_options)
    # The newest version may be one that does not open: the plan looks at it, and refuses.
    call = Run.on("cleanup", store, None, {"progress": progress, "storage_options": storage_options})
    call.report("reading manifests and listing files")
    options = CleanupOptions(older_than, retain_versions, delete_unverified, grace, empty_trash)
    check_type(clones, Iterable, "a list of datasets", field="clones")
    # Without a dataset, nothing may be written either.
    newest_before = persistently(lambda: latest(store)).version
    line = Line.of(store, storage_options)
    holds_all = LinkedFolders.of(line).holds_all
    # A call without writes does not use the clock of this machine.
    now = None if dry_run or holds_all else store_now(store)
    if now is not None:
        # Their files are unused, which needs no check of versions.
        persistently(lambda: sweep_jobs(store, now))
    clone_stores = [store_of(clone, storage_options) for clone in clones]
    make_plan = partial(plan_cleanup, line, options, now=now, clones=clone_stores)
    plan = make_plan(newest_before=newest_before)
    if dry_run:
        return plan
    if not holds_all and persistently(lambda: _has_earlier_jobs(store, plan)):
        # Before any version goes: a commit with a job key takes over the keys that only these versions and
        # the files of earlier releases show.
        key = f"lance_ops.cleanup:{uuid4()}"
        empty = CommitRequest(UpdateConfig(MapUpdate({})), committer=committer, job_key=key)
        with contextlib.suppress(JobUnprovenError):
            # The record is lost already, and a commit with a key says so.
            persistently(lambda: commit(store, empty))
        plan = make_plan(newest_before=persistently(lambda: latest(store)).version)
    if holds_all:
        outcome = Outcome((), 0, ())
    else:
        outcome = execute_cleanup(line, plan, call.report)
        with contextlib.suppress(LanceOpsError):
            # The next cleanup removes the remaining ones.
            remove_unused_files(store, _configs(store, plan, clone_stores), plan.now)
    counts = Counter(verdict.kind for verdict in outcome.removed)
    gone = {verdict.path for verdict in outcome.removed}
    removed = [verdict for verdict in plan.versions if verdict.location.path in gone]
    return CleanupResult(
        **call.common(plan.head, read_version=plan.head),
        versions_removed=len(removed),
        versions_kept=len(plan.versions) - len(removed),
        versions_trashed=sum(verdict.until is not None for verdict in removed),
        data_files_removed=counts["data"],
        deletion_files_removed=counts["deletion"],
        index_files_removed=counts["index"],
        transaction_files_removed=counts["transaction"],
        temporary_files_removed=counts["temporary"],
        bytes_removed=sum(verdict.size for verdict in outcome.removed),
        files_kept=len(plan.kept),
        files_spared=len(plan.victims) - len(outcome.removed) - outcome.failed,
        files_failed=outcome.failed,
        errors=outcome.errors,
        notes=plan.notes,
    )


def _has_earlier_jobs(store: Store, plan: CleanupPlan) -> bool:
    """Return whether there are jobs without a record in the newest version."""
    manifest = plan.manifest
    if manifest is None or JobRecord.of(manifest.config, store.uri) is not None:
        return False
    return plan.has_jobs or has_record_files(store)


def _configs(store: Store, plan: CleanupPlan, clones: Sequence[Store]) -> Iterator[Mapping[str, str]]:
    """Yield the config of each existing version, newest first; then those of the trash and of clones."""
    detached = (verdict.location for verdict in plan.versions if is_detached(verdict.location.version))
    for location in (*reversed(list_versions(store)), *detached):
        yield read_manifest(store, location).config
    # Also of those that this cleanup moved there: an undo brings their job keys back.
    for item in trashed_among(store.list(TRASH_DIRECTORY)):
        with contextlib.suppress(NotFoundError):
            yield read_manifest(store, item.location).config
    for clone in clones:
        for location in list_versions(clone):
            yield read_manifest(clone, location).config
