"""Virtual time and seeded chance: inside `virtual`, the product sees the clock and the dice of a world.

Pools and threads of the product run their work at once, in the thread that asks: a simulated process is one
thread.
"""

import contextlib
import importlib
import os
import pkgutil
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import datetime, tzinfo
from types import SimpleNamespace
from typing import Any, ClassVar, Self
from unittest import mock

import lance_ops
from tests.simulator.world import START, World

_REAL_NOW = datetime.now


class Clock:
    """The world whose time it is; one at a time."""

    world: ClassVar[World | None] = None


def _offset() -> float:
    process = Clock.world.current if Clock.world is not None else None
    return 0.0 if process is None else process.offset


class _AnyDatetime(type(datetime)):  # type: ignore[misc]
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, datetime)


class VirtualDatetime(datetime, metaclass=_AnyDatetime):
    """`datetime` whose `now` is that of the running process."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        if Clock.world is None:
            return _REAL_NOW(tz)
        return datetime.fromtimestamp(Clock.world.now + _offset(), tz)


class InlinePool:
    """A `ThreadPoolExecutor` that runs each task when it is submitted."""

    def __init__(self, *_: object, initializer: Callable[[], None] | None = None, **__: object) -> None:
        if initializer is not None:
            initializer()

    def submit(self, function: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **options))
        except Exception as error:  # noqa: BLE001 - as a pool does
            future.set_exception(error)
        return future

    def map(self, function: Callable[..., Any], *columns: Any) -> Iterator[Any]:
        return iter([function(*row) for row in zip(*columns, strict=False)])

    def shutdown(self, **_: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _InlineThread:
    def __init__(self, target: Callable[[], object], **_: object) -> None:
        self._target = target

    def start(self) -> None:
        self._target()

    def join(self, *_: object) -> None:
        pass


class _NoHeartbeat:
    def __init__(self, *_: object) -> None:
        pass

    def stop(self) -> None:
        pass


_POOLS = (
    "lance_ops.encoding.parallel",
    "lance_ops.maintenance.runner",
    "lance_ops.storage.prefetch",
    "lance_ops.table.commit.concurrent_commits",
)

LAYERS = ("storage", "file", "table", "index", "maintenance")


def load_layers() -> None:
    """Import every module that a history may need, so that none is imported with patches in place."""
    for layer in LAYERS:
        package = importlib.import_module(f"lance_ops.{layer}")
        for info in pkgutil.walk_packages(package.__path__, f"lance_ops.{layer}."):
            with contextlib.suppress(ImportError):
                importlib.import_module(info.name)
    assert lance_ops.append


@contextlib.contextmanager
def inside(world: World) -> Iterator[None]:
    """Give the product the clock and the chance of a world, and then those of before."""
    before, Clock.world = Clock.world, world
    try:
        yield
    finally:
        Clock.world = before


@contextlib.contextmanager
def virtual() -> Iterator[Callable[[World | None], None]]:
    """Replace time, chance and threads of the product; yields what sets the world that they belong to."""
    load_layers()
    real = SimpleNamespace(sleep=time.sleep, monotonic=time.monotonic, time=time.time, urandom=os.urandom)
    dice = SimpleNamespace(state=random.getstate())
    owner = threading.get_ident()

    def sleep(seconds: float) -> None:
        if Clock.world is None:
            real.sleep(seconds)
        else:
            Clock.world.sleep(seconds)

    def monotonic() -> float:
        return real.monotonic() if Clock.world is None else Clock.world.now - START

    def wall() -> float:
        return real.time() if Clock.world is None else Clock.world.now + _offset()

    def urandom(size: int) -> bytes:
        return real.urandom(size) if Clock.world is None else Clock.world.names.randbytes(size)

    def use(world: World | None) -> None:
        Clock.world = world
        if world is not None:
            random.seed(world.names.getrandbits(32))

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.multiple(time, sleep=sleep, monotonic=monotonic, time=wall))
        stack.enter_context(mock.patch.object(os, "urandom", urandom))
        stack.enter_context(mock.patch.object(random, "_urandom", urandom))
        for name in _POOLS:
            stack.enter_context(mock.patch(f"{name}.ThreadPoolExecutor", InlinePool))
        fake = SimpleNamespace(**{**vars(threading), "Thread": _InlineThread})
        stack.enter_context(mock.patch("lance_ops.storage.retry.threading", fake))
        for module in list(sys.modules.values()):
            if not getattr(module, "__name__", "").startswith("lance_ops."):
                continue
            if module.__dict__.get("datetime") is datetime:
                stack.enter_context(mock.patch.object(module, "datetime", VirtualDatetime))
            if module.__dict__.get("Heartbeat") is not None:
                stack.enter_context(mock.patch.object(module, "Heartbeat", _NoHeartbeat))
        try:
            yield use
        finally:
            assert threading.get_ident() == owner
            Clock.world = None
            random.setstate(dice.state)
