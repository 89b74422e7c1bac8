"""A real `dagster dev`, with webserver and daemon, for as long as a test needs it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import psutil

MESSAGE_KEY = "Idempotency-Key"
"""Header of an alert: the same for a message that is sent twice."""
_START_SECONDS = 300.0
_STOP_SECONDS = 10.0


@contextmanager
def dagster_dev(location: Path, home: Path, variables: Mapping[str, str]) -> Iterator[str]:
    """Serve a code location on a free port of loopback; yields the URL.

    Args:
        location: Python file with the definitions.
        home: Folder with a `dagster.yaml`; the log is written there too.
        variables: Added to the environment.
    """
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "dagster",
        "dev",
        "-f",
        str(location),
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
    ]
    log = home / "dagster.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=home,
            env={**os.environ, "DAGSTER_HOME": str(home), **variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_until_it_answers(f"{url}/server_info", process, log)
        yield url
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, and end what is left of its servers and runs."""
    started = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_SECONDS)
    for child in started:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    process.kill()
    process.wait()


def free_port() -> int:
    """A port of loopback that nobody uses just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        assert process.poll() is None, f"dagster dev ended:\n{log.read_text()}"
        assert time.monotonic() < deadline, f"dagster dev does not answer:\n{log.read_text()}"
        time.sleep(0.2)


@contextmanager
def webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that takes alerts; yields its URL and what it got so far."""
    received: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            received.append({**body, MESSAGE_KEY: self.headers[MESSAGE_KEY]})
            self.send_response(204)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/alerts", received
        finally:
            server.shutdown()
            thread.join()


_LAUNCH = """
mutation Launch($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
    ... on RunConfigValidationInvalid { errors { message } }
  }
}
"""


def launch_run(url: str, job: str, *, location: str, config: object, tags: Mapping[str, str]) -> str:
    """Launch a run as the launchpad does; returns its id."""
    params = {
        "selector": {
            "repositoryLocationName": location,
            "repositoryName": "__repository__",
            "jobName": job,
        },
        "runConfigData": config,
        "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in tags.items()]},
    }
    answer = query(url, _LAUNCH, {"params": params})["launchRun"]
    assert answer["__typename"] == "LaunchRunSuccess", answer
    return answer["run"]["runId"]


_STATUS = """
query Status($runId: ID!) { runOrError(runId: $runId) { __typename ... on Run { status } } }
"""


def run_status(url: str, run_id: str) -> str:
    """The status of a run, as the page of runs has it."""
    answer = query(url, _STATUS, {"runId": run_id})["runOrError"]
    assert answer["__typename"] == "Run", answer
    return answer["status"]


_TERMINATE = """
mutation Terminate($runId: String!) {
  terminateRun(runId: $runId) { __typename ... on TerminateRunFailure { message } }
}
"""


def terminate_run(url: str, run_id: str) -> None:
    """Ask for the end of a run as the button "Terminate" does."""
    answer = query(url, _TERMINATE, {"runId": run_id})["terminateRun"]
    assert answer["__typename"] == "TerminateRunSuccess", answer


def query(url: str, text: str, variables: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Ask the webserver's GraphQL interface."""
    body = json.dumps({"query": text, "variables": dict(variables or {})}).encode()
    request = urllib.request.Request(f"{url}/graphql", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        answer = json.load(response)
    assert "errors" not in answer, answer["errors"]
    return answer["data"]
