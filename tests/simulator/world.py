"""Simulated world: one object store in memory, several processes that use it, one clock, one schedule.

Each process is a thread, and one of them runs at a time. Before every call of the store the schedule decides
which process runs next, and whether the call fails. Decisions are keyed by process and number of its call, so
that a recorded history can be repeated, and made shorter, decision by decision.
"""

import contextlib
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar
from zlib import crc32

from lance_ops.errors import AlreadyExistsError, LanceOpsError, StorageError

T = TypeVar("T")

START = 1_750_000_000.0
"""Seconds since the epoch at the start of every history."""

CALL_SECONDS = 0.02
"""Virtual time that a call of the store takes."""

MUTATING = frozenset({"put", "close", "delete", "copy"})
LISTING = frozenset({"list"})

Place = tuple[int, int]
"""A process, and the number of its call, from 1. Call 0 stands for the end of the process."""


class Killed(BaseException):
    """The process is dead: nothing in it may handle this, and every further call raises it again."""


class Stuck(AssertionError):  # noqa: N818 - a history that does not end
    """A history that does not end."""


@dataclass
class Choices:
    """Decisions of a history.

    Attributes:
        switches: The process that runs next, by place.
        faults: What happens to a call, by place.
    """

    switches: dict[Place, int] = field(default_factory=dict)
    faults: dict[Place, str] = field(default_factory=dict)

    def copy(self) -> "Choices":
        return Choices(dict(self.switches), dict(self.faults))


@dataclass(frozen=True)
class Weather:
    """Probabilities of a history, per call.

    Attributes:
        switch: Another process runs next.
        most: How often that happens, but for the ends of processes.
        fault: Something happens to a call.
        kinds: What may happen.
    """

    switch: float = 0.1
    most: int = 1_000_000
    fault: float = 0.0
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Event:
    """One line of the story of a history."""

    step: int
    at: float
    process: int
    what: str
    path: str = ""
    note: str = ""


class Process:
    """A simulated process.

    Args:
        number: From 0.
        body: What it does.
        offset: How many seconds its clock is ahead of that of the store.
    """

    def __init__(self, number: int, body: Callable[["Process"], None], offset: float) -> None:
        self.number = number
        self.body = body
        self.offset = offset
        self.calls = 0
        self.wake = 0.0
        self.dead = False
        self.cut_off = 0
        self.done = False
        self.failure: BaseException | None = None
        self.go = threading.Lock()
        self.go.acquire()


class World:
    """The store, the processes and the schedule of one history.

    Args:
        seed: Of names, pauses, and of the decisions that are not given.
        weather: Probabilities; None when all decisions are given.
        choices: Decisions of an earlier run; filled where `weather` decides.
    """

    def __init__(self, seed: int, weather: Weather | None, choices: Choices | None = None) -> None:
        self.chance = random.Random(seed)
        self.names = random.Random(seed + 1)
        self.weather = weather
        self.choices = choices or Choices()
        self.objects: dict[str, tuple[bytes, float]] = {}
        self.born: dict[str, tuple[bytes, float]] = {}
        self.gone: dict[str, tuple[bytes, float, float]] = {}
        self.now = START
        self.steps = 0
        self.switched = 0
        self.processes: list[Process] = []
        self.current: Process | None = None
        self.story: list[Event] = []
        self.trace: list[int] = []
        self.late: list[tuple[int, str, Callable[[], object]]] = []
        self.over = threading.Event()
        self.most_steps = 4_000

    # -- processes

    def start(self, body: Callable[[Process], None], offset: float = 0.0) -> Process:
        """Add a process; it runs when the schedule chooses it."""
        process = Process(len(self.processes), body, offset)
        self.processes.append(process)
        threading.Thread(target=self._live, args=(process,), daemon=True).start()
        return process

    def run(self) -> None:
        """Run all processes to their ends.

        Raises:
            BaseException: What a process raised that none may raise.
        """
        first = self._next_after_end(None)
        if first is not None:
            self.current = first
            first.go.release()
            if not self.over.wait(60):
                raise Stuck("a process of the simulation waits for something outside of it")
        self.current = None
        for _, _, perform in self.late:
            self._quietly(perform)
        self.late = []
        for process in self.processes:
            if process.failure is not None:
                raise process.failure

    def _live(self, process: Process) -> None:
        process.go.acquire()
        try:
            process.body(process)
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - raised by `run`
            process.failure = error
        process.done = True
        following = self._next_after_end(process)
        if following is None:
            self.over.set()
        else:
            self.current = following
            following.go.release()

    def _waiting(self) -> list[Process]:
        return [process for process in self.processes if not process.done]

    def _next_after_end(self, ended: Process | None) -> Process | None:
        waiting = self._waiting()
        if not waiting:
            return None
        ready = self._ready(waiting)
        place = (-1 if ended is None else ended.number, 0)
        if self.weather is not None and len(ready) > 1:
            self.choices.switches[place] = self.chance.choice(ready).number
        return self._named(ready, self.choices.switches.get(place))

    @staticmethod
    def _named(ready: list[Process], number: int | None) -> Process:
        return next((process for process in ready if process.number == number), ready[0])

    def _ready(self, waiting: list[Process]) -> list[Process]:
        """Return processes that are awake; the clock moves on when all of them sleep."""
        ready = [process for process in waiting if process.wake <= self.now]
        if not ready:
            self.now = min(process.wake for process in waiting)
            ready = [process for process in waiting if process.wake <= self.now]
        return ready

    def _hand_over(self, me: Process, other: Process) -> None:
        if other is me:
            return
        self.current = other
        other.go.release()
        me.go.acquire()

    def sleep(self, seconds: float) -> None:
        """Let the current process sleep; others run meanwhile."""
        me = self.current
        if me is None:
            self.now += seconds
            return
        if me.dead:
            raise Killed
        me.wake = self.now + max(0.0, seconds)
        ready = self._ready(self._waiting())
        self._hand_over(me, ready[0])

    # -- calls

    def call(self, process: Process | None, name: str, path: str, perform: Callable[[], T]) -> T:
        """Make one call of the store for a process; None stands for the one who examines the result."""
        if process is None:
            return perform()
        if process.dead:
            raise Killed
        process.calls += 1
        place = (process.number, process.calls)
        self._switch(process, place)
        self.now += CALL_SECONDS
        self.steps += 1
        if self.steps > self.most_steps:
            process.dead = True
            raise Stuck(f"more than {self.most_steps} calls")
        if self.late and self.late[0][0] <= self.steps:
            self._deliver()
        self.trace.append(crc32(f"{process.number} {name} {path.partition('/')[0]}".encode()))
        fault = self._fault(place, name)
        return self._perform(process, name, path, perform, fault)

    def _switch(self, process: Process, place: Place) -> None:
        if (
            self.weather is not None
            and self.switched < self.weather.most
            and (self.chance.random() < self.weather.switch)
        ):
            others = [item for item in self._waiting() if item is not process and item.wake <= self.now]
            if others:
                self.switched += 1
                self.choices.switches[place] = self.chance.choice(others).number
        number = self.choices.switches.get(place)
        if number is not None and number < len(self.processes):
            other = self.processes[number]
            if not other.done and other.wake <= self.now:
                self._hand_over(process, other)

    def _fault(self, place: Place, name: str) -> str:
        if self.weather is not None and self.weather.kinds and self.chance.random() < self.weather.fault:
            kind = self.chance.choice(self.weather.kinds)
            if applies(kind, name):
                self.choices.faults[place] = kind
        kind = self.choices.faults.get(place, "")
        return kind if kind and applies(kind, name) else ""

    def _perform(self, process: Process, name: str, path: str, perform: Callable[[], T], fault: str) -> T:
        if process.cut_off:
            process.cut_off -= 1
            fault = "refused"
        self.note(process, name, path, fault)
        if fault in ("", "stale"):
            return perform()
        if fault == "pause":
            self.sleep(PAUSE_SECONDS)
            return perform()
        if fault == "die before":
            self._kill(process)
        if fault == "die after":
            perform()
            self._kill(process)
        if fault == "refused":
            raise StorageError(f"simulated: {name} did not arrive", path=path)
        if fault == "lost":
            perform()
            raise StorageError(f"simulated: the response to {name} was lost", path=path)
        if fault == "severed":
            perform()
            process.cut_off = CALLS_CUT_OFF
            raise StorageError(f"simulated: the connection broke during {name}", path=path)
        if fault == "twice":
            # A client that lost the first response sends the request again, and returns the second response.
            perform()
            return perform()
        if fault == "late":
            delay = 1 + (7 * process.number + 5 * process.calls) % 12
            self.late.append((self.steps + delay, path, perform))
            self.late.sort(key=lambda item: item[0])
            process.cut_off = CALLS_CUT_OFF if process.calls % 2 else 0
            raise StorageError(f"simulated: {name} has not been answered", path=path)
        raise AssertionError(fault)

    def _kill(self, process: Process) -> None:
        process.dead = True
        raise Killed

    def _deliver(self) -> None:
        while self.late and self.late[0][0] <= self.steps:
            _, path, perform = self.late.pop(0)
            self.story.append(Event(self.steps, self.now - START, -1, "late request arrives", path))
            self._quietly(perform)

    @staticmethod
    def _quietly(perform: Callable[[], object]) -> None:
        with contextlib.suppress(LanceOpsError):
            perform()

    def note(self, process: Process | None, what: str, path: str = "", note: str = "") -> None:
        """Add a line to the story."""
        number = -1 if process is None else process.number
        self.story.append(Event(self.steps, self.now - START, number, what, path, note))

    def is_stale(self, process: Process | None) -> bool:
        """Return whether the listing that the process makes now is to miss what is new."""
        if process is None:
            return False
        return self.choices.faults.get((process.number, process.calls)) == "stale"

    # -- objects

    def put(self, path: str, data: bytes, *, if_absent: bool, uri: str) -> None:
        if if_absent and path in self.objects:
            raise AlreadyExistsError("object already exists", path=f"{uri}/{path}")
        self.objects[path] = (data, self.now)
        if path not in self.born:
            self.born[path] = (data, self.now)

    def delete(self, path: str) -> None:
        found = self.objects.pop(path, None)
        if found is not None:
            self.gone[path] = (*found, self.now)


PAUSE_SECONDS = 3600.0
"""How long a paused process stands still."""

CALLS_CUT_OFF = 4
"""How many further calls fail of a process whose connection broke."""

STALE_SECONDS = 0.5
"""How old an object is at most that a stale listing misses, or a deletion that it does not show yet."""


def applies(kind: str, name: str) -> bool:
    """Return whether a fault can happen to a call."""
    if kind in ("lost", "late", "twice", "die after", "severed"):
        return name in MUTATING
    if kind == "stale":
        return name in LISTING
    return True
