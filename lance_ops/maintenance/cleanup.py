"""Removing expired versions and the files that only they used."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import ClassVar

from lance_ops.maintenance.cleanup_marks import Marks
from lance_ops.maintenance.cleanup_plan import CleanupOptions, CleanupPlan, FileVerdict, plan_cleanup
from lance_ops.maintenance.progress import Progress, Reporter
from lance_ops.maintenance.results import OperationResult
from lance_ops.maintenance.target import Target, store_of
from lance_ops.maintenance.text import bytes_text, count_text
from lance_ops.storage import Store
from lance_ops.table.manifest_file import read_summary
from lance_ops.table.refs import list_tags
from lance_ops.table.versions import list_versions

_CHUNK = 500


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
        files_spared: Victims of the plan that a commit since then uses, so that they stayed.
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

    @property
    def changed(self) -> bool:
        """Whether anything was removed."""
        return self.bytes_removed > 0

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        if not self.changed:
            return f"nothing to remove, {count_text(self.versions_kept, 'version')} kept"
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


def cleanup(
    target: Target,
    *,
    older_than: timedelta | None = None,
    retain_versions: int | None = None,
    delete_unverified: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> CleanupResult | CleanupPlan:
    """Remove old versions; the newest version, tagged and detached ones always stay.

    Args:
        target: The dataset.
        older_than: See `CleanupOptions`.
        retain_versions: See `CleanupOptions`.
        delete_unverified: See `CleanupOptions`.
        dry_run: Return the plan: every victim and why, every file kept and why.
        progress: Receives events.
        storage_options: For opening the store.

    Raises:
        CleanupRefusedError: See `plan_cleanup`; nothing was removed.
        CorruptManifestError: See `plan_cleanup`; nothing was removed.
        DatasetNotFoundError: There is no dataset.
    """
    started = time.perf_counter()
    store = store_of(target, storage_options)
    report = Reporter("cleanup", progress)
    report("read manifests and list files")
    options = CleanupOptions(older_than, retain_versions, delete_unverified)
    plan = plan_cleanup(store, options)
    if dry_run:
        return plan
    while _has_newly_tagged(store, plan):
        plan = plan_cleanup(store, options)
    removed = execute_cleanup(store, plan, report)
    counts = Counter(verdict.kind for verdict in removed)
    return CleanupResult(
        uri=store.uri,
        read_version=plan.head,
        version=plan.head,
        seconds=time.perf_counter() - started,
        versions_removed=len(plan.expired),
        versions_kept=len(plan.versions) - len(plan.expired),
        data_files_removed=counts["data"],
        deletion_files_removed=counts["deletion"],
        index_files_removed=counts["index"],
        transaction_files_removed=counts["transaction"],
        temporary_files_removed=counts["temporary"],
        bytes_removed=sum(verdict.size for verdict in removed),
        files_kept=len(plan.kept),
        files_spared=len(plan.victims) - len(removed),
    )


def execute_cleanup(store: Store, plan: CleanupPlan, report: Reporter) -> list[FileVerdict]:
    """Remove the victims of a plan; returns those that were removed.

    Manifests go first: after a crash no version that can be opened misses a file. Files of versions that are
    gone already count as unverified in the next cleanup. A version committed since the plan was made may use
    a victim again (a restore of an expired version); such files are spared.
    """
    manifests = [verdict for verdict in plan.victims if verdict.kind == "manifest"]
    _delete(store, manifests, "remove manifests", report)
    since = _marks_since(store, plan.head)
    files = [
        verdict
        for verdict in plan.victims
        if verdict.kind != "manifest" and since.user_of(verdict.path) is None
    ]
    _delete(store, files, "remove files", report)
    return manifests + files


def _has_newly_tagged(store: Store, plan: CleanupPlan) -> bool:
    """Whether somebody tagged a version that is to go while the manifests were read, which can take long."""
    tagged = {tag.version for tag in list_tags(store).values()}
    return any(verdict.version in tagged for verdict in plan.expired)


def _marks_since(store: Store, head: int) -> Marks:
    marks = Marks()
    for location in list_versions(store):
        if location.version > head:
            marks.add(read_summary(store, location), path=f"{store.uri}/{location.path}")
    return marks


def _delete(store: Store, verdicts: Sequence[FileVerdict], message: str, report: Reporter) -> None:
    done = 0
    for chunk in _chunks(verdicts):
        report(message, done, len(verdicts))
        store.delete_many([verdict.path for verdict in chunk])
        done += len(chunk)
    report(message, done, len(verdicts))


def _chunks(verdicts: Iterable[FileVerdict]) -> Iterable[list[FileVerdict]]:
    remaining = iter(verdicts)
    while chunk := list(islice(remaining, _CHUNK)):
        yield chunk
