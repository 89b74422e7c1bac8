"""Undo of a cleanup: versions in the trash whose files are all there get their manifests back."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal, overload

from lance_ops.errors import LanceOpsError, NotFoundError, check_type, public
from lance_ops.maintenance.cleanup.trash import (
    TRASH_DIRECTORY,
    TrashedVersion,
    gone_versions,
    trashed_among,
)
from lance_ops.maintenance.engine import Run
from lance_ops.maintenance.fsck.files import check_files
from lance_ops.maintenance.progress import Progress
from lance_ops.maintenance.results import OperationResult
from lance_ops.maintenance.target import Target, store_of
from lance_ops.maintenance.text import count_text, ids_text, table_text
from lance_ops.storage import Store
from lance_ops.storage.retry import persistently
from lance_ops.table.dataset import Dataset
from lance_ops.table.history.pins import pinned_unnamed
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.listing import latest, list_versions


@dataclass(frozen=True, slots=True)
class TrashVerdict:
    """A version in the trash, and whether it can be brought back.

    Attributes:
        version: Version number.
        until: Time until which its files stay, by the clock of the store.
        reason: Why it cannot be brought back; empty if it can.
    """

    version: int
    until: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """Versions that `undo_cleanup` would bring back; prints as text.

    Attributes:
        uri: The dataset.
        version: The newest version.
        versions: Every version in the trash, oldest first.
    """

    uri: str
    version: int
    versions: tuple[TrashVerdict, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "operation": "undo_cleanup",
            "dry_run": True,
            "uri": self.uri,
            "read_version": self.version,
            "versions": [
                {"version": item.version, "until": item.until.isoformat(), "reason": item.reason}
                for item in self.versions
            ],
        }

    def __str__(self) -> str:
        back = [item for item in self.versions if not item.reason]
        head = (
            f"undo the cleanup of {self.uri} at version {self.version}: "
            f"{count_text(len(back), 'version')} of {len(self.versions):,} in the trash can be brought back"
        )
        rows = [
            (str(item.version), f"{item.until:%Y-%m-%d %H:%M:%S}", item.reason or "comes back")
            for item in self.versions
        ]
        return "\n".join([head, table_text(("version", "until (UTC)", ""), rows)] if rows else [head])


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResult(OperationResult):
    """Result of `undo_cleanup`, which makes no version: `version` is the newest one.

    Attributes:
        versions_back: Versions that were brought back, oldest first.
        versions_left: Versions that stay in the trash.
        reasons: Why they do, a line each.
    """

    operation: ClassVar[str] = "undo_cleanup"

    versions_back: tuple[int, ...] = ()
    versions_left: tuple[int, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """True if a version was brought back."""
        return bool(self.versions_back)

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        left = f"; {count_text(len(self.versions_left), 'version')} left" if self.versions_left else ""
        if not self.versions_back:
            return f"no version was brought back{left}"
        return f"brought back versions {ids_text(self.versions_back)}{left}"

    def remarks(self) -> tuple[str, ...]:
        """See `OperationResult.remarks`."""
        return self.reasons


@overload
def undo_cleanup(
    uri_or_dataset: Target,
    versions: Collection[int] | None = None,
    *,
    dry_run: Literal[False] = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> UndoResult: ...
@overload
def undo_cleanup(
    uri_or_dataset: Target,
    versions: Collection[int] | None = None,
    *,
    dry_run: Literal[True],
    progress: Progress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> UndoPlan: ...
@overload
def undo_cleanup(
    uri_or_dataset: Target,
    versions: Collection[int] | None = None,
    *,
    dry_run: bool,
    progress: Progress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> UndoResult | UndoPlan: ...
@public(target="uri_or_dataset")
def undo_cleanup(
    uri_or_dataset: Target,
    versions: Collection[int] | None = None,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> UndoResult | UndoPlan:
    """Bring back versions that a cleanup with a grace period moved to the trash.

    A version comes back with its number, its rows and its job keys if all of its files are there. Those that
    lost files, to a cleanup of the official library for example, are named and stay in the trash. A version
    that was brought back is old: the next cleanup with the same rules removes it again, so tag it first.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        versions: Numbers of the versions; all in the trash when None.
        dry_run: Return the plan and change nothing.
        progress: Receives progress events.
        storage_options: Options of the store.

    Raises:
        DatasetNotFoundError: There is no dataset.
        StorageError: The store fails; versions brought back before that stay.

    Examples:
        >>> lo.undo_cleanup("events.lance").summary()
        'no version was brought back'
    """
    if versions is not None:
        check_type(versions, Collection, "a list of version numbers", field="versions")
    store = store_of(uri_or_dataset, storage_options)
    call = Run.on("undo_cleanup", store, None, {"progress": progress, "storage_options": storage_options})
    newest = persistently(lambda: latest(store)).version
    found = _in_trash(store, newest, versions)
    call.report("checking files", 0, len(found))
    if dry_run:
        verdicts = tuple(
            TrashVerdict(item.version, item.until, _why_not(store, item, storage_options)) for item in found
        )
        return UndoPlan(store.uri, newest, (*verdicts, *_unknown(found, versions)))
    back: list[int] = []
    left: dict[int, str] = {item.version: item.reason for item in _unknown(found, versions)}
    with pinned_unnamed(store, [item.version for item in found], "undo of a cleanup") as free:
        for number, item in enumerate(found, 1):
            reason = (
                _why_not(store, item, storage_options)
                if item.version in free
                else "a cleanup is removing it; if that was killed, run the cleanup again"
            )
            if reason:
                left[item.version] = reason
            else:
                # Its files are there, so that it is whole at once; a copy in the trash does no harm.
                store.copy(item.location.path, item.original)
                back.append(item.version)
            call.report("bringing back versions", number, len(found))
        store.delete_many([item.location.path for item in found if item.version in back])
    return UndoResult(
        **call.common(newest, read_version=newest),
        versions_back=tuple(back),
        versions_left=tuple(left),
        reasons=tuple(f"version {version}: {reason}" for version, reason in left.items()),
    )


def _in_trash(store: Store, newest: int, versions: Collection[int] | None) -> Sequence[TrashedVersion]:
    """Return the versions in the trash that are asked for, oldest first."""
    infos = persistently(lambda: list(store.list(TRASH_DIRECTORY)))
    present = {location.version for location in persistently(lambda: list_versions(store))}
    gone = gone_versions(trashed_among(infos), present, newest)
    return [item for item in reversed(gone) if versions is None or item.version in versions]


def _unknown(found: Iterable[TrashedVersion], versions: Collection[int] | None) -> list[TrashVerdict]:
    known = {item.version for item in found}
    never = datetime.fromtimestamp(0).astimezone()
    return [
        TrashVerdict(version, never, "it is not in the trash")
        for version in sorted(set(versions or ()) - known)
    ]


def _why_not(store: Store, item: TrashedVersion, storage_options: Mapping[str, str] | None) -> str:
    """Return why a version cannot be brought back; empty if it can."""
    try:
        manifest = persistently(lambda: read_manifest(store, item.location))
        dataset = Dataset(store, item.location, manifest, storage_options=storage_options)
        missing = [finding.message for finding in check_files(dataset)]
    except NotFoundError:
        return "it is no longer in the trash"
    except LanceOpsError as error:
        return f"it cannot be read: {error.message}"
    if not missing:
        return ""
    more = f" (and {len(missing) - 1:,} more)" if len(missing) > 1 else ""
    return f"{missing[0]}{more}"
