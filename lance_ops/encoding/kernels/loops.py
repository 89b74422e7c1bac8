"""Where the body of a compiled loop comes from: the loop library, or numba.

A module of kernels holds typed functions for callers, and the loops that these run:

    @loop(types.int64(READONLY_BYTES, types.int64[::1]))
    def _measure(data, sizes): ...

With a loop library of these sources (`lance_ops.encoding.library`), `loop` returns the function of the
library that has this name, and numba is not imported. Without one, numba compiles the loop when its module is
imported, or loads it from the cache on disk. `inner` marks what only other loops call.

Loops release the GIL and do not check bounds. Their callers check every length and position that comes from a
file before the call, or the loop checks it itself and returns a negative number.
"""

import importlib
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from types import FunctionType
from typing import Any

from lance_ops.encoding.kernel_cache import prepare_cache, tell_when_compiling
from lance_ops.encoding.library.load import open_library
from lance_ops.errors import MissingExtraError

_PACKAGE = __name__.rpartition(".")[0]
_BOUNDS_CHECKED = "NUMBA_BOUNDSCHECK"
"""Environment variable of numba: loops that check every access; the library has none of these."""

_numba_wanted = False


def loop(signatures: Any, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a loop that typed functions call.

    Args:
        signatures: Types of the result and the arguments, one signature or several; made with `types`.
        options: For the compiler.

    Returns:
        A decorator. The function's name begins with an underscore, which its name in the library lacks.

    Raises:
        MissingExtraError: There is neither a library of these sources nor numba.
    """

    def bind(function: Callable[..., Any]) -> Callable[..., Any]:
        library = find_library()
        if library is None:
            compiled: Callable[..., Any] = _compile(function, (signatures,), options)
            compiled.is_loop = True  # type: ignore[attr-defined]
            return compiled
        technique = function.__module__.removeprefix(f"{_PACKAGE}.")
        found: Callable[..., Any] = getattr(library[technique], function.__name__.removeprefix("_"))
        return found

    return bind


def inner(signatures: Any = None, **options: Any) -> Any:
    """Declare a function that only loops call; with signatures or without, as `numba.njit`."""
    if isinstance(signatures, FunctionType):
        return inner()(signatures)

    def bind(function: Callable[..., Any]) -> Any:
        if find_library() is not None:
            return function
        return _compile(function, () if signatures is None else (signatures,), options)

    return bind


def intrinsic(function: Callable[..., Any]) -> Any:
    """Declare a function that makes instructions of the compiler, for loops to call."""
    return function if find_library() is not None else _numba().extending.intrinsic(function)


def compile_with_numba() -> None:
    """Let numba compile the loops of all modules imported from now on; the library is made this way."""
    global _numba_wanted
    _numba_wanted = True
    forget_library()


def is_compilable() -> bool:
    """Return whether numba is there, and not told to leave loops to the interpreter."""
    try:
        return not _numba().config.DISABLE_JIT
    except MissingExtraError:
        return False


def forget_library() -> None:
    """Look for the library again at the next import of a module of kernels: one was built."""
    find_library.cache_clear()


@lru_cache(maxsize=1)
def find_library() -> Mapping[str, Any] | None:
    """Return the loops of the loop library, by technique; None where numba has to compile them."""
    return None if _numba_wanted or os.environ.get(_BOUNDS_CHECKED) else open_library()


def _compile(function: Callable[..., Any], signatures: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    if not is_compilable():
        # Left to the interpreter, loops are slow, and some of them do not run at all.
        raise _missing()
    kept = {"cache": True, "nogil": True} if signatures else {}
    return _numba().njit(*signatures, **kept, **options)(function)


@lru_cache(maxsize=1)
def _numba() -> Any:
    prepare_cache(Path(__file__).parent)
    try:
        numba = importlib.import_module("numba")
    except ImportError:
        raise _missing() from None
    importlib.import_module("numba.extending")
    tell_when_compiling(importlib.import_module("numba.core.event"), _PACKAGE)
    return numba


def _missing() -> MissingExtraError:
    return MissingExtraError(
        "there are no compiled loops for this platform and these sources, and numba cannot compile them",
        hint="pip install 'lance-ops[compiler]', and unset NUMBA_DISABLE_JIT",
    )


class _AnyType:
    """Stands for each type of numba where the library has the loops, so that signatures need no numba."""

    def __getattr__(self, name: str) -> "_AnyType":
        return self

    def __getitem__(self, item: object) -> "_AnyType":
        return self

    def __call__(self, *_: object, **__: object) -> "_AnyType":
        return self


class _Types:
    """The types of numba, where numba compiles."""

    def __getattr__(self, name: str) -> Any:
        return _ANY_TYPE if find_library() is not None else getattr(_numba().types, name)


_ANY_TYPE = _AnyType()
types: Any = _Types()
"""The module `numba.types`, or something that takes its place in signatures."""
