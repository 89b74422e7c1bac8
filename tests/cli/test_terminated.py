"""SIGTERM ends a command as an interrupt does: what is not committed goes, and the exit code is 143."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_ops as lo
from lance_ops.storage.local.store import LocalStore

COMMANDS = {
    "append": "append {uri} {rows}",
    "delete": "delete {uri} {condition}",
    "update": "update {uri} --set x=x+1 --where {condition}",
    "compact": "compact {uri}",
    "compact under a job key": "compact {uri} --job-key job",
    "create an index": "index {uri} x",
    "create a branch": "branch {uri} a",
    "clone": "clone {uri} {clone} --deep",
    "merge": "merge-insert {uri} {rows} --on x --when-matched update_all",
    "replace all rows": "append {uri} {rows} --mode overwrite",
    "compact in steps": "compact {uri} --commit-every 1",
    "add a column": "add-columns {uri} --set y=x+1",
    "replace a column": "replace-columns {uri} --set x=x+1",
    "cast a column": "alter-column {uri} x --type int32",
}


IN_PROCESSES = """
import json, os, signal, sys
import pytest
from click.testing import CliRunner
from lance_ops.cli import main
import lance_ops
from tests.cli.test_terminated import Signal
# Imported once, not by each child.
loaded = [getattr(lance_ops, name) for name in lance_ops.__all__]
# A shell that starts the tests in the background has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
for line in sys.stdin:
    number, folders, arguments = json.loads(line)
    if not os.fork():
        with pytest.MonkeyPatch.context() as patched:
            sent = Signal(patched, signal.Signals(number), tuple(folders))
            result = CliRunner().invoke(main, arguments)
        print(json.dumps([sent.sent, result.exit_code, result.output]), flush=True)
        os._exit(0)
    os.wait()
"""

Run = Callable[[signal.Signals, tuple[str, ...], list[str]], list[Any]]


@pytest.fixture(scope="module")
def run_in_process() -> Iterator[Run]:
    """Runs commands in processes of their own, where no library of another test handles signals."""
    with subprocess.Popen(
        [sys.executable, "-c", IN_PROCESSES],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def run(number: signal.Signals, folders: tuple[str, ...], arguments: list[str]) -> list[Any]:
            assert process.stdin is not None
            assert process.stdout is not None
            print(json.dumps([number, folders, arguments]), file=process.stdin, flush=True)
            answer: list[Any] = json.loads(process.stdout.readline())
            return answer

        yield run


class Signal:
    """Sends this process a signal before the first file of some folders is written."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, folders: tuple[str, ...]
    ) -> None:
        self.number, self.folders, self.sent = number, folders, False
        for name in ("put", "open_writer"):
            monkeypatch.setattr(LocalStore, name, self._before(getattr(LocalStore, name)))

    def _before(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def sent_first(store: LocalStore, path: str, *args: Any, **options: Any) -> Any:
            if path.startswith(self.folders) and not self.sent:
                self.sent = True
                handler = signal.getsignal(self.number)
                # The main thread handles it, and other threads wait until it has. It is sent to that thread,
                # and again: just before a wait for a lock it would be handled only after the wait.
                main = threading.main_thread()
                signal.pthread_kill(main.ident or 0, self.number)
                in_thread = threading.current_thread() is not main
                while (
                    in_thread and self.number is signal.SIGTERM and signal.getsignal(self.number) is handler
                ):
                    signal.pthread_kill(main.ident or 0, self.number)
                    time.sleep(0.001)
            return write(store, path, *args, **options)

        return sent_first


def kinds(folder: Path) -> Counter[str]:
    """Files by their folder and suffix, but for pins, which count for a week, and the record of job keys."""
    files = (path for path in folder.rglob("*") if path.is_file())
    files = (path for path in files if path.parent.name not in ("pins", "segments"))
    return Counter(f"{path.parent.relative_to(folder).parts[1:2]}{path.suffix}" for path in files)


BEFORE_THE_COMMIT = ("data", "_deletions", "_indices", "_refs")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("folders", [BEFORE_THE_COMMIT, ("_versions",)], ids=["before the commit", "in it"])
def test_a_terminated_command_leaves_what_an_interrupted_one_does(
    name: str, folders: tuple[str, ...], tmp_path: Path, run_in_process: Run
) -> None:
    if name == "clone" and folders == BEFORE_THE_COMMIT:
        # The copies are made by threads, of which the signal may meet one that starts.
        folders = ("_transactions",)
    left = []
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        root = tmp_path / number.name
        root.mkdir()
        table = pa.table({"x": range(10)})
        pq.write_table(table, root / "rows.parquet")
        for _ in range(2):
            lo.append(root / "t.lance", table)
        before = kinds(root)
        places = {"uri": root / "t.lance", "rows": root / "rows.parquet", "clone": root / "clone.lance"}
        arguments = [part.format(**places, condition="x < 5") for part in COMMANDS[name].split()]
        sent, exit_code, output = run_in_process(number, folders, arguments)
        assert (sent, exit_code) == (True, code), output
        left.append(kinds(root) - before)
        assert lo.dataset(root / "t.lance").count_rows() == 20
    if "_versions" in folders:
        assert left[0] == left[1]
    else:
        assert left[0].total() == 0


def test_a_terminated_process_prints_no_traceback(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from lance_ops.cli import main\n"
        "from lance_ops.cli.upkeep import compact_command\n"
        "compact_command.callback = lambda **_: os.kill(os.getpid(), signal.SIGTERM)\n"
        "main(['compact', sys.argv[1]])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "t.lance")], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (143, b"", b"")
