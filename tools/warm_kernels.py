"""Compile the kernels on all cores, before processes start that each would compile them.

    python tools/warm_kernels.py

Takes a second where they are in the cache on disk. Without numba there is nothing to do.
"""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from lance_ops.encoding import kernels  # noqa: E402 - tools are scripts beside the package


def main() -> int:
    """Compile what is missing; a kernel that does not compile fails the command with its error."""
    # Also forgets what other sources were compiled to, which must not happen while others compile.
    if not kernels.available():
        return 0
    folder = Path(kernels.__file__).parent
    # The longest modules take longest: none of them is left for one process at the end.
    names = sorted(kernels.names(), key=lambda name: -_size(folder, name))
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        list(pool.map(_compile, names))
    return 0


def _compile(name: str) -> None:
    kernels.load(name)


def _size(folder: Path, name: str) -> int:
    return folder.joinpath(*name.split(".")).with_suffix(".py").stat().st_size


if __name__ == "__main__":
    sys.exit(main())
