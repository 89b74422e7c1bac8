"""The sources that a loop library is made of, their digest, and where the library is kept."""

import hashlib
import os
import platform
import sys
from pathlib import Path

_HERE = Path(__file__).parent
_ENCODING = _HERE.parent

FILE_NAME = "loops-linux-x86_64.so"
"""Name of the library beside this module: in a wheel, or in a checkout that can be written to."""


def is_supported() -> bool:
    """Return whether libraries are made and loaded on this platform: Linux on x86-64, with CPython."""
    return (
        sys.platform == "linux"
        and platform.machine() == "x86_64"
        and sys.implementation.name == "cpython"
        and sys.maxsize > 1 << 32
    )


def digest_sources() -> str:
    """Return the digest of all sources that decide what a library contains, as hexadecimal digits."""
    kernels = (_ENCODING / "kernels").rglob("*.py")
    loops = [path for path in kernels if path.name != "__init__.py"]
    makers = [_HERE / "emit.py", _HERE / "wrappers.py"]
    found = hashlib.blake2b(digest_size=16)
    for path in sorted([*loops, *makers]):
        content = path.read_bytes()
        found.update(f"{path.relative_to(_ENCODING).as_posix()} {len(content)} ".encode())
        found.update(content)
    return found.hexdigest()


def seal(path: Path, digest: str) -> None:
    """Append the digest of its sources and its size to a library, behind all that a loader reads.

    Args:
        path: Of the library.
        digest: As `digest_sources` returns it.
    """
    with path.open("ab") as file:
        file.write(_make_seal(digest, file.tell()))


def is_sealed(path: Path, digest: str) -> bool:
    """Return whether a library is whole and was built from the sources with this digest.

    A file that was cut off would crash the process that loads it.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END) - len(_make_seal(digest, 0))
            if size < 0:
                return False
            file.seek(size)
            return file.read() == _make_seal(digest, size)
    except OSError:
        return False


def _make_seal(digest: str, size: int) -> bytes:
    return f"\nlance-ops loops {digest} {size:016x}\n".encode()


def packaged_path() -> Path:
    """Return the path of the library beside this module."""
    return _HERE / FILE_NAME


def cached_folder() -> Path:
    """Return the folder of libraries in the user's cache, for packages that cannot be written to."""
    root = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(root) / "lance_ops"


def cached_path(digest: str) -> Path:
    """Return the path of the library of some sources in the user's cache.

    Args:
        digest: As `digest_sources` returns it.
    """
    return cached_folder() / f"loops-{digest}.so"
