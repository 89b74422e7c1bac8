"""Migration of a dataset into an external manifest store and out of it, and repair of its rows.

Each step leaves a dataset that is read and written on one of the two ways, and refused on the other: into the
database it changes with the row of the newest version, out of it when that row, the last one, is deleted. An
interrupted run is finished by the next one. The manifests are always in the object store, so that lost rows
can be made again from a listing.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lance_ops.errors import (
    AlreadyExistsError,
    CorruptManifestError,
    InvalidArgumentError,
    UnsupportedError,
    public,
)
from lance_ops.maintenance.results import Result
from lance_ops.maintenance.target import Target, store_of
from lance_ops.maintenance.text import count_text
from lance_ops.storage import Store
from lance_ops.storage.external import ExternalStore, ManifestEntry, external_of
from lance_ops.storage.external.opening import open_manifests, with_manifests
from lance_ops.storage.external.protocol import Versions
from lance_ops.storage.options import MANIFEST_STORE, separate_manifest_store
from lance_ops.table.commit.head import check_no_staged
from lance_ops.table.history.refs import branch_directory, list_branches
from lance_ops.table.manifest.listing import (
    VERSIONS_DIRECTORY,
    ManifestLocation,
    is_detached,
    iter_manifests,
    newest_staged,
    staged_version,
)
from lance_ops.table.manifest.no_dataset import no_dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateStoreResult(Result):
    """Result of `migrate_store`.

    Attributes:
        manifest_store: The external manifest store, without secrets.
        direction: "into", "out" or "rebuild".
        rows: Rows that were put, changed or deleted, of all branches.
        dropped: Versions whose row was deleted because their manifest is lost, as "path: version".
    """

    manifest_store: str
    direction: str
    rows: int
    dropped: tuple[str, ...] = ()

    @property
    def operation(self) -> str:
        """Its name."""
        return "migrate_store"

    def summary(self) -> str:
        """See `Result.summary`."""
        if self.direction == "out":
            return f"{count_text(self.rows, 'row')} deleted from {self.manifest_store}"
        lost = f"; lost versions dropped: {', '.join(self.dropped)}" if self.dropped else ""
        return f"{count_text(self.rows, 'row')} written to {self.manifest_store}{lost}"

    def __str__(self) -> str:
        return f"{self.operation}: {self.summary()} ({self.seconds:.2f} s)"


@public(target="uri_or_dataset")
def migrate_store(
    uri_or_dataset: Target,
    *,
    into: str | None = None,
    out: bool = False,
    rebuild: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> MigrateStoreResult:
    """Move a dataset with its branches into an external manifest store or out of it, or rebuild its rows.

    Stop all writers first: commits of those that go on without the external manifest store are detected and
    refused, and have to be repaired by hand. May be interrupted, and run again.

    Args:
        uri_or_dataset: The dataset; with its external manifest store for `out` and `rebuild`, without one for
            `into`.
        into: Address of the external manifest store, as in the storage option `manifest_store`.
        out: Delete its rows: afterwards the dataset is opened without the external manifest store.
        rebuild: Make the rows again from the manifests in the object store, after a loss of the database. A
            single manifest that is staged for the next version is committed, because the lost rows may have
            accepted it. Rows of versions whose manifest is lost are deleted.
        storage_options: Options of the store, and those of the external manifest store.

    Raises:
        DatasetNotFoundError: There is no manifest.
        InvalidArgumentError: Not exactly one of `into`, `out` and `rebuild`; or the dataset is already there.
        UnsupportedError: Several different manifests are staged for the next version; or the database does
            not decide races.
        StorageError: The store or the database failed. Run it again.

    Examples:
        >>> lo.migrate_store("events.lance", into="memory://doctest").rows
        1
    """
    started = time.monotonic()
    if (into is not None) + out + rebuild != 1:
        raise InvalidArgumentError(
            "exactly one of into, out and rebuild is needed", field="into", hint="into='sqlite:////...'"
        )
    if into is not None:
        # The options of DynamoDB are for the new rows: the dataset itself is opened without them.
        plain = store_of(uri_or_dataset, separate_manifest_store(storage_options)[1])
        store = _target(plain, into, storage_options)
    else:
        opened = external_of(store_of(uri_or_dataset, storage_options))
        if opened is None:
            raise InvalidArgumentError(
                "the dataset is opened without an external manifest store",
                path=store_of(uri_or_dataset, storage_options).uri,
                field=MANIFEST_STORE,
                hint="name it in the storage option manifest_store, or in an s3+ddb:// URI",
            )
        store = opened
    # Rows of branches change first: while those of the dataset itself are missing, it is refused.
    folders = [branch_directory(name) for name in list_branches(store.inner)]
    lines = [store.versions(folder) for folder in (*filter(None, folders), "")]
    if _newest(lines[-1].store) is None and not out:
        raise no_dataset(store)
    dropped: list[str] = []
    if into is not None:
        store.require_create_only()
        rows = sum(_move_in(line) for line in lines)
    elif out:
        rows = sum(_move_out(line) for line in lines)
    else:
        store.require_create_only()
        rows = sum(_rebuild(line, dropped) for line in lines)
    newest = _newest(lines[-1].store)
    return MigrateStoreResult(
        uri=store.uri,
        version=0 if newest is None else newest.version,
        seconds=time.monotonic() - started,
        manifest_store=store.manifests.name,
        direction="into" if into is not None else "out" if out else "rebuild",
        rows=rows,
        dropped=tuple(dropped),
    )


def _target(plain: Store, into: str, options: Mapping[str, str] | None) -> ExternalStore:
    if external_of(plain) is not None:
        raise InvalidArgumentError(
            "the dataset is in an external manifest store already",
            path=plain.uri,
            field="into",
            hint="move it out first: migrate_store(..., out=True)",
        )
    return with_manifests(plain, open_manifests(into, options))


def _move_in(line: Versions) -> int:
    """Put the row of the newest version; return how many rows were put."""
    newest = _newest(line.store)
    if newest is None:
        return 0
    check_no_staged(newest_staged(_names(line.store), newest.version), newest.version, line.store.uri)
    known = line.newest()
    if known is not None and known.version != newest.version:
        raise InvalidArgumentError(
            f"{line.manifests.name} has rows of this dataset up to version {known.version}, expected the "
            f"newest version {newest.version}",
            path=line.store.uri,
            field="into",
            hint="if they are left of this dataset, rebuild them: open it with the external manifest store",
        )
    return _put(line, newest)


def _move_out(line: Versions) -> int:
    """Finish the newest version and delete all rows, that of the newest version last."""
    deleted = 0
    while line.newest() is not None:
        for entry in reversed(list(line.manifests.entries(line.base))):
            line.manifests.delete(line.base, entry.version, entry.path)
            deleted += 1
    # No row refers to them, so they were never committed.
    newest = _newest(line.store)
    if newest is not None:
        for path in _staged(line.store, above=newest.version):
            line.store.delete(path)
    return deleted


def _rebuild(line: Versions, dropped: list[str]) -> int:
    """Make the row of the newest version again; return how many rows changed."""
    changed = _finish_or_drop(line, dropped)
    newest = _newest(line.store)
    if newest is None:
        return changed
    candidates = _candidates(line, newest.version + 1)
    if candidates:
        path, data = candidates[0]
        entry = line.entry_of(newest.version + 1, path, len(data))
        if line.manifests.get(line.base, entry.version) is None:
            line.manifests.put_if_not_exists(line.base, entry)
        if line.find(entry.version) is not None:
            return changed + 1
    return changed + _put(line, newest)


def _finish_or_drop(line: Versions, dropped: list[str]) -> int:
    """Finish versions above the newest manifest, and delete rows whose manifest is lost, newest first."""
    changed = 0
    for entry in list(line.manifests.entries(line.base)):
        newest = _newest(line.store)
        if newest is not None and entry.version <= newest.version:
            break
        try:
            final = line.finish(entry)
            is_lost = final is not None and not line.store.exists(line.relative(final))
        except CorruptManifestError:
            is_lost = True
        if is_lost:
            line.manifests.delete(line.base, entry.version, entry.path)
            dropped.append(f"{line.base}: {entry.version}")
            changed += 1
    return changed


def _candidates(line: Versions, version: int) -> list[tuple[str, bytes]]:
    """Return the manifests that may have been committed as the next version: one, or several that are equal.

    Raises:
        UnsupportedError: They differ, or a later version is staged.
    """
    paths = list(_staged(line.store, above=version - 1))
    found = [(path, bytes(line.store.read(path))) for path in paths]
    if len({data for _, data in found}) > 1 or any(_version_of(path) != version for path in paths):
        raise UnsupportedError(
            f"several manifests are staged above version {version - 1}, and without the lost rows it is "
            "unknown which of them was committed",
            path=f"{line.store.uri}/{paths[0]}",
            hint=f"remove all but the one of version {version} whose commit succeeded: {', '.join(paths)}",
        )
    return found


def _put(line: Versions, newest: ManifestLocation) -> int:
    """Make sure that the newest version has a row with its final path."""
    entry = line.entry_of(newest.version, newest.path, line.store.size(newest.path))
    try:
        line.manifests.put_if_not_exists(line.base, entry)
    except AlreadyExistsError:
        if _is_same(line.manifests.get(line.base, entry.version), entry):
            return 0
        line.manifests.put_if_exists(line.base, entry)
    return 1


def _is_same(found: ManifestEntry | None, entry: ManifestEntry) -> bool:
    return found is not None and found.path == entry.path and found.size in (None, entry.size)


def _newest(store: Store) -> ManifestLocation | None:
    """Return the newest version that has its final name; a single listing may miss it."""
    found = [item for _ in range(2) for item in iter_manifests(store) if not is_detached(item.version)]
    return max(found, key=lambda item: item.version, default=None)


def _names(store: Store) -> list[str]:
    return [info.path for _ in range(2) for info in store.list(VERSIONS_DIRECTORY)]


def _version_of(path: str) -> int | None:
    return staged_version(path.rpartition("/")[2])


def _staged(store: Store, above: int) -> Iterator[str]:
    """Yield staged manifests of later versions."""
    yield from sorted({path for path in _names(store) if (_version_of(path) or 0) > above})
