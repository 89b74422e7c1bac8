"""A PostgreSQL server of the machine's own packages, on loopback, for as long as it is needed."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.dagster_server import free_port

_BINARIES = "/usr/lib/postgresql"
POSTGRES_HINT = "install PostgreSQL (Debian: apt-get install postgresql)"


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """Serve an empty database; yields its URL.

    Args:
        folder: Is made; the user `postgres` owns it where this process is root, as which no server runs.

    Raises:
        FileNotFoundError: PostgreSQL is not installed.
    """
    binaries, port = _binaries(), free_port()
    user = "postgres" if os.geteuid() == 0 else None
    folder.mkdir()
    if user is not None:
        shutil.chown(folder, user)
        folder.parent.chmod(0o755)

    def run(*command: str) -> None:
        subprocess.run(command, cwd="/", user=user, check=True, stdout=subprocess.DEVNULL)

    run(str(binaries / "initdb"), "-D", str(folder), "-U", "dagster", "--auth=trust")
    control = (str(binaries / "pg_ctl"), "-D", str(folder), "-w")
    run(*control, "-l", str(folder / "log"), "-o", f"-h 127.0.0.1 -p {port} -k {folder}", "start")
    try:
        yield f"postgresql+psycopg2://dagster@127.0.0.1:{port}/postgres"
    finally:
        run(*control, "-m", "immediate", "stop")


def is_installed() -> bool:
    """Return whether there is a server to start."""
    return shutil.which("initdb") is not None or any(Path(_BINARIES).glob("*/bin/initdb"))


def _binaries() -> Path:
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else sorted(Path(_BINARIES).glob("*/bin"))
    if not places:
        raise FileNotFoundError("PostgreSQL is not installed: its package is called postgresql")
    return places[-1]
