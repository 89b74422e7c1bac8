"""Generate lance_ops/pb from protos/, or check that it is up to date.

The generator lives in a virtual environment of its own: the runtime refuses code that is newer than
itself, so the generator has to be older than the newest runtime we allow, and its pins would otherwise
clash with ours.

    python tools/generate_protos.py            write lance_ops/pb
    python tools/generate_protos.py --check    exit with 1 when lance_ops/pb is not what protos/ gives
"""

import argparse
import difflib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
PACKAGE = "lance_ops/pb"
OUTPUT = ROOT / PACKAGE
ENVIRONMENT = ROOT / ".venv-protoc"

# protoc 29 writes code for protobuf 5.29, the oldest runtime we allow; every 6.x accepts it.
REQUIREMENTS = (
    "grpcio-tools==1.71.2",
    "mypy-protobuf==3.6.0",
    "protobuf==5.29.5",
    "types-protobuf==5.29.1.20250403",
    # grpc_tools needs pkg_resources on some interpreters, and newer releases have dropped it.
    "setuptools>=70,<81",
)
MAX_DIFF_LINES = 60


def environment_python() -> Path:
    """Make the generator's environment if it is missing or holds other pins; return its interpreter."""
    folder = "Scripts" if os.name == "nt" else "bin"
    python = ENVIRONMENT / folder / "python"
    stamp = ENVIRONMENT / "requirements.sha256"
    wanted = hashlib.sha256("\n".join(REQUIREMENTS).encode()).hexdigest()
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    if ENVIRONMENT.exists():
        shutil.rmtree(ENVIRONMENT)
    uv = shutil.which("uv")
    if uv:
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(ENVIRONMENT)], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), *REQUIREMENTS], check=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *REQUIREMENTS], check=True)
    stamp.write_text(wanted)
    return python


def generate(target: Path) -> None:
    """Write the modules and their type stubs into `target`."""
    python = environment_python()
    sources = sorted(PROTOS.glob("*.proto"))
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            str(python),
            "-m",
            "grpc_tools.protoc",
            # The names in the descriptor pool are "lance_ops/pb/...": they cannot collide with another
            # library's table.proto, and the generated imports are the ones we need.
            f"-I{PACKAGE}={PROTOS}",
            f"--python_out={scratch}",
            f"--mypy_out=quiet:{scratch}",
            *(f"{PACKAGE}/{source.name}" for source in sources),
        ]
        path = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])
        subprocess.run(command, check=True, env={**os.environ, "PATH": path})
        for made in sorted((Path(scratch) / PACKAGE).iterdir()):
            shutil.copyfile(made, target / made.name)


def generated_files(folder: Path) -> dict[str, str]:
    """Return the generated files in `folder` by name."""
    paths = [*folder.glob("*_pb2.py"), *folder.glob("*_pb2.pyi")]
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(paths)}


def differences(fresh: dict[str, str], committed: dict[str, str]) -> list[str]:
    """Return a diff from the committed files to the fresh ones, empty when they are equal."""
    lines: list[str] = []
    for name in sorted(fresh.keys() | committed.keys()):
        before = committed.get(name, "").splitlines()
        after = fresh.get(name, "").splitlines()
        lines += difflib.unified_diff(before, after, f"{PACKAGE}/{name}", "from protos/", lineterm="", n=0)
    return lines


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Generate lance_ops/pb from protos/.")
    parser.add_argument("--check", action="store_true", help="only compare; exit with 1 when they differ")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        fresh = generated_files(Path(scratch))
    committed = generated_files(OUTPUT)
    changes = differences(fresh, committed)
    if check:
        for line in changes[:MAX_DIFF_LINES]:
            print(line[:200], file=sys.stderr)
        if changes:
            print(f"{PACKAGE} is not what protos/ generates: run `make protos`.", file=sys.stderr)
        return 1 if changes else 0
    for name in committed.keys() - fresh.keys():
        (OUTPUT / name).unlink()
    for name, text in fresh.items():
        (OUTPUT / name).write_text(text, encoding="utf-8")
    print(f"{PACKAGE}: {len(fresh)} files, {len(changes)} changed lines.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
