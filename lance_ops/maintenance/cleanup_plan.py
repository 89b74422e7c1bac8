"""Deciding which versions and files of a dataset may go. Reads metadata only, deletes nothing.

A file may go when no kept version uses it, and either an expired version did use it, or nobody does and it is
too old to belong to a commit under way. Whatever is not understood is kept, or makes cleanup refuse.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lance_ops.errors import (
    CleanupRefusedError,
    DatasetNotFoundError,
    InvalidArgumentError,
    VersionNotFoundError,
)
from lance_ops.file.side_files import data_file_of
from lance_ops.maintenance.cleanup_marks import DATA, DELETIONS, INDICES, TRANSACTIONS, Marks
from lance_ops.maintenance.text import bytes_text, count_text, table_text
from lance_ops.storage import ObjectInfo, Store, is_temporary
from lance_ops.table.flags import unknown_bits
from lance_ops.table.manifest_file import ManifestSummary, read_summary
from lance_ops.table.naming import VERSIONS_DIRECTORY, is_detached
from lance_ops.table.refs import BRANCH_TREES, list_branches, list_tags
from lance_ops.table.versions import ManifestLocation, iter_manifests

DEFAULT_AGE = timedelta(days=14)
UNVERIFIED_GRACE = timedelta(days=7)
"""How long a file that no version uses may belong to a commit under way; the peer's number."""

_STAGED_MANIFEST = re.compile(r"\.manifest-[0-9a-f-]{32,36}$")


@dataclass(frozen=True, slots=True)
class CleanupOptions:
    """What may go.

    Attributes:
        older_than: Versions younger than this stay. 14 days when neither this nor `retain_versions` is given.
        retain_versions: That many newest versions stay.
        delete_unverified: Also remove files that no version ever used and that are younger than seven days.
            Only safe when nobody else writes.
    """

    older_than: timedelta | None = None
    retain_versions: int | None = None
    delete_unverified: bool = False

    def __post_init__(self) -> None:
        if self.older_than is not None and self.older_than < timedelta(0):
            raise InvalidArgumentError("an age cannot be negative", field="older_than")
        if self.retain_versions is not None and self.retain_versions < 1:
            raise InvalidArgumentError("at least one version has to stay", field="retain_versions")

    @property
    def age(self) -> timedelta | None:
        """Age below which versions stay; None when only their number counts."""
        return DEFAULT_AGE if self.older_than is None and self.retain_versions is None else self.older_than


@dataclass(frozen=True, slots=True)
class VersionVerdict:
    """Whether a version stays, and why. Detached versions have no place in the history and always stay."""

    version: int
    timestamp: datetime
    location: ManifestLocation
    expired: bool
    reason: str


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """Whether a file stays, and why.

    `kind` is data, blob, deletion, index, transaction, manifest, temporary or other.
    """

    path: str
    size: int
    kind: str
    victim: bool
    reason: str


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """What a cleanup will remove and what it keeps, each with the reason.

    Attributes:
        uri: The dataset.
        head: Newest version when the plan was made.
        versions: All versions, oldest first.
        files: All files below the managed folders, manifests included.
    """

    uri: str
    head: int
    versions: tuple[VersionVerdict, ...]
    files: tuple[FileVerdict, ...]

    @property
    def expired(self) -> tuple[VersionVerdict, ...]:
        """Versions that go."""
        return tuple(verdict for verdict in self.versions if verdict.expired)

    @property
    def victims(self) -> tuple[FileVerdict, ...]:
        """Files that go, manifests included."""
        return tuple(verdict for verdict in self.files if verdict.victim)

    @property
    def kept(self) -> tuple[FileVerdict, ...]:
        """Files that stay."""
        return tuple(verdict for verdict in self.files if not verdict.victim)

    @property
    def bytes_removed(self) -> int:
        """Size of all victims."""
        return sum(verdict.size for verdict in self.victims)

    def to_dict(self) -> dict[str, object]:
        """Every verdict as JSON values."""
        return {
            "operation": "cleanup",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.head,
            "versions_expired": len(self.expired),
            "files_expired": len(self.victims),
            "bytes_removed": self.bytes_removed,
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
        """A summary, and tables of at most `limit` files that go and files that stay; all when None."""
        versions = f"{count_text(len(self.expired), 'version')} of {len(self.versions):,}"
        files = f"{count_text(len(self.victims), 'file')} of {len(self.files):,}"
        size = bytes_text(self.bytes_removed)
        lines = [f"cleanup of {self.uri} at version {self.head}: {versions} and {files} go, {size}"]
        for title, verdicts in (("goes", self.victims), ("stays", self.kept)):
            if verdicts:
                rows = [
                    (verdict.path, verdict.kind, bytes_text(verdict.size), verdict.reason)
                    for verdict in verdicts
                ]
                lines.append(table_text((title, "kind", "size", "because"), rows, limit))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.to_text()


def plan_cleanup(store: Store, options: CleanupOptions, *, now: datetime | None = None) -> CleanupPlan:
    """Read every manifest and list every managed file.

    Args:
        store: Store of the dataset.
        options: What may go.
        now: Replaces the clock in tests; aware.

    Raises:
        CleanupRefusedError: Branches, other bases or features are in use whose files this cannot tell apart.
        CorruptManifestError: A version cannot be read, so what it uses is not known.
        DatasetNotFoundError: There is no dataset.
    """
    now = now or datetime.now(UTC)
    _refuse_branches(store)
    # Listed before the manifests are read: a file that appears later cannot become a victim, and whoever
    # commits in between uses files that are in the list and are found in use.
    infos = [info for folder in (DATA, DELETIONS, INDICES, TRANSACTIONS) for info in store.list(folder)]
    version_infos = list(store.list(VERSIONS_DIRECTORY))
    summaries = _read_all(store)
    if not any(not is_detached(summary.version) for _, summary in summaries):
        raise DatasetNotFoundError("no dataset here: there is no manifest", path=store.uri)
    verdicts = _judge_versions(store, summaries, options, now)
    kept, expired = Marks(), Marks()
    for verdict, summary in sorted(
        zip(verdicts, (summary for _, summary in summaries), strict=True), key=lambda pair: -pair[0].version
    ):
        (expired if verdict.expired else kept).add(summary, path=f"{store.uri}/{verdict.location.path}")
    judge = _FileJudge(kept, expired, now, delete_unverified=options.delete_unverified)
    files = [judge.managed(info) for info in infos]
    files += judge.manifests(version_infos, verdicts)
    head = max(verdict.version for verdict in verdicts if not is_detached(verdict.version))
    return CleanupPlan(store.uri, head, tuple(verdicts), tuple(files))


def _refuse_branches(store: Store) -> None:
    branches = sorted(list_branches(store))
    if branches or store.list_dirs(BRANCH_TREES):
        raise CleanupRefusedError(
            f"the dataset has branches ({', '.join(branches) or 'below tree/'}), which may use its files",
            path=store.uri,
            hint="remove the branches, or clean up with the official library",
        )


def _read_all(store: Store) -> list[tuple[ManifestLocation, ManifestSummary]]:
    summaries: list[tuple[ManifestLocation, ManifestSummary]] = []
    for location in sorted(iter_manifests(store), key=lambda item: item.version):
        try:
            summary = read_summary(store, location)
        except VersionNotFoundError:
            # Another cleanup was faster. It cannot have taken the head, which decides about everything else.
            continue
        _refuse_unknown(store, location, summary)
        summaries.append((location, summary))
    return summaries


def _refuse_unknown(store: Store, location: ManifestLocation, summary: ManifestSummary) -> None:
    bits = unknown_bits(summary.reader_flags | summary.writer_flags)
    reason = None
    if bits:
        reason = f"uses feature flags that are not implemented: {', '.join(map(str, bits))}"
    elif summary.base_paths:
        reason = "shares files with other datasets (it is a shallow clone, or has files in other places)"
    elif summary.branch is not None:
        reason = f"belongs to branch {summary.branch!r}"
    elif summary.has_fragment_tree:
        reason = "keeps its fragments outside the manifest"
    if reason is not None:
        raise CleanupRefusedError(
            f"version {summary.version} {reason}",
            path=f"{store.uri}/{location.path}",
            hint="clean up with a tool that knows about it",
        )


def _judge_versions(
    store: Store,
    summaries: Sequence[tuple[ManifestLocation, ManifestSummary]],
    options: CleanupOptions,
    now: datetime,
) -> list[VersionVerdict]:
    tags: dict[int, list[str]] = {}
    for tag in list_tags(store).values():
        tags.setdefault(tag.version, []).append(tag.name)
    history = [summary.version for _, summary in summaries if not is_detached(summary.version)]
    head = max(history, default=0)
    newest = (
        frozenset(history[-options.retain_versions :]) if options.retain_versions is not None else frozenset()
    )
    verdicts: list[VersionVerdict] = []
    for location, summary in summaries:
        reason = None
        if is_detached(summary.version):
            reason = "it is a detached version"
        elif summary.version == head:
            reason = "it is the newest version"
        elif summary.version in tags:
            reason = f"it is tagged {', '.join(sorted(tags[summary.version]))}"
        elif summary.version in newest:
            reason = f"it is one of the newest {options.retain_versions}"
        elif options.age is not None and now - summary.timestamp < options.age:
            reason = f"it is younger than {_age_text(options.age)}"
        verdicts.append(
            VersionVerdict(
                summary.version,
                summary.timestamp,
                location,
                reason is None,
                reason or _why_expired(options),
            )
        )
    return verdicts


def _why_expired(options: CleanupOptions) -> str:
    reasons = []
    if options.age is not None:
        reasons.append(f"it is at least {_age_text(options.age)} old")
    if options.retain_versions is not None:
        reasons.append(f"it is not one of the newest {options.retain_versions}")
    return " and ".join(reasons)


@dataclass(frozen=True, slots=True)
class _FileJudge:
    kept: Marks
    expired: Marks
    now: datetime
    delete_unverified: bool

    def managed(self, info: ObjectInfo) -> FileVerdict:
        """A file of the folders that hold data, deletions, indices and transactions."""
        kind = _kind(info.path)
        user = self.kept.user_of(info.path)
        former = self.expired.user_of(info.path)
        if user is not None:
            return FileVerdict(info.path, info.size, kind, victim=False, reason=f"version {user} uses it")
        if kind == "other":
            return FileVerdict(
                info.path, info.size, kind, victim=False, reason="it is not a file of the format"
            )
        if former is not None:
            reason = f"only expired versions use it, version {former} the last"
            return FileVerdict(info.path, info.size, kind, victim=True, reason=reason)
        return self._unverified(info, kind)

    def manifests(self, infos: Sequence[ObjectInfo], verdicts: Sequence[VersionVerdict]) -> list[FileVerdict]:
        """Files of the folder of manifests."""
        by_path = {verdict.location.path: verdict for verdict in verdicts}
        files: list[FileVerdict] = []
        for info in infos:
            verdict = by_path.get(info.path)
            if verdict is not None:
                reason = f"version {verdict.version}: {verdict.reason}"
                files.append(
                    FileVerdict(info.path, info.size, "manifest", victim=verdict.expired, reason=reason)
                )
            elif is_temporary(info.path) or _STAGED_MANIFEST.search(info.path):
                files.append(self._unverified(info, "temporary"))
            else:
                reason = "it is no manifest, or one that appeared just now"
                files.append(FileVerdict(info.path, info.size, "other", victim=False, reason=reason))
        return files

    def _unverified(self, info: ObjectInfo, kind: str) -> FileVerdict:
        if self.delete_unverified:
            return FileVerdict(info.path, info.size, kind, victim=True, reason="no version uses it")
        if self.now - info.modified >= UNVERIFIED_GRACE:
            reason = f"no version uses it, and it is older than {_age_text(UNVERIFIED_GRACE)}"
            return FileVerdict(info.path, info.size, kind, victim=True, reason=reason)
        reason = f"no version uses it yet, and it is younger than {_age_text(UNVERIFIED_GRACE)}"
        return FileVerdict(info.path, info.size, kind, victim=False, reason=reason)


def _kind(path: str) -> str:
    folder, _, name = path.partition("/")
    if is_temporary(path):
        return "temporary"
    if folder == DATA and name.endswith(".lance"):
        return "data"
    if folder == DATA and data_file_of(path) is not None:
        return "blob"
    if folder == DELETIONS and name.endswith((".arrow", ".bin")):
        return "deletion"
    if folder == INDICES and "/" in name:
        return "index"
    if folder == TRANSACTIONS and name.endswith(".txn"):
        return "transaction"
    return "other"


def _age_text(age: timedelta) -> str:
    if age >= timedelta(days=1) and age % timedelta(days=1) == timedelta(0):
        return count_text(age.days, "day")
    seconds = age.total_seconds()
    return f"{seconds / 3600:g} h" if seconds >= 3600 else f"{seconds:g} s"
