"""Many cases in several processes: crashes, hangs and bugs are collected with the number of their case."""

import json
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.fuzz.subject import SUBJECTS

ROOT = Path(__file__).resolve().parents[2]
SECONDS_PER_CASE = 60.0
"""Most cases take less than a millisecond; machines may be busy."""
ENOUGH_BUGS = 25


@dataclass(slots=True)
class Result:
    """What a campaign found.

    Attributes:
        subject: What was damaged, one of `SUBJECTS`.
        answers: Cases that ended in a valid table, or in an answer.
        errors: Cases that ended in a typed error, or in a warning and a scan.
        bugs: Number of a case and what happened, for all others.
        seconds: How long it took.
    """

    subject: str = "files"
    answers: int = 0
    errors: int = 0
    bugs: list[tuple[int, str]] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        """A summary, with the command that repeats each bug."""
        total = self.answers + self.errors + len(self.bugs)
        speed = total / max(self.seconds, 0.001)
        lines = [
            (
                f"{total} damaged {self.subject} in {self.seconds:.0f} s ({speed:.0f}/s): "
                f"{self.answers} valid answers, {self.errors} typed errors, {len(self.bugs)} bugs"
            )
        ]
        lines += [
            f"case {case}: {bug}\n    repeat: python -m tests.fuzz --of {self.subject} --case {case}"
            for case, bug in self.bugs
        ]
        return "\n".join(lines)


def run_campaign(
    first: int,
    stop: int,
    *,
    subject: str = "files",
    workers: int = 2,
    seconds: float | None = None,
    environment: dict[str, str] | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> Result:
    """Read the damaged files with these numbers.

    Args:
        first: First case.
        stop: The case after the last one.
        subject: What is damaged, one of `SUBJECTS`.
        workers: Processes.
        seconds: Stop after so long, whatever is left.
        environment: More variables for the processes.
        report: Told about each bug when it is found.
    """
    started = time.monotonic()
    result = Result(subject)
    with tempfile.TemporaryDirectory(prefix="lance-ops-fuzz-") as folder:
        samples = Path(folder) / "corpus"
        samples.write_bytes(pickle.dumps(SUBJECTS[subject]().build()))
        lines: queue.Queue[tuple[int, str | None]] = queue.Queue()
        watched = [
            _Worker(number, subject, samples, first + number, stop, workers, lines, environment or {})
            for number in range(workers)
        ]
        try:
            for bug in _watch(watched, lines, result, started, seconds):
                result.bugs.append(bug)
                report(f"case {bug[0]}: {bug[1]}")
        finally:
            for worker in watched:
                worker.kill()
    result.bugs.sort()
    result.seconds = time.monotonic() - started
    return result


class _Worker:
    """One process at a time, for every so many-th case."""

    def __init__(
        self,
        number: int,
        subject: str,
        samples: Path,
        first: int,
        stop: int,
        stride: int,
        lines: "queue.Queue[tuple[int, str | None]]",
        environment: dict[str, str],
    ) -> None:
        self.number = number
        self.is_done = False
        self._subject = subject
        self._samples = samples
        self._stop = stop
        self._stride = stride
        self._lines = lines
        self._progress = samples.with_name(f"progress-{number}")
        # One arena, so that the limit of the address space means memory; freed memory is overwritten.
        variables = {"MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_PERTURB_": "165"}
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables, **environment}
        self._start(first)

    def _start(self, case: int) -> None:
        self._progress.write_bytes(struct.pack("<q", -1))
        self._seen, self._since = -1, time.monotonic()
        self._first = case
        arguments = [self._subject, self._samples, self._progress, case, self._stop, self._stride]
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.fuzz.worker", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self._environment,
            cwd=ROOT,
        )
        self._reading = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reading.start()

    def _read(self, output: IO[str]) -> None:
        with output:
            for line in output:
                self._lines.put((self.number, line))
        self._lines.put((self.number, None))

    def finish(self) -> tuple[int, str] | None:
        """After its output ended: the case that killed it, if one did; then it goes on with the next one."""
        code = self._process.wait()
        if self.is_done:
            return None
        case = self._case()
        name = signal.Signals(-code).name if code < 0 else f"code {code}"
        what = (
            f"no answer in {SECONDS_PER_CASE:.0f} s" if self._is_late(case) else f"the process died: {name}"
        )
        if case < 0:
            raise RuntimeError(
                f"the undamaged {self._subject} cannot be read ({name}): "
                f"see test_the_undamaged_{self._subject}_are_read"
            )
        self._start(case + self._stride)
        return case, what

    def check_time(self) -> None:
        """Kill it when a case takes too long."""
        case = self._case()
        if case != self._seen:
            self._seen, self._since = case, time.monotonic()
        elif case >= 0 and self._is_late(case):
            self._process.kill()

    def _is_late(self, case: int) -> bool:
        return case == self._seen and time.monotonic() - self._since > SECONDS_PER_CASE

    def _case(self) -> int:
        return int(struct.unpack("<q", self._progress.read_bytes())[0])

    def kill(self) -> None:
        """End it."""
        self.is_done = True
        self._process.kill()
        self._process.wait()
        self._reading.join()


def _watch(
    workers: Sequence[_Worker],
    lines: "queue.Queue[tuple[int, str | None]]",
    result: Result,
    started: float,
    seconds: float | None,
) -> Iterator[tuple[int, str]]:
    while not all(worker.is_done for worker in workers) and len(result.bugs) < ENOUGH_BUGS:
        if seconds is not None and time.monotonic() - started > seconds:
            return
        try:
            number, line = lines.get(timeout=1.0)
        except queue.Empty:
            for worker in workers:
                if not worker.is_done:
                    worker.check_time()
            continue
        worker = workers[number]
        if line is None:
            bug = worker.finish()
            if bug is not None:
                yield bug
            continue
        message = json.loads(line)
        if "case" in message:
            yield message["case"], message["error"]
        else:
            result.answers += message["answer"]
            result.errors += message["error"]
            worker.is_done = message.get("done", False)
