"""Build a release, check it in bare environments, and write its notes: `make release`.

Builds the sdist and the wheel, lets `twine check` read their metadata, installs the wheel with what it needs
under each supported Python, runs the first example of the README there, and renders the fragments of
`changes/` as release notes. Nothing is uploaded and no tag is made: the last line says how.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.throwaway_environment import make_environment

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
NUMBA = "numba==0.68.1"
"""Compiles the loops of the wheel; the hook of the wheel names the same release."""

TOOLS = ("hatchling>=1.25", "towncrier>=24.8", "twine>=6", NUMBA)


class ReleaseError(Exception):
    """The release cannot be made; the message says what to do."""


def supported_pythons() -> list[str]:
    """Versions of Python that the classifiers of the project name, such as `3.11`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    prefix = "Programming Language :: Python :: 3."
    return [line.rpartition(" ")[2] for line in project["classifiers"] if line.startswith(prefix)]


def starts(interpreter: str, version: str) -> bool:
    """Say whether a program runs and is this version of Python; shims of version managers may be empty."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [interpreter, "-c", code], capture_output=True, text=True, timeout=60, check=False
        )
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == version


def find_pythons(
    versions: Sequence[str], which: Callable[[str], str | None] = shutil.which
) -> dict[str, str]:
    """Find an interpreter on PATH for each version.

    Raises:
        ReleaseError: Interpreters are missing or do not start; the message names all of them.
    """
    found = {version: which(f"python{version}") or "" for version in versions}
    if missing := [version for version, path in found.items() if not path or not starts(path, version)]:
        raise ReleaseError(
            f"no interpreter on PATH for Python {', '.join(missing)}: a release is tried under every "
            "supported version; install them (for example `uv python install`) so that `python3.N` is found"
        )
    return found


def first_example(readme: str) -> str:
    """Return the first Python block of the README.

    Raises:
        ReleaseError: There is none.
    """
    block = re.search(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    if block is None:
        raise ReleaseError("README.md has no block marked `python` to run as the first example")
    return block[1]


def _run(*command: str | Path, cwd: Path = ROOT, output: bool = False) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, text=True, capture_output=output, check=False
    )
    if done.returncode:
        raise ReleaseError(
            f"exit code {done.returncode} of: {' '.join(map(str, command))}\n{done.stderr or ''}"
        )
    return done.stdout or ""


def _build(python: Path) -> tuple[Path, Path]:
    shutil.rmtree(DIST, ignore_errors=True)
    _run(python, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", DIST)
    _run(python, "-m", "twine", "check", "--strict", *sorted(DIST.iterdir()))
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, sdist


def _try_wheel(wheel: Path, version: str, interpreter: str) -> None:
    folder = ROOT / ".cache" / "release" / version
    shutil.rmtree(folder, ignore_errors=True)
    python = make_environment(folder, [str(wheel)], interpreter=interpreter)
    work = folder / "work"
    work.mkdir()
    (work / "example.py").write_text(
        first_example((ROOT / "README.md").read_text(encoding="utf-8")), encoding="utf-8"
    )
    _run(python, "example.py", cwd=work)
    said = _run(python, "-m", "lance_ops", "--version", cwd=work, output=True)
    print(f"Python {version}: {said.strip()}, the first example of the README ran")


def main() -> int:
    """Make and check the release; the exit code is 1 with a message when a step fails."""
    try:
        pythons = find_pythons(supported_pythons())
        tools = make_environment(ROOT / ".cache" / "release-tools", TOOLS)
        wheel, sdist = _build(tools)
        version = wheel.name.split("-")[1]
        for python_version, interpreter in pythons.items():
            _try_wheel(wheel, python_version, interpreter)
        notes = DIST / "NOTES.md"
        notes.write_text(
            _run(tools, "-m", "towncrier", "build", "--draft", "--version", version, output=True),
            encoding="utf-8",
        )
    except (ReleaseError, subprocess.CalledProcessError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(f"{wheel.name}, {sdist.name} and {notes.name} are in {DIST.name}/")
    print(
        f"To release: towncrier build --version {version}, commit, git tag v{version}, "
        "twine upload dist/*.whl dist/*.tar.gz"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
