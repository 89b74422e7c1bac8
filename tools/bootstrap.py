"""Makes .venv and installs the package into it, editable, with the extras named on the command line.

Runs before anything is installed: standard library only. uv installs where it is on PATH, pip otherwise. A
stamp in the environment remembers what was installed from which declarations; it is removed before an install
starts and written after it ended well, so that an interrupted install is repeated.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import venv
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / ".lance-ops-stamp.json"
CONSTRAINTS = ROOT / "constraints.txt"
DECLARATIONS = (ROOT / "pyproject.toml", CONSTRAINTS)
HEARTBEAT_SECONDS = 20.0
PIP_INSTALL = ("install", "--no-input", "--progress-bar", "off")


class SetupError(Exception):
    """Something that the user has to put right; the message says what."""


def main(arguments: Sequence[str]) -> int:
    """Bring .venv up to date for the extras in `arguments` (one comma-separated list)."""
    wanted = {extra for extra in ",".join(arguments).split(",") if extra}
    try:
        with lock_environment():
            digest = digest_declarations()
            have = read_stamp(digest)
            if have is not None and wanted <= have and is_usable(PYTHON):
                return 0
            extras = sorted(wanted | (have or set()))
            STAMP.unlink(missing_ok=True)
            started = time.monotonic()
            installer = prepare_environment()
            print(
                f"Setting up .venv with {installer_name(installer)}; the first time takes minutes", flush=True
            )
            run_installer([*installer, *requirement_arguments(extras)])
            write_stamp(digest, extras)
            print(f"Environment ready after {time.monotonic() - started:.0f} s")
    except SetupError as error:
        print(f"set-up failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nset-up interrupted; the next run starts it again", file=sys.stderr)
        return 130
    return 0


@contextlib.contextmanager
def lock_environment() -> Iterator[None]:
    """Let one set-up at a time touch the environment: `make demo` and `make test` may start together."""
    with (ROOT / "pyproject.toml").open("r+b") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def digest_declarations() -> str:
    """Fingerprint of all that decides what is installed, the clone's own place included (it is editable)."""
    digest = hashlib.sha256(str(ROOT).encode())
    for path in DECLARATIONS:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def read_stamp(digest: str) -> set[str] | None:
    """Extras that are installed from these very declarations, or None when the environment is not current."""
    try:
        stamp = json.loads(STAMP.read_text())
        return set(stamp["extras"]) if stamp["digest"] == digest else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_stamp(digest: str, extras: Sequence[str]) -> None:
    """Record the finished install, whole or not at all."""
    partial = STAMP.with_suffix(".partial")
    partial.write_text(json.dumps({"digest": digest, "extras": list(extras)}))
    partial.replace(STAMP)


def is_usable(python: Path) -> bool:
    """Whether this interpreter starts and is new enough (its base may have been removed or upgraded)."""
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.run([python, "-c", check], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def prepare_environment() -> list[str]:
    """Make .venv when it is missing or broken and return the command that installs into it."""
    uv = shutil.which("uv")
    if not is_usable(PYTHON):
        if ENVIRONMENT.exists() and Path(sys.prefix).resolve() == ENVIRONMENT:
            raise SetupError(f"{ENVIRONMENT} is broken; remove it and try again")
        # Without pip at first: distributions that split ensurepip off can still make the bare environment.
        venv.EnvBuilder(clear=True, symlinks=True, with_pip=False).create(ENVIRONMENT)
    if uv:
        return [uv, "pip", "install", "--python", str(PYTHON)]
    own_pip = [str(PYTHON), "-m", "pip"]
    if succeeds([*own_pip, "--version"]) or succeeds([str(PYTHON), "-m", "ensurepip", "--default-pip"]):
        return [*own_pip, *PIP_INSTALL]
    # pip 22.3 and newer can serve another environment.
    outer_pip = [sys.executable, "-m", "pip", "--python", str(PYTHON)]
    if succeeds([*outer_pip, "--version"]):
        return [*outer_pip, *PIP_INSTALL]
    raise SetupError(
        "neither uv, pip nor the ensurepip module is here; install one of them "
        "(Debian and Ubuntu: apt-get install python3-venv)"
    )


def succeeds(command: Sequence[str]) -> bool:
    """Whether the command ends with code 0; its output is of no interest."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def installer_name(command: Sequence[str]) -> str:
    """`uv` or `pip`, for people."""
    return "uv" if Path(command[0]).name == "uv" else "pip"


def requirement_arguments(extras: Sequence[str]) -> list[str]:
    """Arguments of both installers: this clone, editable, with the tested set of versions."""
    return ["--constraint", str(CONSTRAINTS), "--editable", f"{ROOT}[{','.join(extras)}]"]


def run_installer(command: Sequence[str]) -> None:
    """Run it with a sign of life instead of hundreds of lines; a failure shows the last of them."""
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    last_lines: deque[str] = deque(maxlen=40)
    started = reported = time.monotonic()
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last_lines.append(line.rstrip())
            now = time.monotonic()
            if now - reported >= HEARTBEAT_SECONDS:
                print(f"  {now - started:4.0f} s  {line.strip()[:90]}", flush=True)
                reported = now
    if process.returncode != 0:
        print("\n".join(last_lines), file=sys.stderr)
        raise SetupError(f"the installer ended with code {process.returncode} (its last lines are above)")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
