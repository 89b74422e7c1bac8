"""Build the loop library of the sources at hand: `python -m lance_ops.encoding.library [PATH]`."""

import importlib
import sys
from pathlib import Path

from lance_ops.encoding.library.build import BuildError, build_library
from lance_ops.encoding.library.sources import packaged_path


def main(arguments: list[str]) -> int:
    """Build the library at a path, beside the package without one; the exit code is 1 where that fails."""
    path = Path(arguments[0]) if arguments else packaged_path()
    kernels = importlib.import_module("lance_ops.encoding.kernels")
    try:
        build_library(kernels.names(), path)
    except BuildError as error:
        print(f"loop library: {error}", file=sys.stderr)  # noqa: T201 - a program
        return 1
    print(path)  # noqa: T201 - a program
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
