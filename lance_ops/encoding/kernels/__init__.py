"""Kernels: the inner loops of encodings, compiled from Python ahead of time.

A module here holds the compiled loops of one technique, with explicit signatures. Nobody imports such a
module by name: its front, in the room of `fronts` that has the same name, asks `load` for it, and takes the
reference where there is none. A technique is known by its room and its module: `bits.rle`.

`load` takes the loops from the loop library (`lance_ops.encoding.library`), which wheels for Linux x86-64
have and `lance-ops warmup` builds in a checkout. Where there is no library of these sources, it imports the
module: numba compiles everything in it, or loads it from the cache on disk.

Kernels release the GIL and do not check bounds. Their callers check every length and position that comes
from a file before the call, or the kernel checks it itself and returns a negative number.
"""

import contextlib
import importlib
import os
import pkgutil
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lance_ops.encoding.kernel_cache import prepare_cache, tell_when_compiling
from lance_ops.encoding.library.load import open_library

_NO_LOOPS = SimpleNamespace()
_BOUNDS_CHECKED = "NUMBA_BOUNDSCHECK"
"""Environment variable of numba: loops that check every access; the library has none of these."""

_disabled = False
_library_ignored = False


def load(name: str) -> Any | None:
    """Return the compiled loops of a technique.

    Args:
        name: Of a module below this package, with the room that it is in: `bits.rle`.

    Returns:
        Something with the loops as attributes, or None where there is neither a library nor numba.
    """
    if _disabled:
        return None
    library = None if _library_ignored else _open_library()
    return _import(name) if library is None else library.get(name, _NO_LOOPS)


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Work without kernels for a while, in all threads; meant for tests."""
    global _disabled
    before, _disabled = _disabled, True
    try:
        yield
    finally:
        _disabled = before


@contextlib.contextmanager
def library_ignored() -> Iterator[None]:
    """Work with numba for a while, in all threads, although there is a library; meant for tests."""
    global _library_ignored
    before, _library_ignored = _library_ignored, True
    try:
        yield
    finally:
        _library_ignored = before


def available() -> bool:
    """Return whether there are compiled loops."""
    return not _disabled and (has_library() or _prepare())


def has_library() -> bool:
    """Return whether the loops come from the loop library, so that numba is not needed."""
    return not _library_ignored and _open_library() is not None


def forget_library() -> None:
    """Look for the library again at the next call: one was built."""
    _open_library.cache_clear()


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


@lru_cache(maxsize=1)
def _open_library() -> Mapping[str, Any] | None:
    return None if os.environ.get(_BOUNDS_CHECKED) else open_library()


@lru_cache
def _import(name: str) -> Any | None:
    return importlib.import_module(f"{__name__}.{name}") if _prepare() else None


@lru_cache(maxsize=1)
def _prepare() -> bool:
    prepare_cache(Path(__file__).parent)
    try:
        numba = importlib.import_module("numba")
    except ImportError:
        return False
    tell_when_compiling(importlib.import_module("numba.core.event"), __name__)
    # Loops that numba leaves to the interpreter are slower than numpy, and some of them do not run at all.
    return not numba.config.DISABLE_JIT
