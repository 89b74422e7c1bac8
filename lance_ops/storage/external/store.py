"""Store of a dataset whose versions an external manifest store decides.

All bytes are in another store. Manifests pass through the protocol: one that is put is committed by the four
steps of a writer, a listing of versions first finishes the newest one, and a deletion first removes the rows.
So everything that works on a store works with an external manifest store.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from lance_ops.errors import FileMissingError, InconsistentStoreError
from lance_ops.storage.conditional_put import decided_elsewhere
from lance_ops.storage.external.manifest_store import ExternalManifestStore, ManifestEntry
from lance_ops.storage.external.protocol import ManifestPath, Versions, manifest_at
from lance_ops.storage.manifest_names import (
    VERSIONS_DIRECTORY,
    NamingScheme,
    is_detached,
    parse_manifest_name,
    staged_version,
)
from lance_ops.storage.store import BytesLike, Durability, ObjectInfo, Store, StoreWriter

_T = TypeVar("_T")
_Names: TypeAlias = list[str]


class ExternalStore:
    """A store, and an external manifest store that decides its versions.

    Args:
        inner: The bytes.
        manifests: The external manifest store.
        base: `base_uri` of the root in it.
        uri: Of the root, where it is not that of `inner`.
    """

    def __init__(
        self, inner: Store, manifests: ExternalManifestStore, base: str, uri: str | None = None
    ) -> None:
        self.inner = inner
        self.manifests = manifests
        self.base = base
        self._uri = uri

    def __repr__(self) -> str:
        return f"ExternalStore({self.inner!r}, {self.manifests.name})"

    def __reduce__(self) -> tuple[object, ...]:
        return (ExternalStore, (self.inner, self.manifests, self.base, self._uri))

    def __getattr__(self, name: str) -> Any:
        # What only some stores have: mapped files, names in a folder, links.
        if name.startswith("_") or name in ("inner", "server"):
            raise AttributeError(name)
        found = getattr(self.inner, name)
        return {"list_names": self._list_names, "info": self._info}.get(name, found)

    @property
    def uri(self) -> str:
        """See `Store.uri`."""
        return self._uri or self.inner.uri

    @property
    def supports_put_if_absent(self) -> bool:
        """See `Store.supports_put_if_absent`; manifests do not need it."""
        return self.inner.supports_put_if_absent

    def child(self, relative: str) -> Store:
        """See `Store.child`."""
        inner = self.inner.child(relative)
        uri = None if self._uri is None else self._uri + inner.uri.removeprefix(self.inner.uri)
        return ExternalStore(inner, self.manifests, _join(self.base, relative), uri)

    def require_create_only(self) -> None:
        """See `DecidedElsewhere.require_create_only`."""
        # Before the first commit only.
        from lance_ops.storage.external.probe import require_create_only

        require_create_only(self.manifests, self.base)

    def versions(self, lead: str = "") -> Versions:
        """Return the versions of the dataset, or of a branch of it.

        Args:
            lead: Folder of the branch.
        """
        inner = self.inner.child(lead) if lead else self.inner
        return Versions(inner, self.manifests, _join(self.base, lead))

    # Reading

    def _finish(self, path: str) -> bool:
        """Finish the commit of a version whose final manifest is missing; return whether it exists now."""
        at = manifest_at(path)
        if at is None:
            return False
        found = self.versions(at.lead).find(at.version)
        return found is not None and found.path == _join(self.base, path) and self.inner.exists(path)

    def _found(self, path: str, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except FileMissingError:
            if not self._finish(path):
                raise
            return call()

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        """See `Store.read`."""
        return self._found(path, lambda: self.inner.read(path, offset, length))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        """See `Store.read_ranges`."""
        return self._found(path, lambda: self.inner.read_ranges(path, ranges))

    def read_tail(self, path: str, length: int) -> tuple[pa.Buffer, int]:
        """See `Store.read_tail`."""
        return self._found(path, lambda: self.inner.read_tail(path, length))

    def size(self, path: str) -> int:
        """See `Store.size`."""
        return self._found(path, lambda: self.inner.size(path))

    def exists(self, path: str) -> bool:
        """See `Store.exists`."""
        return self.inner.exists(path) or self._finish(path)

    def _info(self, path: str) -> ObjectInfo | None:
        info: Callable[[str], ObjectInfo | None] = self.inner.info  # type: ignore[attr-defined]
        found = info(path)
        return info(path) if found is None and self._finish(path) else found

    # Listing

    def list_dirs(self, prefix: str) -> list[str]:
        """See `Store.list_dirs`."""
        return self.inner.list_dirs(prefix)

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """See `Store.list`; of the folder of versions, the newest one is checked and finished first."""
        lead, mark, rest = f"{prefix.rstrip('/')}/".rpartition(f"{VERSIONS_DIRECTORY}/")
        if mark and not rest and (not lead or lead.endswith("/")):
            return self._list_versions(lead.rstrip("/"), prefix, start_after)
        if not prefix.strip("/"):
            self.versions().newest()
        return self.inner.list(prefix, start_after=start_after)

    def _list_versions(self, lead: str, prefix: str, start_after: str | None) -> Iterator[ObjectInfo]:
        newest = self.versions(lead).newest()
        cut = len(_join(lead, VERSIONS_DIRECTORY)) + 1
        highest = 0
        checked = start_after is not None
        for info in self.inner.list(prefix, start_after=start_after):
            name = info.path[cut:]
            parsed = parse_manifest_name(name)
            if parsed is None:
                if not _is_underway(name, newest):
                    yield info
                continue
            version, scheme = parsed
            highest = highest if is_detached(version) else max(highest, version)
            if scheme is NamingScheme.V2 and not checked:
                # The first one is the newest: readers need not list the others.
                self._check(lead, newest, highest)
                checked = True
            yield info
        if not checked:
            self._check(lead, newest, highest)

    def _list_names(self, folder: str) -> _Names:
        lead, mark, rest = f"{folder.rstrip('/')}/".rpartition(f"{VERSIONS_DIRECTORY}/")
        list_names: Callable[[str], _Names] = self.inner.list_names  # type: ignore[attr-defined]
        if not mark or rest or (lead and not lead.endswith("/")):
            return list_names(folder)
        lead = lead.rstrip("/")
        newest = self.versions(lead).newest()
        names = [name for name in list_names(folder) if not _is_underway(name, newest)]
        found = (parse_manifest_name(name) for name in names)
        known = (one[0] for one in found if one is not None and not is_detached(one[0]))
        self._check(lead, newest, max(known, default=0))
        return names

    def _check(self, lead: str, newest: ManifestEntry | None, listed: int) -> None:
        """Check that both stores know the same newest version.

        Args:
            lead: Folder of the branch.
            newest: The newest row, read before the listing.
            listed: The highest listed version; 0 without one.

        Raises:
            InconsistentStoreError: They do not.
        """
        known = 0 if newest is None else newest.version
        if listed == known or (listed > known and self.versions(lead).find(listed) is not None):
            return
        if listed < known:
            if newest is not None and self.versions(lead).newest() != newest:
                # Removed as a whole, or restored, while it was listed.
                raise self._differ(lead, "changed while it was read", "try again")
            raise self._differ(
                lead,
                f"has version {known} as the newest one, and the object store lists "
                + (f"version {listed}" if listed else "none"),
                "restore the missing manifests; or make the newest version that exists the newest one: "
                "lance-ops migrate-store --rebuild",
            )
        raise self._differ(
            lead,
            (f"has version {known} as the newest one" if known else "has no version of this dataset")
            + f", and the object store has version {listed}: rows were lost, it is another database, or a "
            "writer does not use it",
            "if this is the right database and all writers use it, rebuild its rows from the object store: "
            "lance-ops migrate-store --rebuild; to move a dataset into it: lance-ops migrate-store --into",
        )

    def _differ(self, lead: str, what: str, hint: str) -> InconsistentStoreError:
        where = f"{self.uri}/{lead}" if lead else self.uri
        return InconsistentStoreError(
            f"the external manifest store {self.manifests.name} {what}", path=where, hint=hint
        )

    # Writing

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, durable: Durability = "now"
    ) -> None:
        """See `Store.put`; a manifest is never replaced."""
        at = manifest_at(path)
        if at is None:
            self.inner.put(path, data, if_absent=if_absent and self._is_decided(path), durable=durable)
        else:
            self._commit(at, data)

    def _is_decided(self, path: str) -> bool:
        """Return whether the store has to decide about an object; names of detached manifests are unique."""
        folder, _, name = path.rpartition("/")
        detached = folder.endswith(VERSIONS_DIRECTORY) and parse_manifest_name(name) is not None
        return self.supports_put_if_absent or not detached

    def _commit(self, at: ManifestPath, data: BytesLike) -> None:
        path = at.path[len(at.lead) + 1 :] if at.lead else at.path
        self.versions(at.lead).commit(at.version, path, data)

    def copy(self, src: str, dst: str, *, if_absent: bool = False) -> None:
        """See `Store.copy`; a manifest is never replaced."""
        at = manifest_at(dst)
        if at is None:
            self.inner.copy(src, dst, if_absent=if_absent)
        else:
            self._commit(at, self.read(src))

    def open_writer(self, path: str, *, if_absent: bool = False, durable: Durability = "now") -> StoreWriter:
        """See `Store.open_writer`; for anything but manifests."""
        return self.inner.open_writer(path, if_absent=if_absent, durable=durable)

    def delete(self, path: str) -> None:
        """See `Store.delete`; of a manifest the row goes first."""
        self.delete_many([path])

    def delete_many(self, paths: Iterable[str]) -> None:
        """See `Store.delete_many`.

        Rows go before their manifests: after a crash between the two the manifest is still listed, and the
        next cleanup deletes it.
        """
        every = list(paths)
        staged = []
        for path in every:
            at = manifest_at(path)
            if at is not None:
                staged += self._forget(at)
        self.inner.delete_many([*staged, *every])

    def _forget(self, at: ManifestPath) -> _Names:
        """Delete the row of a version; return the path of its manifest if that is still staged."""
        versions = self.versions(at.lead)
        path = at.path[len(at.lead) + 1 :] if at.lead else at.path
        entry = versions.manifests.get(versions.base, at.version)
        versions.forget(at.version, path)
        if entry is None or not entry.path.startswith(f"{_join(versions.base, path)}-"):
            return []
        return [_join(at.lead, versions.relative(entry))]


def _is_underway(name: str, newest: ManifestEntry | None) -> bool:
    """Return whether a file is the manifest of a commit that has not been decided: it is no version yet."""
    version = staged_version(name)
    return version is not None and version > (0 if newest is None else newest.version)


def _join(base: str, relative: str) -> str:
    return f"{base}/{relative}" if base and relative else base or relative


def external_of(store: Store) -> ExternalStore | None:
    """Return the store with an external manifest store that a store is, or is around; None without one."""
    found = decided_elsewhere(store)
    return found if isinstance(found, ExternalStore) else None
