"""Cleanup plan: removable versions and files of a dataset. Reads metadata only, deletes nothing.

A file may be removed if no kept version uses it, and either an expired version used it, or it is unused and
too old to belong to a commit in progress. Unknown files are kept, or make cleanup fail.

Versions for a cleanup, read with few of them in memory at a time.

Head of a cleanup: a check that the newest version is sound.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from lance_ops.errors import (
    CleanupRefusedError,
    CorruptManifestError,
    FormatError,
    LanceOpsError,
    NotFoundError,
    VersionNotFoundError,
)
from lance_ops.maintenance.cleanup.files import (
    FileJudge,
    FileVerdict,
    LinkedFolders,
    keep_targets,
    mark_clones,
    may_share_files,
    note_of,
)
from lance_ops.maintenance.cleanup.line import CleanupOptions, Line, VersionJudge, VersionVerdict
from lance_ops.maintenance.cleanup.marks import (
    DATA,
    DELETIONS,
    INDICES,
    OBJECTS,
    ROW_MAPS,
    TRANSACTIONS,
    FinishedJobs,
    Marks,
)
from lance_ops.maintenance.cleanup.objects import NamedObjects
from lance_ops.maintenance.cleanup.row_maps import RowMaps, mark_files
from lance_ops.maintenance.cleanup.trash import (
    TRASH_DIRECTORY,
    TrashedVersion,
    gone_versions,
    trashed_among,
)
from lance_ops.maintenance.fsck.findings import Severity
from lance_ops.maintenance.fsck.fragments import check_fragments, scan_problem
from lance_ops.maintenance.jobs.listing import job_prefixes
from lance_ops.maintenance.text import bytes_text, count_text, table_text
from lance_ops.storage import ObjectInfo, Store
from lance_ops.storage.prefetch import prefetch, requests_at_once, side_by_side
from lance_ops.storage.retry import is_there, persistently
from lance_ops.table.commit.damaged_head import RESTORED_OVER
from lance_ops.table.commit.head import check_no_staged
from lance_ops.table.dataset import Dataset
from lance_ops.table.history.pins import Removal, list_removals
from lance_ops.table.history.refs import MAIN
from lance_ops.table.manifest.base_paths import DATA_DIRECTORY
from lance_ops.table.manifest.feature_flags import Feature, unknown_bits
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.file.summary import ManifestSummary, read_summary
from lance_ops.table.manifest.fragment import SEQUENCES, ExternalFile
from lance_ops.table.manifest.listing import (
    VERSIONS_DIRECTORY,
    ManifestLocation,
    all_manifests,
    is_detached,
    manifests_among,
    newest_staged,
)
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.no_dataset import no_dataset
from lance_ops.table.transaction.transaction import decode_transaction

_HINT = "run lance-ops fsck; restore an older version that is sound, then clean up"


def check_head(store: Store, location: ManifestLocation, listed: Container[str]) -> Manifest | None:
    """Check that the newest version opens, can be scanned, and has its files.

    Args:
        store: Root of the dataset.
        location: The newest version.
        listed: Files of the dataset in a listing.

    Returns:
        Its manifest; None if it no longer exists.

    Raises:
        CleanupRefusedError: It is not sound.
    """
    try:
        manifest = persistently(lambda: read_manifest(store, location))
        dataset = Dataset(store, location, manifest)
        problem = next(
            (item.message for item in check_fragments(dataset) if item.severity is Severity.ERROR), None
        )
        if problem is not None:
            raise refusal(store, location, problem)
        damage = scan_problem(dataset)
        if damage is not None:
            raise damage
    except VersionNotFoundError:
        return None
    except (FormatError, NotFoundError) as error:
        raise refusal(store, location, error.message, error) from error
    missing = [
        path
        for path in _files(manifest)
        if path not in listed and not persistently(lambda path=path: is_there(store, path))  # type: ignore[misc]
    ]
    if missing:
        more = f" and {len(missing) - 3:,} more" if len(missing) > 3 else ""
        raise refusal(store, location, f"files are missing: {', '.join(missing[:3])}{more}")
    return manifest


def refusal(
    store: Store, location: ManifestLocation, problem: str, cause: LanceOpsError | None = None
) -> CleanupRefusedError:
    """Return the error for a newest version that is not sound."""
    return CleanupRefusedError(
        f"the newest version, {location.version}, is damaged ({problem}), and the older ones may be the "
        "last readable ones",
        path=f"{store.uri}/{location.path}",
        field=cause.field if cause is not None else None,
        hint=_HINT,
    )


def _files(manifest: Manifest) -> Iterator[str]:
    """Yield files in the dataset's own root that contain rows."""
    for fragment in manifest.fragments:
        yield from (f"{DATA_DIRECTORY}/{file.path}" for file in fragment.all_files if file.base_id is None)
        deletion = fragment.deletion_file
        if deletion is not None and deletion.base_id is None:
            yield deletion.path(fragment.id)
        sequences = (getattr(fragment, name) for name in SEQUENCES)
        yield from (sequence.path for sequence in sequences if isinstance(sequence, ExternalFile))


def read_summaries(
    store: Store, locations: Sequence[ManifestLocation], newest: int, written: Mapping[str, datetime]
) -> Iterator[tuple[ManifestLocation, ManifestSummary, bool]]:
    """Yield summaries of the existing versions, in the order of `locations`, newest first.

    A damaged version followed by a restore of an older one is given up: it has no files, and is yielded with
    True.

    Args:
        store: Root of the dataset.
        locations: The versions.
        newest: The newest of them.
        written: When each manifest was written, by the clock of the store.

    Raises:
        CleanupRefusedError: The newest version cannot be read.
        CorruptManifestError: Another one cannot be read.
        InconsistentStoreError: A manifest is listed but not found.
    """

    def read(location: ManifestLocation) -> ManifestSummary | FormatError | None:
        try:
            return persistently(lambda: read_summary(store, location))
        except VersionNotFoundError:
            # A fresh listing confirmed it: another cleanup was faster.
            return None
        except FormatError as error:
            return error

    tasks = (partial(read, location) for location in locations)
    above: ManifestSummary | None = None
    results = prefetch(tasks, requests_at_once(store))
    for location, result in zip(locations, results, strict=True):
        if result is None:
            continue
        if isinstance(result, FormatError):
            if location.version == newest:
                raise refusal(store, location, result.message, result) from result
            moment = written.get(location.path)
            if moment is None or not _is_given_up(store, location.version, above):
                raise CorruptManifestError(
                    result.message,
                    path=result.path,
                    field=result.field,
                    hint="its files are unknown; if the version is not needed, remove this file manually",
                ) from result
            yield location, _without_files(location.version, moment), True
            above = None
        else:
            yield location, result, False
            above = result


def _is_given_up(store: Store, version: int, above: ManifestSummary | None) -> bool:
    """Return whether the version after this one is a restore made because this one is damaged."""
    if above is None or above.version != version + 1 or above.transaction is None:
        return False
    transaction = decode_transaction(above.transaction, path=f"{store.uri} (version {above.version})")
    return transaction.properties.get(RESTORED_OVER) == str(version)


def _without_files(version: int, moment: datetime) -> ManifestSummary:
    return ManifestSummary(
        version=version,
        timestamp=moment,
        transaction_file="",
        transaction=None,
        reader_flags=0,
        writer_flags=0,
        branch=None,
        fragments=(),
    )


_LISTINGS = 6
_UNKNOWN = "every object of managed blobs was kept, since the used ones are unknown: those {}"


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """Files to remove and to keep, each with the reason.

    Attributes:
        uri: The dataset.
        head: Newest version when the plan was made.
        versions: All versions, oldest first.
        files: All files below the managed folders, manifests included.
        now: The time used for ages.
        removals: Removals announced by interrupted or concurrent cleanups.
        has_jobs: True if versions were committed under job keys.
        manifest: Manifest of the newest version.
        notes: Folders in which nothing is removed, with reasons.
        trash: Versions in the trash, oldest first.
    """

    uri: str
    head: int
    versions: tuple[VersionVerdict, ...]
    files: tuple[FileVerdict, ...]
    now: datetime
    removals: tuple[Removal, ...] = ()
    has_jobs: bool = False
    manifest: Manifest | None = field(default=None, repr=False, compare=False)
    notes: tuple[str, ...] = ()
    trash: tuple[VersionVerdict, ...] = ()

    @property
    def expired(self) -> tuple[VersionVerdict, ...]:
        """The versions to remove, those in the trash first."""
        return tuple(verdict for verdict in (*self.trash, *self.versions) if verdict.expired)

    @property
    def victims(self) -> tuple[FileVerdict, ...]:
        """The files to remove, manifests included."""
        return tuple(verdict for verdict in self.files if verdict.victim)

    @property
    def kept(self) -> tuple[FileVerdict, ...]:
        """The files to keep."""
        return tuple(verdict for verdict in self.files if not verdict.victim)

    @property
    def bytes_removed(self) -> int:
        """Size of all files to remove."""
        return sum(verdict.size for verdict in self.victims)

    @property
    def note(self) -> str:
        """A note on files that a cleanup does not find or remove."""
        return note_of(self.manifest)

    def to_dict(self) -> dict[str, object]:
        """Return every verdict as JSON values."""
        return {
            "operation": "cleanup",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.head,
            "versions_expired": len(self.expired),
            "files_expired": len(self.victims),
            "bytes_removed": self.bytes_removed,
            "note": self.note,
            "notes": list(self.notes),
            "versions": [
                {
                    "version": verdict.version,
                    "timestamp": verdict.timestamp.isoformat(),
                    "expired": verdict.expired,
                    "reason": verdict.reason,
                }
                for verdict in self.versions
            ],
            "files": [
                {
                    "path": verdict.path,
                    "kind": verdict.kind,
                    "size": verdict.size,
                    "expired": verdict.victim,
                    "reason": verdict.reason,
                }
                for verdict in self.files
            ],
        }

    def to_text(self, limit: int | None = 40) -> str:
        """Return a summary, and tables of at most `limit` removed and kept files; all if None."""
        versions = f"{count_text(len(self.expired), 'version')} of {len(self.versions):,}"
        files = f"{count_text(len(self.victims), 'file')} of {len(self.files):,}"
        size = bytes_text(self.bytes_removed)
        lines = [f"cleanup of {self.uri} at version {self.head}: {versions} and {files} to remove, {size}"]
        for title, verdicts in (("goes", self.victims), ("stays", self.kept)):
            if verdicts:
                rows = [
                    (verdict.path, verdict.kind, bytes_text(verdict.size), verdict.reason)
                    for verdict in verdicts
                ]
                lines.append(table_text((title, "kind", "size", "because"), rows, limit))
        lines += [*self.notes, self.note]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.to_text()


def plan_cleanup(
    line: Line,
    options: CleanupOptions,
    *,
    now: datetime | None = None,
    clones: Sequence[Store] = (),
    newest_before: int | None = None,
) -> CleanupPlan:
    """Read every manifest and list every managed file.

    Args:
        line: The dataset, or one of its branches.
        options: Retention.
        now: The time by the clock of the store, aware; that of this machine if None.
        clones: Shallow clones of the dataset, whose files here are kept.
        newest_before: See `VersionJudge`.

    Raises:
        CleanupRefusedError: Branches, other bases or unknown features are in use, or the newest version does
            not open.
        CorruptManifestError: A version cannot be read, so its files are unknown.
        InconsistentStoreError: The same for a version whose manifest is listed but not found.
        DatasetNotFoundError: There is no dataset.
    """
    now = now or datetime.now(UTC)
    folders: Sequence[str] = (DATA, DELETIONS, INDICES, TRANSACTIONS)
    for _ in range(_LISTINGS):
        plan = _plan(line, options, now, clones, newest_before, folders)
        if isinstance(plan, str):
            folders = (*folders, plan)
        elif isinstance(plan, CleanupPlan):
            return plan
    raise CleanupRefusedError(
        "the newest version was repeatedly replaced and removed while the versions were read",
        path=line.store.uri,
        hint="other cleanups are running: try again after they have ended",
    )


def _plan(
    line: Line,
    options: CleanupOptions,
    now: datetime,
    clones: Sequence[Store],
    newest_before: int | None,
    listed: Sequence[str],
) -> CleanupPlan | str | None:
    """Make one attempt.

    Returns:
        The plan; None if the newest listed version was removed; or a folder that must be listed for the
        features of a version: the objects of managed blobs, or row maps.
    """
    store = line.store
    trees, removals, named, trash_infos, *folders = _read_surroundings(line, now, listed)
    named.check_trees(trees)
    # Listed before the manifests are read: a file that appears later cannot become a victim, and files of
    # concurrent commits are found in use, since later commits are kept.
    infos = [info for found in folders for info in found]
    # After the files, whose jobs were open before they were written, and before the manifests: a job that has
    # ended by then has committed its files.
    open_jobs = persistently(lambda: job_prefixes(store))
    version_infos = _list(store, VERSIONS_DIRECTORY)
    # Newest first, so that everything that decides about a version is known when it is read.
    locations = sorted(manifests_among(store, version_infos), key=lambda item: -item.version)
    newest = next((location.version for location in locations if not is_detached(location.version)), None)
    if newest is None:
        raise no_dataset(store)
    check_no_staged(newest_staged((info.path for info in version_infos), newest), newest, store.uri)
    written = {info.path: info.modified for info in version_infos}
    judge = VersionJudge(options, now, written, named, newest_before)
    jobs, links = FinishedJobs(store), LinkedFolders.of(line)
    kept, expired = Marks(), Marks()
    verdicts: list[VersionVerdict] = []
    head: Manifest | None = None
    managed_blobs = False
    row_maps = RowMaps(line)
    for location, summary, given_up in read_summaries(store, locations, newest, written):
        if not verdicts or is_detached(verdicts[-1].version):
            if summary.version < newest:
                return None
            if not is_detached(summary.version):
                _refuse_unknown(line, location, summary)
                head = check_head(store, location, {info.path for info in infos})
                if head is None:
                    return None
        _refuse_unknown(line, location, summary)
        managed_blobs = managed_blobs or bool(summary.reader_flags & Feature.MANAGED_BLOBS)
        if not is_detached(summary.version):
            jobs.add(summary)
        verdict = links.judge_version(judge(location, summary, given_up=given_up))
        mark_files(store, verdict, summary, kept, expired, row_maps)
        verdicts.append(verdict)
    present = {verdict.version for verdict in verdicts}
    if newest not in present:
        return None
    named.check_listed(present)
    named.check_forks(present)
    verdicts.reverse()
    trashed = gone_versions(trashed_among(trash_infos), present, newest)
    trash, trashed_blobs = _judge_trash(line, judge, trashed, kept, expired, row_maps)
    objects = NamedObjects(store.uri, line.storage_options)
    marked = mark_clones(objects, clones)
    unknown = next((clone.problem for clone in marked if clone.problem is not None), None)
    if managed_blobs or trashed_blobs:
        if OBJECTS not in listed:
            return OBJECTS
        unknown = _mark_objects(line, (*trash, *verdicts), kept, expired, objects) or unknown
    if row_maps.any_found and ROW_MAPS not in listed:
        return ROW_MAPS
    files_judge = FileJudge(
        kept,
        expired,
        marked,
        frozenset(path for removal in removals if not removal.left_over for path in removal.files),
        jobs,
        open_jobs,
        now,
        (*named.folders_below, *_datasets_within(infos)),
        blobs_unknown=unknown,
        maps_unknown=next((clone.maps_unknown for clone in marked if clone.maps_unknown), row_maps.unknown),
        delete_unverified=options.delete_unverified,
    )
    files = keep_targets(store, infos, [files_judge.managed(info) for info in infos])
    files += [
        *files_judge.manifests(version_infos, verdicts),
        *files_judge.trash(trash_infos, trash, empty_trash=options.empty_trash),
    ]
    return CleanupPlan(
        store.uri,
        newest,
        tuple(verdicts),
        tuple(links.judge_files(files)),
        now,
        tuple(removals),
        has_jobs=jobs.any_found,
        manifest=head,
        notes=(*links.notes, *(() if unknown is None else (_UNKNOWN.format(unknown),))),
        trash=trash,
    )


def _judge_trash(
    line: Line,
    judge: VersionJudge,
    trashed: Sequence[TrashedVersion],
    kept: Marks,
    expired: Marks,
    row_maps: RowMaps,
) -> tuple[tuple[VersionVerdict, ...], bool]:
    """Mark the files of versions in the trash.

    Returns:
        Their verdicts, oldest first, and whether any has managed blobs.
    """
    found: list[VersionVerdict] = []
    has_blobs = False
    for item in trashed:
        try:
            summary = persistently(partial(read_summary, line.store, item.location))
        except VersionNotFoundError:
            # An undo, or another cleanup, was faster.
            continue
        _refuse_unknown(line, item.location, summary)
        verdict = judge.trashed(item, summary)
        mark_files(line.store, verdict, summary, kept, expired, row_maps)
        has_blobs = has_blobs or bool(summary.reader_flags & Feature.MANAGED_BLOBS)
        found.append(verdict)
    return tuple(reversed(found)), has_blobs


def _datasets_within(infos: Sequence[ObjectInfo]) -> list[str]:
    """Return the folders of other datasets within this one, with a final "/"."""
    between = f"/{VERSIONS_DIRECTORY}/"
    return sorted({f"{info.path.partition(between)[0]}/" for info in infos if between in info.path})


def _mark_objects(
    line: Line, verdicts: Sequence[VersionVerdict], kept: Marks, expired: Marks, objects: NamedObjects
) -> str | None:
    """Mark the objects of managed blobs; returns why they are unknown, if they are."""
    problem: str | None = None
    for verdict in reversed(verdicts):
        try:
            (kept if verdict.keeps_files else expired).mark(
                objects.of(line.store, verdict.location, surely=not verdict.keeps_files), verdict.version
            )
        except LanceOpsError as error:
            # For an expired version it is enough that no other version names them, and that they are old.
            if verdict.keeps_files:
                problem = problem or f"of version {verdict.version}: {error}"
    for store in persistently(line.others):
        try:
            for location in persistently(partial(all_manifests, store)):
                kept.mark(objects.of(store, location), location.version)
        except LanceOpsError as error:
            problem = problem or f"of {store.uri}: {error}"
    return problem


def _read_surroundings(line: Line, now: datetime, folders: Sequence[str]) -> list[Any]:
    """Read folders of branches, announced removals, references, and the files of each folder.

    These reads are independent: everything that decides is read again before the removal.
    """
    every: list[Callable[[], Any]] = [
        line.trees,
        partial(persistently, partial(list_removals, line.store)),
        partial(line.named, now),
        # Before the versions: one that an undo brings back meanwhile is in the later listing.
        partial(_list, line.store, TRASH_DIRECTORY),
    ]
    every += [partial(_list, line.store, folder) for folder in folders]
    return list(side_by_side(line.store, *every))


def _list(store: Store, folder: str) -> list[ObjectInfo]:
    return persistently(lambda: list(store.list(folder)))


def _refuse_unknown(line: Line, location: ManifestLocation, summary: ManifestSummary) -> None:
    bits = unknown_bits(summary.reader_flags | summary.writer_flags)
    reason = None
    if bits:
        reason = f"uses unsupported feature flags: {', '.join(map(str, bits))}"
    elif summary.branch != line.branch:
        reason = f"belongs to branch {summary.branch or MAIN!r}"
    elif any(may_share_files(base, line.store.uri) for base in summary.base_paths):
        reason = "has a base that is within or contains its own files"
    elif summary.has_fragment_tree:
        reason = "stores its fragments outside of the manifest"
    if reason is not None:
        raise CleanupRefusedError(
            f"version {summary.version} {reason}",
            path=f"{line.store.uri}/{location.path}",
            hint="clean up with a tool that supports it",
        )
