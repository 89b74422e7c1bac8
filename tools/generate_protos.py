"""Generate lance_ops/pb from protos/, or check that it is up to date.

    python tools/generate_protos.py            write lance_ops/pb
    python tools/generate_protos.py --check    exit with 1 when lance_ops/pb is not what protos/ gives

The generator lives in a virtual environment of its own: protobuf refuses generated code that is newer than
itself, so the generator has to be as old as the oldest protobuf that we allow, and its pins would clash with
those of the project.
"""

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from throwaway_environment import make_environment

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
PACKAGE = "lance_ops/pb"
OUTPUT = ROOT / PACKAGE
ENVIRONMENT = ROOT / ".venv-protoc"

# protoc 29 writes code for protobuf 5.29, which every 6.x accepts as well.
REQUIREMENTS = (
    "grpcio-tools==1.71.2",
    "mypy-protobuf==3.6.0",
    "protobuf==5.29.5",
    "types-protobuf==5.29.1.20250403",
    # grpc_tools wants pkg_resources, which later releases have dropped.
    "setuptools>=70,<81",
)
MAX_DIFF_LINES = 60

# protobuf 6.30 and 6.31 warn at every import of code that 5.29 generated, although all of 6.x runs it. The
# range in pyproject.toml says which releases we allow, and tools/check_protobuf_runtimes.py tries them all.
VERSION_CHECK = re.compile(
    r"^from google\.protobuf import runtime_version as _runtime_version\n"
    r"|^_runtime_version\.ValidateProtobufRuntimeVersion\(\n(?: .*\n)*\)\n",
    re.MULTILINE,
)


def generate(target: Path) -> None:
    """Write the modules and their type stubs into `target`."""
    python = make_environment(ENVIRONMENT, REQUIREMENTS)
    sources = sorted(PROTOS.glob("*.proto"))
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            str(python),
            "-m",
            "grpc_tools.protoc",
            # Every file is called "lance_ops/pb/..." in the descriptor pool: no clash with the table.proto
            # of another library, and the imports in the generated code are the right ones.
            f"-I{PACKAGE}={PROTOS}",
            f"--python_out={scratch}",
            f"--mypy_out=quiet:{scratch}",
            *(f"{PACKAGE}/{source.name}" for source in sources),
        ]
        path = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])
        subprocess.run(command, check=True, env={**os.environ, "PATH": path})
        for made in sorted((Path(scratch) / PACKAGE).iterdir()):
            text = made.read_text(encoding="utf-8")
            (target / made.name).write_text(VERSION_CHECK.sub("", text), encoding="utf-8")


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
