"""Several actors on one store, stopped at every call of it, in any order that a test asks for.

Each actor runs in a thread of its own, of which only one moves at a time: to its next call of the store. So a
schedule decides which call is made when, and the same schedule gives the same run.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, count

from lance_ops.storage import Store
from lance_ops.storage.memory import _OBJECTS, MemoryStore

# One number a store in all the process: the `id` of a snapshot is given again once it is gone.
_names = count()

Actor = Callable[[Store], object]
Counts = Callable[[str, str], bool]


class SteppedStore:
    """Forwards to a store; the actor waits for its turn before each call that counts."""

    def __init__(self, inner: Store, turn: Callable[[str, str], None]) -> None:
        self._inner = inner
        self._turn = turn

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def supports_put_if_absent(self) -> bool:
        return True

    def child(self, relative: str) -> Store:
        return SteppedStore(self._inner.child(relative), self._turn)

    def delete_many(self, paths) -> None:
        for path in paths:
            self.delete(path)

    def list(self, prefix, **options):
        self._turn("list", prefix)
        return iter(list(self._inner.list(prefix, **options)))

    def __getattr__(self, name: str):
        call = getattr(self._inner, name)

        def stepped(path, *args, **options):
            self._turn(name, path)
            return call(path, *args, **options)

        return stepped


class _Run:
    """One actor's thread: `advance` lets it make one call and returns when it waits before the next."""

    def __init__(self, actor: Actor, store: Store, counts: Counts) -> None:
        self._counts = counts
        self.result: object = None
        self.error: BaseException | None = None
        self.done = False
        self.steps = 0
        self.log: list[tuple[str, str]] = []
        self._go = threading.Semaphore(0)
        self._waiting = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._main, args=(actor, SteppedStore(store, self._turn)))
        self._thread.start()
        self._waiting.acquire()

    def _turn(self, name: str, path: str) -> None:
        assert threading.current_thread() is self._thread, "an actor must not use threads of its own"
        if not self._counts(name, path):
            return
        self.log.append((name, path))
        self._waiting.release()
        self._go.acquire()

    def _main(self, actor: Actor, store: Store) -> None:
        try:
            self.result = actor(store)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        self.done = True
        self._waiting.release()

    def advance(self, calls: int | None = None) -> None:
        """Make so many calls, or all that are left."""
        while not self.done and (calls is None or calls > 0):
            self._go.release()
            self._waiting.acquire()
            self.steps += 1
            calls = None if calls is None else calls - 1
        if self.done:
            self._thread.join()


def run_schedule(
    actors: Sequence[Actor],
    store: Store,
    schedule: Sequence[tuple[int, int]] = (),
    counts: Counts = lambda name, path: True,
) -> list[_Run]:
    """Run actors: (actor, calls) after one another, then all of them to the end, in their order.

    Calls that do not count are made together with the one before them.
    """
    runs = [_Run(actor, store, counts) for actor in actors]
    for actor, calls in schedule:
        runs[actor].advance(calls)
    for run in runs:
        run.advance()
    return runs


ALL = 1_000_000
"""More calls than any actor makes."""


def one_switch(first: int, second: int) -> Iterator[list[tuple[int, int]]]:
    """Schedules of two actors with so many calls: one is stopped anywhere, and the other comes in between."""
    yield from ([(0, stop), (1, ALL)] for stop in range(first + 1))
    yield from ([(1, stop), (0, ALL)] for stop in range(second + 1))


def two_switches(first: int, second: int) -> Iterator[list[tuple[int, int]]]:
    """Likewise, and the other is stopped too, anywhere, until the first has ended."""
    for ours, theirs, one, other in ((first, second, 0, 1), (second, first, 1, 0)):
        for stop in range(ours + 1):
            for stop_other in range(1, theirs + 1):
                yield [(one, stop), (other, stop_other), (one, ALL), (other, ALL)]


def every_order(first: int, second: int) -> Iterator[list[tuple[int, int]]]:
    """All orders of the calls of two actors."""
    for places in combinations(range(first + second), second):
        yield [(int(place in places), 1) for place in range(first + second)]


class Snapshot:
    """The objects of a memory store, to start each run from the same."""

    def __init__(self, store: MemoryStore) -> None:
        lead = store.uri + "/"
        self._objects = {
            key.removeprefix(lead): value for key, value in _OBJECTS.items() if key.startswith(lead)
        }

    def restore(self) -> MemoryStore:
        """A new store with these objects."""
        store = MemoryStore(f"memory://interleaving/{next(_names)}")
        _OBJECTS.update({f"{store.uri}/{key}": value for key, value in self._objects.items()})
        return store

    @staticmethod
    def drop(store: MemoryStore) -> None:
        """Forget the objects of a store."""
        for key in [key for key in _OBJECTS if key.startswith(store.uri + "/")]:
            del _OBJECTS[key]
