"""Kernels: the inner loops of encodings, compiled by numba ahead of time and kept on disk.

A module here holds the compiled loops of one technique, with explicit signatures, so that importing it
compiles everything in it or loads it from the cache on disk. Nobody imports such a module by name: its front,
in the room of `fronts` that has the same name, asks `load` for it, and takes the reference where numba is not
available. A technique is known by its room and its module: `bits.rle`.

Kernels release the GIL and do not check bounds. Their callers check every length and position that comes
from a file before the call, or the kernel checks it itself and returns a negative number.
"""

import contextlib
import importlib
import os
import pkgutil
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from lance_ops.encoding.kernel_cache import prepare_cache, tell_when_compiling

SWITCH = "LANCE_OPS_KERNELS"
"""Environment variable: `off` leaves everything to numpy."""

_disabled = False


def load(name: str) -> Any | None:
    """Return the compiled loops of a technique.

    Args:
        name: Of a module below this package, with the room that it is in: `bits.rle`.

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
    """Return whether numba can be used."""
    return not _disabled and _prepare()


def names() -> list[str]:
    """Return the techniques that have kernels."""
    inside = f"{__name__}."
    found = (module for module in pkgutil.walk_packages(__path__, inside) if not module.ispkg)
    techniques = (module.name.removeprefix(inside) for module in found)
    return sorted(name for name in techniques if not name.startswith("fronts."))


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
    prepare_cache(Path(__file__).parent)
    try:
        numba = importlib.import_module("numba")
    except ImportError:
        return False
    tell_when_compiling(importlib.import_module("numba.core.event"), __name__)
    # Loops that numba leaves to the interpreter are slower than numpy, and some of them do not run at all.
    return not numba.config.DISABLE_JIT
