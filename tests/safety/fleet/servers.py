"""The processes of a Dagster deployment, each on its own, so that each can be killed and started again."""

import os
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.support.dagster_server import free_port

CODE, DAEMON, WEB, WORKER = "code server", "daemon", "webserver", "worker"

_WORKSPACE = """
load_from:
  - grpc_server: {{host: 127.0.0.1, port: {port}, location_name: {location}}}
"""
LOCATION = "fleet"
_START_SECONDS = 300.0
_PATIENT = {"DAGSTER_BACKFILL_RETRY_DEFINITION_CHANGED_ERROR": "1"}
"""Without it a backfill fails for good that the daemon looks at while no code server is there."""


@dataclass(slots=True)
class Servers:
    """A code server, a daemon and a webserver.

    Attributes:
        definitions: Python file of the code location.
        home: Folder with a `dagster.yaml`; logs are written there too.
        variables: Added to the environment.
        spared: Processes that only a power cut kills.
    """

    definitions: Path
    home: Path
    variables: Mapping[str, str]
    code_port: int = field(default_factory=free_port)
    web_port: int = field(default_factory=free_port)
    spared: set[int] = field(default_factory=set)
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Of the webserver."""
        return f"http://127.0.0.1:{self.web_port}"

    def begin(self) -> None:
        """Start all of them, and wait until the webserver has loaded the code location.

        Raises:
            TimeoutError: One of them does not answer.
        """
        self.start(CODE)
        self._wait(CODE)
        self.start(DAEMON, WEB)
        self._wait(WEB)

    def start(self, *names: str) -> None:
        """Start those of these that are not running."""
        workspace = self.home / "workspace.yaml"
        workspace.write_text(_WORKSPACE.format(port=self.code_port, location=LOCATION))
        common = ("-w", str(workspace))
        on_loopback = ("-h", "127.0.0.1", "-p")
        commands = {
            CODE: (
                *("dagster", "api", "grpc", "-f", str(self.definitions), *on_loopback, str(self.code_port)),
                *("--location-name", LOCATION),
            ),
            DAEMON: ("dagster-daemon", "run", *common),
            WEB: ("dagster-webserver", *common, *on_loopback, str(self.web_port)),
        }
        for name in names:
            program, *arguments = commands[name]
            running = self._running.get(name)
            if running is None or running.poll() is not None:
                with (self.home / f"{name.replace(' ', '_')}.log").open("ab") as log:
                    self._running[name] = subprocess.Popen(
                        [str(Path(sys.executable).with_name(program)), *arguments],
                        cwd=self.home,
                        env={**os.environ, **_PATIENT, "DAGSTER_HOME": str(self.home), **self.variables},
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                    )

    def _answers(self, name: str) -> bool:
        with suppress(OSError):
            if name == CODE:
                socket.create_connection(("127.0.0.1", self.code_port), timeout=5).close()
                return True
            with urllib.request.urlopen(f"{self.url}/server_info", timeout=5):
                return True
        return False

    def _wait(self, name: str) -> None:
        end = time.monotonic() + _START_SECONDS
        while not self._answers(name):
            if self._running[name].poll() is not None or time.monotonic() > end:
                raise TimeoutError(f"the {name} does not answer; see the logs in {self.home}")
            time.sleep(0.2)

    def workers(self) -> list[psutil.Process]:
        """Processes of runs and their steps, whoever started them, and whether that one still lives."""
        own = {process.pid for process in self._running.values()}
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                spawned = any("spawn_main" in part for part in process.cmdline())
                if (
                    process.pid not in own
                    and spawned
                    and process.environ().get("DAGSTER_HOME") == str(self.home)
                ):
                    found.append(process)
        return found

    def kill(self, kind: str, chance: random.Random) -> bool:
        """Kill a process without a word, and start it again if it is a server; whether there was one."""
        if kind == WORKER:
            workers = [worker for worker in self.workers() if worker.pid not in self.spared]
            if workers:
                with suppress(psutil.Error):
                    chance.choice(workers).kill()
            return bool(workers)
        process = self._running[kind]
        process.kill()
        process.wait()
        self.start(kind)
        return True

    def cut_power(self) -> None:
        """Kill all of them at once, and what they started."""
        for process in self._running.values():
            process.kill()
        # A worker may have been about to start another one.
        while workers := self.workers():
            for worker in workers:
                with suppress(psutil.Error):
                    worker.kill()
            psutil.wait_procs(workers, timeout=5)
        for process in self._running.values():
            process.wait()

    def stop(self) -> None:
        """End everything."""
        self.cut_power()
