"""Virtual environments beside the project's own, for tools whose pins would clash with it."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
STAMP = "requirements.sha256"


def core_environment() -> Path:
    """Make the environment with the dependencies of the core alone; return its interpreter."""
    declared = _project()["dependencies"]
    return make_environment(CACHE / "core", [*declared, "--constraint", str(ROOT / "constraints.txt")])


def airflow_environment() -> Path:
    """Make the environment with Airflow and the dependencies of the core; return its interpreter."""
    project = _project()
    extras = project["optional-dependencies"]["airflow"]
    tools = ("apache-airflow-providers-openlineage", "pytest")
    return make_environment(CACHE / "airflow", [*project["dependencies"], *extras, *tools])


def _project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def make_environment(folder: Path, requirements: Sequence[str], interpreter: str = sys.executable) -> Path:
    """Make the environment unless it already holds exactly these requirements; return its interpreter.

    Installs with uv where that is on PATH, with pip otherwise. Safe to call from several processes at once.
    """
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    stamp = folder / STAMP
    wanted = hashlib.sha256("\n".join([sys.version, interpreter, *requirements]).encode()).hexdigest()
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder.parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # The stamp is written last, so an interrupted installation starts again.
        if not (python.exists() and stamp.exists() and stamp.read_text() == wanted):
            shutil.rmtree(folder, ignore_errors=True)
            _install(folder, python, requirements, interpreter)
            stamp.write_text(wanted)
    finally:
        os.close(lock)
    return python


def _install(folder: Path, python: Path, requirements: Sequence[str], interpreter: str) -> None:
    uv = shutil.which("uv")
    if uv:
        subprocess.run([uv, "venv", "--quiet", "--python", interpreter, str(folder)], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
    else:
        subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *requirements], check=True)
