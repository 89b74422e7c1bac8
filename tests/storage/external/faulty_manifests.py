"""An external manifest store that fails at one of its calls, or dies there together with the store."""

from collections.abc import Callable
from typing import Any

from lance_ops.errors import StorageError
from lance_ops.storage.external import ManifestEntry
from tests.support.faulty_store import FaultyStore, InjectedCrash


class FaultyManifests:
    """Wraps an external manifest store.

    Args:
        inner: It does the work.
        fail_at: Number of the changing call that fails, from 1.
        when: "before" the call is performed, or "after".
        mode: "crash" at this and all later calls; "error" once; "down" for all calls.
        bytes_: The store of the bytes, which is dead after a crash, too.
    """

    def __init__(
        self,
        inner: Any,
        fail_at: int | None = None,
        *,
        when: str = "before",
        mode: str = "crash",
        bytes_: FaultyStore | None = None,
    ) -> None:
        self.bytes = bytes_
        self.dead = False
        self.inner = inner
        self.fail_at = fail_at
        self.when = when
        self.mode = mode
        self.changes = 0
        self.calls: list[str] = []

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def server(self) -> Any:
        return self.inner.server

    def _change(self, name: str, call: Callable[[], Any]) -> Any:
        self.changes += 1
        hit = self.changes == self.fail_at
        if self.mode == "down" or (hit and self.when == "before"):
            self._fail()
        self._refuse_dead()
        self.calls.append(name)
        result = call()
        if hit:
            self._fail()
        return result

    def _refuse_dead(self) -> None:
        if self.dead or (self.bytes is not None and self.bytes.is_dead):
            raise InjectedCrash

    def _fail(self) -> None:
        if self.mode == "crash":
            self.dead = True
            if self.bytes is not None:
                self.bytes.kill()
            raise InjectedCrash
        raise StorageError("the database failed: injected", path=self.name)

    def _read(self, call: Callable[[], Any]) -> Any:
        if self.mode == "down":
            self._fail()
        self._refuse_dead()
        return call()

    def put_if_not_exists(self, base_uri: str, entry: ManifestEntry) -> None:
        self._change("put_if_not_exists", lambda: self.inner.put_if_not_exists(base_uri, entry))

    def put_if_exists(self, base_uri: str, entry: ManifestEntry) -> bool:
        return self._change("put_if_exists", lambda: self.inner.put_if_exists(base_uri, entry))

    def delete(self, base_uri: str, version: int, path: str) -> None:
        self._change("delete", lambda: self.inner.delete(base_uri, version, path))

    def get(self, base_uri: str, version: int) -> ManifestEntry | None:
        return self._read(lambda: self.inner.get(base_uri, version))

    def get_latest(self, base_uri: str) -> ManifestEntry | None:
        return self._read(lambda: self.inner.get_latest(base_uri))

    def entries(self, base_uri: str) -> Any:
        return self._read(lambda: self.inner.entries(base_uri))
