"""Build the loop library from the sources of the kernels.

Needs numba and a C compiler. The loops are compiled twice, for any x86-64 processor since 2009 and for those
since 2013, by two processes; the library chooses when it is loaded.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lance_ops.encoding.library.sources import cached_path, digest_sources, is_supported, packaged_path, seal
from lance_ops.encoding.library.wrappers import write_source

_PROCESSORS = {"v2": "x86-64-v2", "v3": "x86-64-v3"}
_COMPILERS = ("cc", "gcc", "clang")


class BuildError(Exception):
    """The library cannot be built; the message says why."""


def find_compiler() -> str | None:
    """Return the C compiler that would be used, `$CC` first, or None."""
    names = (os.environ["CC"], *_COMPILERS) if os.environ.get("CC") else _COMPILERS
    return next((found for name in names if (found := shutil.which(name))), None)


def build_library(techniques: Sequence[str], path: Path) -> None:
    """Build the library.

    Args:
        techniques: Names of all kernels, such as `bits.rle`.
        path: Where it goes; replaced as a whole.

    Raises:
        BuildError: The platform is not supported, there is no C compiler, or compilation fails.
    """
    compiler = find_compiler()
    if not is_supported():
        raise BuildError("loop libraries are made for CPython on Linux x86-64 only")
    if compiler is None:
        raise BuildError(f"no C compiler on PATH ({', '.join(_COMPILERS)}); install one, or set CC")
    digest = digest_sources()
    with tempfile.TemporaryDirectory(prefix="lance-ops-loops-") as name:
        folder = Path(name)
        loops = _emit_all(techniques, folder)
        source = folder / "wrappers.c"
        source.write_text(write_source(loops, list(_PROCESSORS)), encoding="utf-8")
        library = folder / "loops.so"
        _run(
            [compiler, "-shared", "-O2", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off"]
            + ["-Wl,--no-undefined", "-Wl,--gc-sections", "-Wl,-s", "-o", str(library), str(source)]
            + [str(folder / f"{prefix}.o") for prefix in _PROCESSORS]
            + ["-lm"]
        )
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        shutil.copyfile(library, partial)
        seal(partial, digest)
        partial.chmod(0o644)
        partial.replace(path)


def writable_path() -> Path:
    """Return where a library for the sources at hand goes: beside the package, or in the user's cache."""
    beside = packaged_path()
    return beside if os.access(beside.parent, os.W_OK) else cached_path(digest_sources())


def _emit_all(techniques: Sequence[str], folder: Path) -> list[dict[str, object]]:
    running = []
    for prefix, processor in _PROCESSORS.items():
        environment = os.environ | {
            "NUMBA_CPU_NAME": processor,
            "NUMBA_CPU_FEATURES": "",
            # What is loaded from a cache has no module to emit.
            "NUMBA_CACHE_DIR": str(folder / f"cache-{prefix}"),
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]),
        }
        environment.pop("NUMBA_DISABLE_JIT", None)
        command = [sys.executable, "-m", "lance_ops.encoding.library.emit", prefix]
        command += [str(folder / f"{prefix}.o"), str(folder / f"{prefix}.json"), *techniques]
        running.append(
            subprocess.Popen(  # noqa: S603 - our own program
                command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
        )
    said = [process.communicate()[1] for process in running]
    for process, text in zip(running, said, strict=True):
        if process.returncode:
            raise BuildError(f"numba could not compile the loops:\n{text.strip()}")
    tables = [json.loads((folder / f"{prefix}.json").read_text("utf-8")) for prefix in _PROCESSORS]
    found: list[dict[str, object]] = tables[0]
    if [loop["name"] for loop in tables[1]] != [loop["name"] for loop in found]:
        raise BuildError("the sources of the loops changed while they were compiled; build again")
    return found


def _run(command: list[str]) -> None:
    done = subprocess.run(  # noqa: S603 - the compiler that was found
        command, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"exit code {done.returncode} of {command[0]}:\n{done.stderr.strip()[-2000:]}")
