"""Installs Azurite, the emulator of Azure Blob Storage, for the tests: into .cache/azurite, with npm.

Where node or npm is missing it does nothing: the tests that need it say so. In CI (CI=true) both have to be
there.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "3.37.0"
ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".cache" / "azurite"
STAMP = "version"


def main() -> int:
    """Bring .cache/azurite up to date; returns the exit code."""
    if is_installed():
        return 0
    in_ci = os.environ.get("CI", "").lower() in {"1", "true"}
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        if in_ci:
            print("Azurite needs node and npm", file=sys.stderr)
        return int(in_ci)
    print(f"Installing Azurite {VERSION} for the tests; this takes a minute", flush=True)
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    # Moved into its place whole: an install that is interrupted is made again.
    with tempfile.TemporaryDirectory(prefix="azurite-", dir=FOLDER.parent) as scratch:
        target = Path(scratch) / "azurite"
        target.mkdir()
        command = [npm, "install", "--no-audit", "--no-fund", "--no-update-notifier", "--ignore-scripts"]
        done = subprocess.run(
            [*command, "--prefix", str(target), f"azurite@{VERSION}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            print("\n".join((done.stdout + done.stderr).splitlines()[-20:]), file=sys.stderr)
            print("Azurite could not be installed; the tests that need it are left out", file=sys.stderr)
            return int(in_ci)
        (target / STAMP).write_text(VERSION)
        shutil.rmtree(FOLDER, ignore_errors=True)
        target.replace(FOLDER)
    return 0


def is_installed() -> bool:
    """Say whether the version that is wanted is there."""
    stamp = FOLDER / STAMP
    return stamp.exists() and stamp.read_text() == VERSION


if __name__ == "__main__":
    sys.exit(main())
