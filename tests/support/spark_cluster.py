"""A standalone Spark cluster of processes on loopback, for tests of distributed runs."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from lance_ops.errors import InvalidArgumentError, SparkStartError
from lance_ops.spark.session import LOOPBACK, spark_environment

_MASTER_CLASS = "org.apache.spark.deploy.master.Master"
_WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
_POLL_SECONDS = 0.1
_STOP_SECONDS = 10.0
_PORT_ATTEMPTS = 3


class StandaloneCluster:
    """One master and some workers, each a process of its own; a context manager.

    Args:
        workers: Number of worker processes.
        cores: Cores that each worker offers.
        memory: Memory that each worker offers to executors, in Spark's notation.
        hosts: Names of this machine by which the workers go in turn. Spark runs no second copy of a task on
            the host of the first, and tells hosts apart by these names.
        start_seconds: How long master and workers may take to find each other.

    Raises:
        InvalidArgumentError: No worker or no core was asked for.
        JavaNotFoundError: No Java of version 17 or newer was found.
        SparkStartError: A process ended early or the workers did not register in time (on entry).
    """

    def __init__(
        self,
        workers: int = 2,
        cores: int = 1,
        memory: str = "1g",
        *,
        hosts: Sequence[str] = (LOOPBACK,),
        start_seconds: float = 90.0,
    ) -> None:
        if workers < 1 or cores < 1:
            raise InvalidArgumentError("a cluster needs at least one worker with one core")
        self._hosts = tuple(hosts)
        self._worker_count = workers
        self._cores = cores
        self._memory = memory
        self._start_seconds = start_seconds
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self._killed: set[int] = set()
        self._folder = Path()
        self._status_url = ""
        self.master_url = ""

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers by their numbers; those that were killed are among them."""
        return tuple(worker.pid for worker in self._workers)

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="lance-ops-cluster-"))
        try:
            environment = self._build_environment()
            deadline = time.monotonic() + self._start_seconds
            self._start_master(environment, deadline)
            self._workers = [self._start_worker(number, environment) for number in range(self._worker_count)]
            self.wait_for_workers(self._worker_count, max(1.0, deadline - time.monotonic()))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def kill_worker(self, number: int) -> None:
        """End a worker and the executors in it at once, as a crash of its machine would."""
        worker = self._workers[number]
        self._killed.add(number)
        _signal_group(worker, signal.SIGKILL)
        worker.wait()

    def wait_for_workers(self, count: int, timeout_seconds: float) -> None:
        """Return when the master counts exactly this many living workers.

        Raises:
            SparkStartError: It did not come to that in time, or a process ended that nobody killed.
        """
        deadline = time.monotonic() + timeout_seconds
        while self._living_workers() != count:
            self._check_running()
            if time.monotonic() > deadline:
                raise self._start_error(f"{count} workers were not registered within {timeout_seconds:.0f} s")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """End every process that this cluster started and remove its files."""
        running = [process for process in (*self._workers, self._master) if process is not None]
        for process in running:
            _signal_group(process, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
        for process in running:
            # The group outlives its leader while an executor still shuts down.
            _signal_group(process, signal.SIGKILL)
            process.wait()
        self._workers, self._master = [], None
        self._killed.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _build_environment(self) -> dict[str, str]:
        return {
            **os.environ,
            **spark_environment(f"spark://{LOOPBACK}"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
            # A taken port must be an error: Spark would quietly listen on the next one.
            "SPARK_DAEMON_JAVA_OPTS": "-Dspark.port.maxRetries=0",
            # Its port is fixed: a second cluster on the machine could not start. Nothing here uses it.
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        }

    def _start_master(self, environment: Mapping[str, str], deadline: float) -> None:
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            port, status_port = _free_ports(2)
            self.master_url = f"spark://{LOOPBACK}:{port}"
            self._status_url = f"http://{LOOPBACK}:{status_port}/json/"
            arguments = ["--host", LOOPBACK, "--port", str(port), "--webui-port", str(status_port)]
            self._master = self._start(_MASTER_CLASS, arguments, "master", environment)
            while self._master.poll() is None:
                if self._read_status().get("url") == self.master_url:
                    return
                if time.monotonic() > deadline:
                    raise self._start_error(f"no master answered within {self._start_seconds:.0f} s")
                time.sleep(_POLL_SECONDS)
            # Between looking for a free port and using it, another process may have taken it.
            if attempt == _PORT_ATTEMPTS or "BindException" not in self._log_tail("master"):
                raise self._start_error(f"the master ended with code {self._master.returncode}")

    def _start_worker(self, number: int, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        name = f"worker-{number}"
        host = self._hosts[number % len(self._hosts)]
        arguments = ["--host", host, "--cores", str(self._cores), "--memory", self._memory]
        arguments += ["--webui-port", "0", "--work-dir", str(self._folder / name), self.master_url]
        return self._start(_WORKER_CLASS, arguments, name, environment)

    def _start(
        self, main_class: str, arguments: Sequence[str], name: str, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        with self._log_path(name).open("wb") as log:
            # A group of its own, so that executors can be ended together with their worker.
            return subprocess.Popen(
                [f"{environment['SPARK_HOME']}/bin/spark-class", main_class, *arguments],
                env=environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _check_running(self) -> None:
        if self._master is None or self._master.poll() is not None:
            raise self._start_error("the master is gone")
        for number, worker in enumerate(self._workers):
            if worker.poll() is not None and number not in self._killed:
                raise self._start_error(f"worker {number} ended with code {worker.returncode}")

    def _living_workers(self) -> int:
        workers = self._read_status().get("workers", [])
        return sum(worker.get("state") == "ALIVE" for worker in workers)

    def _read_status(self) -> dict[str, Any]:
        # A proxy of the environment has no business on loopback.
        opener = build_opener(ProxyHandler({}))
        try:
            with opener.open(self._status_url, timeout=5) as answer:
                status: dict[str, Any] = json.load(answer)
        except (URLError, OSError, ValueError):
            return {}
        return status

    def _start_error(self, message: str) -> SparkStartError:
        names = ["master", *(f"worker-{number}" for number in range(len(self._workers)))]
        tails = "\n".join(f"--- {name}\n{self._log_tail(name)}" for name in names)
        return SparkStartError(f"the standalone cluster failed: {message}\n{tails}")

    def _log_path(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _log_tail(self, name: str) -> str:
        try:
            return self._log_path(name).read_text(encoding="utf-8", errors="replace")[-2000:]
        except OSError:
            return ""


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on at this moment, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
