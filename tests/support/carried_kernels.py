"""Compiled kernels for a copy of the package: a test of the copy does not wait for the compiler."""

import os
import shutil
from pathlib import Path

from lance_ops.encoding import kernels

PACKAGE = Path(kernels.__file__).resolve().parents[2]
_KERNELS = Path(kernels.__file__).resolve().parent.relative_to(PACKAGE)
_KEPT = ("*.nbi", "*.nbc", "sources-*")


def carry_kernels(copy: Path, *, but: str | None = None) -> None:
    """Put what is compiled for this checkout beside the same sources of a copy.

    Args:
        copy: A copy of the folder `lance_ops`.
        but: A module of the kernels, such as `wire`, that the copy has to compile for itself.
    """
    for source in (PACKAGE / _KERNELS).rglob("*.py"):
        path = copy / source.relative_to(PACKAGE)
        assert path.read_bytes() == source.read_bytes(), f"{path} is another file than {source}"
        # By its time of change numba tells whether a source is the one that it compiled.
        found = source.stat()
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    for folder in (PACKAGE / _KERNELS).rglob("__pycache__"):
        there = copy / folder.relative_to(PACKAGE)
        there.mkdir(parents=True, exist_ok=True)
        for kept in (file for pattern in _KEPT for file in folder.glob(pattern)):
            if but is None or not kept.name.startswith(f"{but}."):
                shutil.copy2(kept, there)
