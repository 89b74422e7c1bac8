"""Kernel cache: where compiled loops are kept on disk, and that none outlives the sources it was made of.

A process that waits for a compilation logs it.
"""

import contextlib
import hashlib
import logging
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

VARIABLE = "NUMBA_CACHE_DIR"
"""Environment variable of numba: the folder in which everything compiled is kept."""

LOGGER = "lance_ops.kernels"
"""Of the notice that loops are being compiled."""

_KEPT = "__pycache__"
_MARK = "sources-"


def prepare_cache(package: Path) -> None:
    """Find a folder that can be written to, and remove what other sources were compiled to.

    Has to be called before numba is imported.

    Args:
        package: Folder of the kernels.
    """
    if VARIABLE in os.environ:
        return
    # Where numba itself looks: beside the module, then in the user's cache.
    candidates = (package, Path("~/.cache").expanduser())
    if any(os.access(path, os.W_OK) for path in candidates):
        forget_outdated(package)
    else:
        os.environ[VARIABLE] = str(_shared_cache())


def tell_when_compiling(events: Any, package: str) -> None:
    """Say once, by a warning in the log, that loops of a package are compiled and not loaded.

    Args:
        events: The module `numba.core.event`.
        package: Name of the package of the kernels; other functions that numba compiles are not reported.
    """
    told = False

    class Listener(events.Listener):  # type: ignore[misc]  # numba has no types
        def on_start(self, event: Any) -> None:
            nonlocal told
            if told or not event.data["dispatcher"].py_func.__module__.startswith(package):
                return
            told = True
            logging.getLogger(LOGGER).warning(
                "compiling inner loops, once on this machine: the first calls take up to a minute longer "
                "(`lance-ops warmup` compiles them ahead of time)"
            )

        def on_end(self, event: Any) -> None:
            del event

    events.register("numba:compile", Listener())


def forget_outdated(package: Path) -> None:
    """Remove what is kept beside the modules unless all of it was compiled from the sources as they are.

    numba notices that the module of a kernel changed. It does not notice that a helper did that the kernel
    has from another module: the old loops would go on reading and writing.

    Args:
        package: Folder of the kernels.
    """
    mark = package / _KEPT / f"{_MARK}{_digest(package)}"
    if mark.exists():
        return
    # A package that cannot be written to keeps nothing here.
    with contextlib.suppress(OSError):
        for kept in package.rglob(f"{_KEPT}/*.nbi"):
            kept.unlink(missing_ok=True)
        mark.parent.mkdir(exist_ok=True)
        for other in mark.parent.glob(f"{_MARK}*"):
            other.unlink(missing_ok=True)
        mark.touch()


def _digest(package: Path) -> str:
    found = hashlib.blake2b(digest_size=8)
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        found.update(f"{path.relative_to(package).as_posix()} {len(content)} ".encode())
        found.update(content)
    return found.hexdigest()


def _shared_cache() -> Path:
    # Containers often have read-only packages and no home: compile once per machine, not per process. What is
    # loaded from a cache is run, so that no other user may own it or write to it.
    cache = Path(tempfile.gettempdir()) / f"lance-ops-kernels-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        cache.mkdir(mode=0o700)
    found = cache.lstat()
    is_private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    return cache if is_private else Path(tempfile.mkdtemp(prefix="lance-ops-kernels-"))
