"""Open a loop library with ctypes, and call its loops with arrays as numba's functions are called."""

import contextlib
import ctypes
import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from lance_ops.encoding.library.sources import (
    cached_folder,
    cached_path,
    digest_sources,
    is_sealed,
    is_supported,
    packaged_path,
)
from lance_ops.encoding.library.wrappers import FAILED, NO_MATCH

_SCALARS: dict[str, Any] = {
    "array": ctypes.py_object,
    "bool": ctypes.c_bool,
    "uint8": ctypes.c_uint8,
    "uint16": ctypes.c_uint16,
    "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64,
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}
_BYTES = 1 << 2
"""Number of NumPy's type uint8, as a set."""


def open_library() -> Mapping[str, Any] | None:
    """Open the library that was made of the sources at hand, beside this package or in the user's cache.

    Returns:
        The loops of each technique, as attributes of its value; None where there is no such library, or where
        it does not work with the processor, the interpreter or NumPy.
    """
    if not is_supported():
        return None
    beside = packaged_path()
    if beside.exists() and (found := _open(beside, digest_sources())) is not None:
        return found
    if not cached_folder().is_dir():
        return None
    path = cached_path(digest_sources())
    return _open(path, digest_sources()) if _is_private(path) else None


def _open(path: Path, digest: str) -> Mapping[str, Any] | None:
    # A file of another machine, or half of one, is no reason to fail: numba does the work.
    with contextlib.suppress(OSError, AttributeError):
        return open_file(path, digest)
    return None


def open_file(path: Path, digest: str) -> Mapping[str, Any] | None:
    """Open one library.

    Args:
        path: Of the file.
        digest: Of the sources that it must be made of.

    Returns:
        As `open_library`.

    Raises:
        OSError: The file cannot be loaded.
        AttributeError: It is no loop library.
    """
    if not is_sealed(path, digest):
        return None
    library = ctypes.CDLL(str(path))
    describe = library["lance_ops_table"]
    describe.restype = ctypes.c_char_p
    table = json.loads(describe())
    if not _begin(library):
        return None
    techniques: dict[str, Any] = {}
    for loop in table:
        bound = _bind(library, loop)
        setattr(techniques.setdefault(loop["technique"], SimpleNamespace()), loop["name"], bound)
    return techniques


def _begin(library: ctypes.CDLL) -> bool:
    """Give the library the layout of objects, and try it on arrays of which everything is known."""
    begin, probe = library["lance_ops_begin"], library["lance_ops_probe"]
    begin.argtypes, begin.restype = [ctypes.c_int64, ctypes.c_void_p], ctypes.c_int
    if not begin(object.__basicsize__, id(np.ndarray)):
        return False
    probe.argtypes = [ctypes.py_object, ctypes.c_uint, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64)]
    probe.restype = ctypes.c_int64
    for shape in ((5,), (2, 3), (0,)):
        array, found = np.zeros(shape, np.uint8), (ctypes.c_int64 * 3)()
        if not probe(array, _BYTES, array.ndim, found):
            return False
        if (found[0], *found[1 : 1 + array.ndim]) != (array.ctypes.data, *shape):
            return False
        if probe(array.astype(np.int32), _BYTES, array.ndim, found) or probe(array, _BYTES, 3, found):
            return False
    return not probe(b"", _BYTES, 1, found) and not probe(np.zeros(6, np.uint8)[::2], _BYTES, 1, found)


def _bind(library: ctypes.CDLL, loop: Mapping[str, Any]) -> Callable[..., Any]:
    """Make one loop a function of Python.

    Each loop has a function object of ctypes of its own, whose types are set here, once, before it is
    shared: setting them while another thread calls the function would be a crash.
    """
    name = f"{loop['technique']}.{loop['name']}"
    function = library[f"lance_ops_{loop['technique'].replace('.', '_')}_{loop['name']}"]
    function.argtypes = [_SCALARS[one] for one in loop["arguments"]]
    function.restype = ctypes.c_int64
    result = loop["result"]
    if result["count"] > 1:
        return _several(function, name, result["count"])
    return _nothing(function, name) if result["count"] == 0 else _number(function, name)


def _number(function: Callable[..., int], name: str) -> Callable[..., int]:
    def call(*arguments: Any) -> int:
        found = function(*arguments)
        if found <= FAILED:
            raise _error(found, name, arguments)
        return found

    return call


def _nothing(function: Callable[..., int], name: str) -> Callable[..., None]:
    def call(*arguments: Any) -> None:
        found = function(*arguments)
        if found <= FAILED:
            raise _error(found, name, arguments)

    return call


def _several(function: Any, name: str, count: int) -> Callable[..., tuple[int, ...]]:
    row = ctypes.c_int64 * count
    function.argtypes = [*function.argtypes, ctypes.POINTER(ctypes.c_int64)]

    def call(*arguments: Any) -> tuple[int, ...]:
        numbers = row()
        found = function(*arguments, numbers)
        if found <= FAILED:
            raise _error(found, name, arguments)
        return tuple(numbers)

    return call


def _error(found: int, name: str, arguments: tuple[Any, ...]) -> Exception:
    if found != NO_MATCH:
        return MemoryError(f"the compiled loop {name} ran out of memory")
    shown = ", ".join(
        f"{one.dtype}{list(one.shape)}" if isinstance(one, np.ndarray) else type(one).__name__
        for one in arguments
    )
    return TypeError(f"no variant of the compiled loop {name} takes these arguments: {shown}")


def _is_private(path: Path) -> bool:
    """Return whether a file, which is going to be run, and its folder can be written by their owner only."""
    try:
        found = [path.stat(), path.parent.lstat()]
    except OSError:
        return False
    return all(one.st_uid == os.getuid() and not one.st_mode & 0o022 for one in found) and stat.S_ISDIR(
        found[1].st_mode
    )
