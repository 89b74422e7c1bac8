"""External manifest store in the memory of this process: for tests and simulations."""

from collections.abc import Hashable, Iterator

from lance_ops.errors import AlreadyExistsError
from lance_ops.storage.external.manifest_store import ManifestEntry
from lance_ops.storage.fork_safe import new_lock

# Shared by all of one name, like the objects of memory:// URIs.
_ROWS: dict[str, dict[tuple[str, int], ManifestEntry]] = {}
_LOCK = new_lock()


class MemoryManifestStore:
    """Rows in memory; an unpickled copy in another process starts empty.

    Args:
        name: Stores of one name share their rows.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._rows = _ROWS.setdefault(name, {})

    def __reduce__(self) -> tuple[object, ...]:
        return (MemoryManifestStore, (self._name,))

    @property
    def name(self) -> str:
        """See `ExternalManifestStore.name`."""
        return f"memory://{self._name}"

    @property
    def server(self) -> Hashable:
        """See `ExternalManifestStore.server`."""
        return ("memory", self._name)

    def put_if_not_exists(self, base_uri: str, entry: ManifestEntry) -> None:
        """See `ExternalManifestStore.put_if_not_exists`."""
        with _LOCK:
            if (base_uri, entry.version) in self._rows:
                raise AlreadyExistsError(f"version {entry.version} has a row", path=self.name)
            self._rows[base_uri, entry.version] = entry

    def put_if_exists(self, base_uri: str, entry: ManifestEntry) -> bool:
        """See `ExternalManifestStore.put_if_exists`."""
        with _LOCK:
            if (base_uri, entry.version) not in self._rows:
                return False
            self._rows[base_uri, entry.version] = entry
            return True

    def get(self, base_uri: str, version: int) -> ManifestEntry | None:
        """See `ExternalManifestStore.get`."""
        return self._rows.get((base_uri, version))

    def get_latest(self, base_uri: str) -> ManifestEntry | None:
        """See `ExternalManifestStore.get_latest`."""
        return next(self.entries(base_uri), None)

    def entries(self, base_uri: str) -> Iterator[ManifestEntry]:
        """See `ExternalManifestStore.entries`."""
        with _LOCK:
            found = [entry for (base, _), entry in self._rows.items() if base == base_uri]
        yield from sorted(found, key=lambda entry: -entry.version)

    def delete(self, base_uri: str, version: int, path: str) -> None:
        """See `ExternalManifestStore.delete`."""
        with _LOCK:
            entry = self._rows.get((base_uri, version))
            if entry is not None and (entry.path == path or entry.path.startswith(f"{path}-")):
                del self._rows[base_uri, version]
