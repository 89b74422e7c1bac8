"""Per-user cache folder for the support files of Spark: wrappers, logging configuration, warehouse."""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from lance_ops.errors import StorageError


def cache_root(environment: Mapping[str, str] | None = None) -> Path:
    """Return the first of XDG_CACHE_HOME, HOME/.cache and the temporary folder in which a script can be run.

    Args:
        environment: Environment variables; those of this process by default.

    Raises:
        StorageError: None of them can be written to, or all are mounted without the right to execute.
    """
    tried = []
    for candidate in _candidate_roots(os.environ if environment is None else environment):
        try:
            candidate.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_private(candidate)
            _check_writable_and_executable(candidate)
        except OSError as error:
            tried.append(f"{candidate} ({error.strerror or error})")
            continue
        return candidate
    raise StorageError(
        f"no usable folder for Spark's support files: {', '.join(tried)}",
        hint="set XDG_CACHE_HOME to a writable folder that allows execution",
    )


def publish_tree(kind: str, entries: Mapping[str, Path | str], root: Path | None = None) -> Path:
    """Return a folder in the cache with exactly these entries; creates it if needed.

    The folder's name is a digest of its entries, and it appears by one rename: several processes may do this
    at once, and none sees a partial folder.

    Args:
        kind: Purpose of the folder; the first part of its name.
        entries: Relative path to either the target of a symbolic link or the text of a file. A text that
            starts with `#!` becomes executable.
        root: The cache; `cache_root()` by default.

    Raises:
        StorageError: The cache cannot be written to.
    """
    base = cache_root() if root is None else root
    described = "\0".join(f"{name}\0{entry!r}" for name, entry in sorted(entries.items()))
    target = base / f"{kind}-{hashlib.sha256(described.encode()).hexdigest()[:16]}"
    try:
        if _is_complete(target, entries):
            return target
        workspace = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=base))
        try:
            _write_entries(workspace / "new", entries)
            with suppress(OSError):  # another process was faster
                (workspace / "new").rename(target)
            if not _is_complete(target, entries):  # a cleaner of temporary files removed parts of an old one
                target.rename(workspace / "old")
                (workspace / "new").rename(target)
        finally:
            shutil.rmtree(workspace, ignore_errors=True)
    except OSError as error:
        raise StorageError(f"cannot write Spark's support files: {error}", path=str(target)) from error
    return target


def _candidate_roots(environment: Mapping[str, str]) -> Iterator[Path]:
    shared = environment.get("XDG_CACHE_HOME", "")
    if Path(shared).is_absolute():  # a relative path must be ignored (XDG Base Directory Specification)
        yield Path(shared) / "lance-ops"
    home = environment.get("HOME", "")
    if Path(home).is_absolute():
        yield Path(home) / ".cache" / "lance-ops"
    yield Path(tempfile.gettempdir()) / f"lance-ops-{os.getuid()}"


def _check_private(folder: Path) -> None:
    # Anyone can create this folder in a shared /tmp first and put another program in it.
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(1, "writable by other users")


def _check_writable_and_executable(folder: Path) -> None:
    with tempfile.TemporaryFile(dir=folder):
        pass
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise PermissionError(1, "mounted without the right to execute")


def _write_entries(folder: Path, entries: Mapping[str, Path | str]) -> None:
    for name, entry in entries.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(entry, Path):
            path.symlink_to(entry)
        else:
            path.write_text(entry, encoding="utf-8")
            path.chmod(0o700 if entry.startswith("#!") else 0o600)


def _is_complete(folder: Path, entries: Mapping[str, Path | str]) -> bool:
    for name, entry in entries.items():
        path = folder / name
        try:
            if isinstance(entry, Path):
                if path.readlink() != entry:
                    return False
            elif path.read_text(encoding="utf-8") != entry:
                return False
        except OSError:
            return False
    return True
