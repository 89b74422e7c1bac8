"""Kernels: the inner loops of encodings, compiled by numba ahead of time and kept on disk.

A module here holds the compiled loops of one technique, with explicit signatures, so that importing it
compiles everything in it or loads it from the cache on disk. Nobody imports such a module by name: its front,
of the same name in `fronts`, asks `load` for it, and takes the reference where numba is not available.

Kernels release the GIL and do not check bounds. Their callers check every length and position that comes
from a file before the call, or the kernel checks it itself and returns a negative number.
"""

import contextlib
import importlib
import os
import pkgutil
import stat
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

SWITCH = "LANCE_OPS_KERNELS"
"""Environment variable: `off` leaves everything to numpy."""

_CACHE = "NUMBA_CACHE_DIR"

_disabled = False


def load(name: str) -> Any | None:
    """The compiled loops of a technique.

    Args:
        name: Of a module of this package.

    Returns:
        The module, or None where numba is missing or switched off.
    """
    return None if _disabled else _import(name)


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Work without kernels for a while, in all threads; meant for tests."""
    global _disabled
    before, _disabled = _disabled, True
    try:
        yield
    finally:
        _disabled = before


def available() -> bool:
    """Whether numba can be used."""
    return not _disabled and _prepare()


def names() -> list[str]:
    """The techniques that have kernels."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)


def compile_all() -> Iterator[tuple[str, bool]]:
    """Compile everything, or load it from the cache.

    Yields:
        Each technique, and whether its kernels can be used.
    """
    for name in names():
        yield name, load(name) is not None


@lru_cache
def _import(name: str) -> Any | None:
    return importlib.import_module(f"{__name__}.{name}") if _prepare() else None


@lru_cache(maxsize=1)
def _prepare() -> bool:
    if os.environ.get(SWITCH, "").lower() in ("off", "0", "false"):
        return False
    if _CACHE not in os.environ and not _can_keep():
        os.environ[_CACHE] = str(_shared_cache())
    try:
        numba = importlib.import_module("numba")
    except ImportError:
        return False
    # Loops that numba leaves to the interpreter are slower than numpy, and some of them do not run at all.
    return not numba.config.DISABLE_JIT


def _can_keep() -> bool:
    # Where numba itself looks: beside the module, then in the user's cache.
    candidates = (Path(__file__).parent, Path("~/.cache").expanduser())
    return any(os.access(path, os.W_OK) for path in candidates)


def _shared_cache() -> Path:
    # Containers often have read-only packages and no home: compile once per machine, not per process. What is
    # loaded from a cache is run, so that nobody else may own it or write to it.
    cache = Path(tempfile.gettempdir()) / f"lance-ops-kernels-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        cache.mkdir(mode=0o700)
    found = cache.lstat()
    is_private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    return cache if is_private else Path(tempfile.mkdtemp(prefix="lance-ops-kernels-"))
