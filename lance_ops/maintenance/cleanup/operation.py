"""Removing expired versions and the files that only they used."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import ClassVar, Literal, TypedDict, Unpack, overload
from uuid import uuid4

from lance_ops.errors import JobUnprovenError, LanceOpsError, check_type, public
from lance_ops.maintenance.cleanup.execute import Outcome, execute_cleanup
from lance_ops.maintenance.cleanup.line import Line
from lance_ops.maintenance.cleanup.links import LinkedFolders
from lance_ops.maintenance.cleanup.plan import CleanupPlan, plan_cleanup
from lance_ops.maintenance.cleanup.versions import CleanupOptions
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
from lance_ops.table.manifest.listing import latest, list_versions
from lance_ops.table.manifest.naming import is_detached
from lance_ops.table.transaction.operations import MapUpdate, UpdateConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupResult(OperationResult):
    """Result of `cleanup`, which makes no version of its own: `version` is the head it worked on.

    Attributes:
        versions_removed: Expired versions.
        versions_kept: Versions that stay.
        data_files_removed: Data files.
        deletion_files_removed: Deletion files.
        index_files_removed: Files of index segments.
        transaction_files_removed: Transaction files.
        temporary_files_removed: Left-overs of writers that died.
        bytes_removed: Size of everything removed, manifests included.
        files_kept: Files that stay.
        files_spared: Victims of the plan that a commit or tag since then uses, so that they stayed.
        files_failed: Files that should have gone and could not be removed, or not be proven to be of no use.
            The next cleanup finishes them.
        errors: Why, for the first of them.
        notes: Folders behind which nothing was removed, and why.
    """

    operation: ClassVar[str] = "cleanup"

    versions_removed: int = 0
    versions_kept: int = 0
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
        """Whether nothing failed."""
        return not self.files_failed and not self.errors

    @property
    def changed(self) -> bool:
        """Whether anything was removed."""
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
        return (
            f"removed {count_text(self.versions_removed, 'version')} and {count_text(files, 'file')}, "
            f"{bytes_text(self.bytes_removed)}; {count_text(self.versions_kept, 'version')} kept"
        )

    def __str__(self) -> str:
        lines = [OperationResult.__str__(self)]
        if self.files_failed:
            lines.append(f"  {count_text(self.files_failed, 'file')} failed; run it again to finish")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join([*lines, *(f"  error: {error}" for error in self.errors)])


class CleanupArguments(TypedDict, total=False):
    """What `cleanup` takes by name; see there for all of them.

    Attributes:
        older_than: See `CleanupOptions`.
        retain_versions: See `CleanupOptions`.
        delete_unverified: See `CleanupOptions`.
        clones: Shallow clones of the dataset, whose files stay.
        job_key_age: Without effect.
        committer: See `cleanup`.
        progress: Receives events.
        storage_options: For opening the store.
    """

    older_than: timedelta | None
    retain_versions: int | None
    delete_unverified: bool
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
    clones: Sequence[Target] = (),
    job_key_age: timedelta | None = None,  # noqa: ARG001 - earlier callers give it
    committer: Committer | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> CleanupResult | CleanupPlan:
    """Remove old versions; the newest version, tagged and detached ones always stay.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        older_than: See `CleanupOptions`.
        retain_versions: See `CleanupOptions`.
        delete_unverified: See `CleanupOptions`.
        clones: Shallow clones of the dataset, whose files here stay. Clones that neither are named here nor
            have a tag at the version that they were made of cannot be seen, and lose their files.
        job_key_age: Without effect since job keys are part of each version: the newest 100,000 are kept,
            whatever their age.
        committer: Stores the version that takes over job keys of an earlier release, where the store alone
            cannot decide a race.
        dry_run: Return the plan: every victim and why, every file kept and why.
        progress: Receives events.
        storage_options: For opening the store.

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
    call.report("read manifests and list files")
    options = CleanupOptions(older_than, retain_versions, delete_unverified)
    check_type(clones, Iterable, "a list of datasets", field="clones")
    # Where there is no dataset, nothing may be written either.
    newest_before = persistently(lambda: latest(store)).version
    line = Line.of(store, storage_options)
    holds_all = LinkedFolders.of(line).holds_all
    # What writes nothing must do with the clock of this machine.
    now = None if dry_run or holds_all else store_now(store)
    if now is not None:
        # What they wrote is of no use to anybody, and needs no version to be looked at.
        persistently(lambda: sweep_jobs(store, now))
    clone_stores = [store_of(clone, storage_options) for clone in clones]
    make_plan = partial(plan_cleanup, line, options, now=now, clones=clone_stores)
    plan = make_plan(newest_before=newest_before)
    if dry_run:
        return plan
    if not holds_all and persistently(lambda: _has_earlier_jobs(store, plan)):
        # Before any version goes: a commit with a job key takes over the keys that only these versions and
        # the files of earlier releases tell.
        key = f"lance_ops.cleanup:{uuid4()}"
        empty = CommitRequest(UpdateConfig(MapUpdate({})), committer=committer, job_key=key)
        with contextlib.suppress(JobUnprovenError):
            # The record is lost already, and a commit with a key says so.
            persistently(lambda: commit(store, empty))
        plan = make_plan(newest_before=persistently(lambda: latest(store)).version)
    if holds_all:
        outcome = Outcome((), 0, 0, ())
    else:
        outcome = execute_cleanup(line, plan, call.report)
        with contextlib.suppress(LanceOpsError):
            # The next cleanup removes those that stay.
            remove_unused_files(store, _configs(store, plan, clone_stores), plan.now)
    counts = Counter(verdict.kind for verdict in outcome.removed)
    return CleanupResult(
        **call.common(plan.head, read_version=plan.head),
        versions_removed=outcome.versions_removed,
        versions_kept=len(plan.versions) - outcome.versions_removed,
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
    """Whether there are jobs that the newest version has no record of."""
    manifest = plan.manifest
    if manifest is None or JobRecord.of(manifest.config, store.uri) is not None:
        return False
    return plan.has_jobs or has_record_files(store)


def _configs(store: Store, plan: CleanupPlan, clones: Sequence[Store]) -> Iterator[Mapping[str, str]]:
    """Config of each version that is still there, the newest first; those of clones last."""
    detached = (verdict.location for verdict in plan.versions if is_detached(verdict.location.version))
    for location in (*reversed(list_versions(store)), *detached):
        yield read_manifest(store, location).config
    for clone in clones:
        for location in list_versions(clone):
            yield read_manifest(clone, location).config
