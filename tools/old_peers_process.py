"""A process of an old pylance, which may crash or hang without taking the exchange with it."""

import json
import os
import select
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

WORKER = Path(__file__).with_name("old_peers_worker.py")
SECONDS = 30.0


class Peer:
    """One release of pylance.

    Args:
        version: Which one.
        python: The interpreter of an environment that has it.
    """

    def __init__(self, version: str, python: Path) -> None:
        self.version = version
        self._python = python
        self._process: subprocess.Popen[str] | None = None

    def ask(self, job: dict[str, Any]) -> str | None:
        """Have a job done; the answer is what went wrong."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        # One line is one answer, so that nothing is left in the buffer that `select` cannot see.
        ready, _, _ = select.select([process.stdout], [], [], SECONDS)
        line = process.stdout.readline() if ready else ""
        if line:
            return json.loads(line).get("error")
        self._stop()
        return "the process died" if ready else f"no answer after {SECONDS:.0f} s"

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [self._python, "-W", "ignore", WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            )
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Self:
        """Start, so that an environment that does not work is noticed."""
        problem = self.ask({"kind": "hello"})
        if problem is not None:
            raise RuntimeError(f"pylance {self.version} does not start: {problem}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the process."""
        self._stop()
