"""Object stores of others on loopback, one of each kind in a run, each in a process of its own.

SeaweedFS and Azurite are servers that people use; moto is a model of S3 with its error texts.
"""

import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
AZURITE = ROOT / ".cache" / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
AZURITE_HINT = "they need node and npm, with which make test installs Azurite into .cache/azurite"

# The public account of every emulator.
_ACCOUNT = "devstoreaccount1"
_ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_UP_WITHIN = 300.0
# Runs a server for as long as somebody holds the other end of its input: however the tests end, it does, too.
_GUARD = """
import subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
try:
    sys.stdin.read()
finally:
    server.kill()
"""


class ObjectServer:
    """A server: its process, its storage options, and its buckets.

    Args:
        folder: For its data; kept over restarts.
    """

    scheme = "s3"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.bucket = ""
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        """The command line; the ports are the same at every start."""
        raise AssertionError

    def create_bucket(self, name: str) -> None:
        """Make a bucket or container; raises while the server is not up."""
        raise AssertionError

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        """Storage options, ours and the peer's, directly or through a proxy."""
        raise AssertionError

    def new_bucket(self) -> str:
        """Make a bucket and return its URI."""
        name = f"b{uuid.uuid4().hex}"
        self.create_bucket(name)
        return f"{self.scheme}://{name}"

    def new_root(self) -> str:
        """Return the URI of an empty folder in a bucket that all share: some servers hold few buckets."""
        return f"{self.bucket}/{uuid.uuid4().hex}"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        log = (self.folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _GUARD, *self.command()],
                cwd=self.folder,
                env={**os.environ, "HOME": str(self.folder), "TMPDIR": str(self.folder)},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Not in reach of the terminal's signals, and all that it starts goes with it.
                start_new_session=True,
            )
        self._wait_until_up()

    def _wait_until_up(self) -> None:
        # An open port is not a server yet: it counts when it has taken a bucket.
        deadline = time.monotonic() + _UP_WITHIN
        while True:
            try:
                self.bucket = self.new_bucket()
            except (OSError, http.client.HTTPException, ValueError) as error:
                ended = self._process is None or self._process.poll() is not None
                if ended or time.monotonic() > deadline:
                    text = (self.folder / "log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"{type(self).__name__} did not come up: {error}\n{text}") from error
                time.sleep(0.2)
            else:
                return

    def kill(self) -> None:
        """End it at once, as a crash does, and wait until its ports are free."""
        process, self._process = self._process, None
        if process is not None:
            with process, contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


class _S3(ObjectServer):
    key, secret = "test", "verysecretvalue"

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        return {
            "aws_access_key_id": self.key,
            "aws_secret_access_key": self.secret,
            "aws_region": "us-east-1",
            "aws_endpoint": endpoint or self.endpoint,
            "allow_http": "true",
            "timeout": "60s",
        }

    def create_bucket(self, name: str) -> None:
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        nothing = hashlib.sha256(b"").hexdigest()
        host = f"127.0.0.1:{self.port}"
        headers = {"host": host, "x-amz-content-sha256": nothing, "x-amz-date": now}
        signed = ";".join(headers)
        lines = "".join(f"{key}:{value}\n" for key, value in headers.items())
        request = f"PUT\n/{name}\n\n{lines}\n{signed}\n{nothing}"
        scope = f"{now[:8]}/us-east-1/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = b"AWS4" + self.secret.encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, SignedHeaders={signed}, "
            f"Signature={hmac.digest(key, text.encode(), 'sha256').hex()}"
        )
        _put(self.port, f"/{name}", headers)


class SeaweedFS(_S3):
    """A distributed object store, its parts in one process."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        names = ["master", "volume", "filer", "s3"]
        numbers = _free_ports(2 * len(names))
        self._ports = dict(zip(names, zip(numbers[::2], numbers[1::2], strict=True), strict=True))
        self.port = self._ports["s3"][0]
        identity = {
            "name": "test",
            "credentials": [{"accessKey": self.key, "secretKey": self.secret}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        (folder / "data").mkdir()

    def command(self) -> list[str]:
        program = str(Path(sys.executable).with_name("weed"))
        ports = [
            part
            for name, (plain, grpc) in self._ports.items()
            for part in (f"-{name}.port={plain}", f"-{name}.port.grpc={grpc}")
        ]
        return [
            program,
            "server",
            "-dir=data",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-master.telemetry=false",
            "-master.volumeSizeLimitMB=64",
            "-volume.max=100",
            "-filer",
            "-s3",
            "-s3.config=s3.json",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            *ports,
        ]


class Moto(_S3):
    """A model of S3 in memory, which lets in anybody."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.port,) = _free_ports(1)

    def command(self) -> list[str]:
        return [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]


class Azurite(ObjectServer):
    """Microsoft's emulator of Azure Blob Storage."""

    scheme = "az"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.port,) = _free_ports(1)
        (folder / "data").mkdir()

    def command(self) -> list[str]:
        return [
            str(shutil.which("node")),
            str(AZURITE),
            "--blobHost=127.0.0.1",
            f"--blobPort={self.port}",
            "--location=data",
            "--skipApiVersionCheck",
            "--disableTelemetry",
            "--silent",
        ]

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        return {
            "azure_storage_account_name": _ACCOUNT,
            "azure_storage_account_key": _ACCOUNT_KEY,
            "azure_storage_endpoint": f"{endpoint or self.endpoint}/{_ACCOUNT}",
            "allow_http": "true",
            "timeout": "60s",
        }

    def create_bucket(self, name: str) -> None:
        headers = {"x-ms-date": format_datetime(datetime.now(UTC), usegmt=True), "x-ms-version": "2021-12-02"}
        lines = "".join(f"{key}:{value}\n" for key, value in headers.items())
        resource = f"/{_ACCOUNT}/{_ACCOUNT}/{name}\nrestype:container"
        text = "PUT" + "\n" * 12 + lines + resource
        signature = hmac.digest(base64.b64decode(_ACCOUNT_KEY), text.encode(), "sha256")
        headers["authorization"] = f"SharedKey {_ACCOUNT}:{base64.b64encode(signature).decode()}"
        _put(self.port, f"/{_ACCOUNT}/{name}?restype=container", headers)


def _put(port: int, path: str, headers: dict[str, str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request("PUT", path, headers={**headers, "content-length": "0"})
        response = connection.getresponse()
        body = response.read()
    if response.status not in {200, 201}:
        raise ValueError(f"{response.status}: {body[:500]!r}")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextlib.contextmanager
def running(kind: type[ObjectServer]) -> Iterator[ObjectServer]:
    """Run a server for as long as the context lasts."""
    # Not below pytest's folder: what a server of an earlier run holds open could not be removed.
    with tempfile.TemporaryDirectory(prefix="lance-ops-", ignore_cleanup_errors=True) as folder:
        server = kind(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.kill()


@pytest.fixture(scope="session")
def seaweed() -> Iterator[ObjectServer]:
    """A fresh SeaweedFS for the whole run."""
    with running(SeaweedFS) as server:
        yield server


@pytest.fixture(scope="session")
def moto() -> Iterator[ObjectServer]:
    """A fresh moto for the whole run."""
    with running(Moto) as server:
        yield server


@pytest.fixture(scope="session")
def azurite() -> Iterator[ObjectServer]:
    """A fresh Azurite for the whole run; left out without node (in CI that is a failure)."""
    if not AZURITE.exists() or shutil.which("node") is None:
        pytest.skip("Azurite is not installed")
    with running(Azurite) as server:
        yield server
