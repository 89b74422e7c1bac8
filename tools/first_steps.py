"""Run the page of the first steps as a newcomer would, and print the output and the time of each step.

Each section of `docs/first-steps.md` is one step. Its Python blocks run in a Python of their own, its
commands in a shell, in an empty folder. With --bare the page begins with an installation of the wheel in a
new environment, with an empty home; this needs a package index.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "first-steps.md"

_PART = re.compile(
    r"^## (?P<title>[^\n]+)$|^```(?P<language>python|sh)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Step:
    """A section of the page.

    Attributes:
        title: Its heading.
        commands: What is run, as shown, and its argument list.
    """

    title: str
    commands: tuple[tuple[str, tuple[str, ...]], ...]


def read_steps(text: str, python: str) -> Iterator[Step]:
    """Yield the sections of a page that run something.

    Args:
        text: The page.
        python: Interpreter of the Python blocks.
    """
    title = ""
    commands: list[tuple[str, tuple[str, ...]]] = []
    for part in _PART.finditer(text):
        if part["title"] is not None:
            if commands:
                yield Step(title, tuple(commands))
            title, commands = part["title"], []
        elif part["language"] == "python":
            commands.append(("python", (python, "-c", part["code"])))
        else:
            lines = part["code"].replace("\\\n", " ").splitlines()
            commands += [(line, ("sh", "-euc", line)) for line in lines if line.strip()]
    if commands:
        yield Step(title, tuple(commands))


def run_steps(steps: Iterator[Step], folder: Path, environment: Mapping[str, str]) -> list[tuple[str, float]]:
    """Run steps in turn, and return the seconds of each.

    Raises:
        subprocess.CalledProcessError: A command failed; its output is printed.
    """
    taken = []
    for number, step in enumerate(steps, 1):
        print(f"\n{number}. {step.title}", flush=True)
        started = time.monotonic()
        for shown, command in step.commands:
            print(f"$ {shown}", flush=True)
            subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                check=True,
            )
        taken.append((step.title, time.monotonic() - started))
        print(f"({taken[-1][1]:.1f} s)", flush=True)
    return taken


def install(folder: Path) -> Path:
    """Install the checkout with the extras of the page in a new environment; return its interpreter."""
    python = str(folder / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"{ROOT}[pandas,duckdb]"], check=True)
    return Path(python)


def main(arguments: list[str] | None = None) -> None:
    """Run the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bare", action="store_true", help="Install the wheel first, with an empty home.")
    parser.add_argument("--folder", type=Path, help="Folder to work in, empty; default a temporary one.")
    chosen = parser.parse_args(arguments)
    place = Path(tempfile.mkdtemp(prefix="first-steps-"))
    try:
        folder = chosen.folder or place / "work"
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            parser.error(f"{folder} is not empty")
        taken = []
        environment = dict(os.environ)
        python = Path(sys.executable)
        if chosen.bare:
            started = time.monotonic()
            python = install(place / "environment")
            taken.append(("Installation of the wheel", time.monotonic() - started))
            home = place / "home"
            home.mkdir()
            environment = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        environment["PATH"] = f"{_commands(place, python)}{os.pathsep}{environment['PATH']}"
        try:
            taken += run_steps(read_steps(PAGE.read_text(encoding="utf-8"), str(python)), folder, environment)
        except subprocess.CalledProcessError as error:
            sys.exit(f"the step failed with exit code {error.returncode}")
        width = max(len(title) for title, _ in taken)
        print()
        for title, seconds in [*taken, ("Together", sum(seconds for _, seconds in taken))]:
            print(f"{title:{width}}  {seconds:6.1f} s")
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _commands(place: Path, python: Path) -> Path:
    """Return a folder with the command `lance-ops` of an interpreter."""
    folder = place / "bin"
    folder.mkdir()
    command = folder / "lance-ops"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(str(python))} -m lance_ops "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return folder


if __name__ == "__main__":
    main()
