"""A store that fails on purpose, for crash tests of everything that writes.

Typical use: run the operation with `fail_at=1, 2, 3, ...` until it gets through without firing, and after
each run open the dataset with the inner store and check that it is the state before or the state after.
"""

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Literal, NamedTuple, Self, TypeVar

import pyarrow as pa

from lance_ops.errors import StorageError, StorageFullError
from lance_ops.storage import BytesLike, Durability, ObjectInfo, Store, StoreWriter
from lance_ops.storage.range_copy import copy_by_reading

T = TypeVar("T")

MUTATING = frozenset({"put", "open_writer", "write", "close", "delete", "copy"})
READING = frozenset({"read", "read_ranges", "read_tail", "size", "exists", "list", "list_dirs"})


When = Literal["before", "after"]


def crash_moments(numbers: Iterable[int]) -> Iterator[tuple[int, When]]:
    """Return the moments at which a crash leaves different files: before each change, and after the last one.

    What is left after a change is what is left before the next one, whatever is read in between.

    Args:
        numbers: Of the calls that change the store, without gaps.
    """
    number = None
    for number in numbers:
        yield number, "before"
    if number is not None:
        yield number, "after"


def error_moments(calls: Sequence["Call"], numbers: Iterable[int]) -> Iterator[tuple[int, When]]:
    """Return the moments at which an error means different things: before each call, and after a change.

    A read whose answer is lost is a read that failed.

    Args:
        calls: All of them.
        numbers: Of those that fail, from 1.
    """
    for number in numbers:
        yield number, "before"
        if calls[number - 1].name in MUTATING:
            yield number, "after"


class InjectedCrash(Exception):  # noqa: N818 - it stands for a dead process, not for an error to handle
    """The process is dead from here on; not a LanceOpsError, so that nothing may handle it."""


class Call(NamedTuple):
    """One call: its method ("write" and "close" are the writer's) and its path below the outermost root."""

    name: str
    path: str


class FaultyStore:
    """Wraps any store, logs its calls, and fails at one of them.

    Args:
        inner: The store that does the work.
        fail_at: The number (from 1) of the call that fails, or a predicate on the call.
        when: "before": the call is not performed. "after": it is performed, but the response is lost.
        mode: "crash": raise `InjectedCrash` at this and every later call of this store, its children and
            writers, and leave the temporary file of an open local writer behind, as a dead process does.
            "error": raise `StorageError`, `times` times, and work on.
        count: Which calls `fail_at` counts: "mutating" or "any".
        times: How often mode "error" fires: with a number the calls `fail_at`, `fail_at` + 1, ...; with a
            predicate the first so many for which it holds.
        full_disk_after_bytes: Writes beyond this many bytes in total raise `StorageFullError`.
        conditional_put: False makes the store one without put-if-absent.
    """

    def __init__(
        self,
        inner: Store,
        fail_at: int | Callable[[Call], bool] | None = None,
        *,
        when: When = "before",
        mode: Literal["crash", "error"] = "crash",
        count: Literal["mutating", "any"] = "mutating",
        times: int = 1,
        full_disk_after_bytes: int | None = None,
        conditional_put: bool = True,
    ) -> None:
        self._inner = inner
        self._base = ""
        self._faults = _Faults(fail_at, when, mode, count, times, full_disk_after_bytes)
        self._conditional_put = conditional_put

    def __repr__(self) -> str:
        return f"FaultyStore({self._inner!r})"

    @property
    def inner(self) -> Store:
        """The store that does the work; it survives the crash."""
        return self._inner

    @property
    def calls(self) -> list[Call]:
        """All calls so far, the failed one included, those of a dead process not."""
        return list(self._faults.calls)

    @property
    def counted(self) -> int:
        """How many calls `fail_at` counted so far."""
        return self._faults.counted

    @property
    def fired(self) -> bool:
        """Whether a fault was injected."""
        return self._faults.fired > 0

    @property
    def sizes(self) -> list[int]:
        """Bytes of each write so far, those of a store with `full_disk_after_bytes`."""
        return list(self._faults.sizes)

    def reset(self) -> None:
        """Forget the log and the counters, and come back to life; the fault stays armed."""
        self._faults.reset()

    @property
    def is_dead(self) -> bool:
        """Whether the process has crashed."""
        return self._faults.dead

    def kill(self) -> None:
        """Crash at every call from now on."""
        self._faults.dead = True

    def disarm(self) -> None:
        """Come back to life and inject no more."""
        self._faults.fail_at = None
        self._faults.budget = None
        self._faults.dead = False

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def supports_put_if_absent(self) -> bool:
        return self._conditional_put and self._inner.supports_put_if_absent

    def child(self, relative: str) -> Store:
        child = FaultyStore(self._inner.child(relative), conditional_put=self._conditional_put)
        child._base = f"{self._base}{relative}/"
        child._faults = self._faults
        return child

    def _call(self, name: str, path: str, perform: Callable[[], T]) -> T:
        return self._faults.run(Call(name, self._base + path), perform)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> pa.Buffer:
        return self._call("read", path, lambda: self._inner.read(path, offset, length))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer]:
        return self._call("read_ranges", path, lambda: self._inner.read_ranges(path, ranges))

    def read_tail(self, path: str, length: int) -> tuple[pa.Buffer, int]:
        return self._call("read_tail", path, lambda: self._inner.read_tail(path, length))

    def size(self, path: str) -> int:
        return self._call("size", path, lambda: self._inner.size(path))

    def exists(self, path: str) -> bool:
        return self._call("exists", path, lambda: self._inner.exists(path))

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, durable: Durability = "now"
    ) -> None:
        def perform() -> None:
            self._refuse_condition(if_absent)
            self._faults.spend(memoryview(data).nbytes, path)
            self._inner.put(path, data, if_absent=if_absent, durable=durable)

        self._call("put", path, perform)

    def open_writer(self, path: str, *, if_absent: bool = False, durable: Durability = "now") -> StoreWriter:
        opened: list[_FaultyWriter] = []
        try:
            self._call(
                "open_writer",
                path,
                lambda: opened.append(
                    _FaultyWriter(
                        self, path, self._inner.open_writer(path, if_absent=if_absent, durable=durable)
                    )
                ),
            )
        except BaseException:
            for writer in opened:
                writer.abort()
            raise
        return opened[0]

    def copy(self, src: str, dst: str, *, if_absent: bool = False) -> None:
        def perform() -> None:
            self._refuse_condition(if_absent)
            if self._faults.budget is not None:
                self._faults.spend(self._inner.size(src), dst)
            self._inner.copy(src, dst, if_absent=if_absent)

        self._call("copy", dst, perform)

    def _refuse_condition(self, if_absent: bool) -> None:
        if if_absent and not self._conditional_put:
            raise AssertionError("put-if-absent on a store that does not support it")

    def list_dirs(self, prefix: str) -> list[str]:
        return self._call("list_dirs", prefix, lambda: self._inner.list_dirs(prefix))

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        return self._call("list", prefix, lambda: self._inner.list(prefix, start_after=start_after))

    def delete(self, path: str) -> None:
        self._call("delete", path, lambda: self._inner.delete(path))

    def delete_many(self, paths: Iterable[str]) -> None:
        """One "delete" call a path, so that a crash can hit between any two."""
        for path in paths:
            self.delete(path)


class _FaultyWriter:
    def __init__(self, store: FaultyStore, path: str, inner: StoreWriter) -> None:
        self._store = store
        self._path = path
        self._inner = inner
        self._open = True
        store._faults.writers.append(self)

    def write(self, data: BytesLike) -> None:
        def perform() -> None:
            self._store._faults.spend(memoryview(data).nbytes, self._path)
            self._inner.write(data)

        self._store._call("write", self._path, perform)

    def copy_from(self, source: Store, path: str, ranges: Sequence[tuple[int, int]]) -> None:
        copy_by_reading(self, source, path, ranges)

    def tell(self) -> int:
        return self._inner.tell()

    def close(self) -> None:
        if not self._open:
            return

        def perform() -> None:
            self._inner.close()
            self._finish()

        try:
            self._store._call("close", self._path, perform)
        finally:
            # A close that failed leaves nothing, as the stores promise.
            self._finish()

    def abort(self) -> None:
        # What a dead process left is settled by `die`; in a living one, aborting is no call that can fail.
        if self._open:
            self._finish()

    def _finish(self) -> None:
        if self._open:
            self._open = False
            self._store._faults.writers.remove(self)
            self._inner.abort()

    def die(self) -> None:
        """Stop as a killed process does: a local temporary file stays, an object store forgets the upload."""
        size = self._inner.tell()
        self._finish()
        if "://" not in self._store.uri:
            folder = self._path.rpartition("/")[0]
            name = f".tmp_{uuid.uuid4().hex}"
            self._store._inner.put(f"{folder}/{name}" if folder else name, bytes(min(size, 4096)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class _Faults:
    """What a store and its children share."""

    def __init__(
        self,
        fail_at: int | Callable[[Call], bool] | None,
        when: str,
        mode: str,
        count: str,
        times: int,
        budget: int | None,
    ) -> None:
        self.fail_at = fail_at
        self.after = when == "after"
        self.crash = mode == "crash"
        self.names = MUTATING if count == "mutating" else MUTATING | READING
        self.times = times
        self.budget = budget
        self.sizes: list[int] = []
        self.full = budget
        self.lock = threading.Lock()
        self.writers: list[_FaultyWriter] = []
        self.reset()

    def reset(self) -> None:
        self.calls: list[Call] = []
        self.counted = 0
        self.fired = 0
        self.dead = False
        self.budget = self.full

    def run(self, call: Call, perform: Callable[[], T]) -> T:
        with self.lock:
            if self.dead:
                raise InjectedCrash(f"{call.name} {call.path} after the crash")
            self.calls.append(call)
            hit = self._hits(call)
            self.fired += hit
        if not hit:
            return perform()
        if self.after:
            perform()
        moment = "after" if self.after else "before"
        if not self.crash:
            raise StorageError(f"injected failure {moment} {call.name}", path=call.path)
        self.dead = True
        for writer in list(self.writers):
            writer.die()
        raise InjectedCrash(f"{moment} {call.name} {call.path}")

    def _hits(self, call: Call) -> bool:
        if call.name in self.names:
            self.counted += 1
        if self.fail_at is None or self.fired >= self.times:
            return False
        if callable(self.fail_at):
            return self.fail_at(call)
        return call.name in self.names and self.counted >= self.fail_at

    def spend(self, size: int, path: str) -> None:
        if self.budget is None:
            return
        with self.lock:
            self.sizes.append(size)
            if size > self.budget:
                raise StorageFullError("no space left: injected", path=path)
            self.budget -= size
