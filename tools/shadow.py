"""Run tests, scripts and documents written for the peer while lance_ops answers every call as well.

    python tools/shadow.py tests/shadow                        scripts and tests below a folder
    python tools/shadow.py test_dataset.py -- -k take -x       a pytest file, with options of pytest
    python tools/shadow.py example.py guide.md                 a script; the Python blocks of a document

Each read of the peer (`to_table`, `scanner` with `nearest` and `full_text_query`, `take`, `count_rows` and
the like) is answered by both libraries, and the answers are compared row by row: values, types, schema.
Searches may order ties otherwise; where an index approximates, lance_ops has to find as many true neighbors.
Each write (`write_dataset`, `delete`, `update`, `merge_insert`, changes of columns, compaction, indices,
tags, branches, cleanup, `restore`) is done by the peer on the user's table and by lance_ops on a copy of the
table as it was before, and the two tables are compared. The code that runs sees only what the peer did.

The end is a report: equal, refused (by a typed error), known differences (with their reasons, see
`shadow_known.py`), different, crashed (by an untyped error). Exit status 1 when a call was different or
crashed, whatever the tests themselves say: they may test what has nothing to do with either.
"""

import argparse
import re
import runpy
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

import pytest
from shadow_calls import install
from shadow_report import Outcome, Tally

_BLOCK = re.compile(r"^( *)```python[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


class _Deadline:
    """Ends pytest between two tests when its time is over."""

    def __init__(self, seconds: float | None) -> None:
        self.ends = None if seconds is None else time.monotonic() + seconds

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        if self.ends is not None and time.monotonic() > self.ends:
            item.session.shouldstop = "the time of --seconds is over"


def shadow(
    targets: Sequence[str], pytest_args: Sequence[str] = (), seconds: float | None = None, every: int = 1
) -> Tally:
    """Run each target in this process.

    Args:
        targets: Folders, test files or node ids of pytest, scripts, Markdown documents.
        pytest_args: More options for pytest.
        seconds: No further test of pytest begins after these.
        every: See `install`.
    """
    tally = Tally()
    put_back = install(tally, every)
    try:
        tests = []
        for target in targets:
            path = Path(target)
            if path.suffix == ".md":
                _run_document(path)
            elif path.suffix == ".py" and not path.name.startswith("test_"):
                _run_script(path)
            else:
                tests.append(target)
                for script in sorted(path.glob("*.py")) if path.is_dir() else ():
                    if not script.name.startswith(("test_", "conftest", "__")):
                        _run_script(script)
        if tests:
            options = ["-q", "-p", "no:cacheprovider", "--no-header", *pytest_args, *tests]
            pytest.main(options, plugins=[_Deadline(seconds)])
    finally:
        put_back()
    return tally


def _run_script(path: Path) -> None:
    source = str(path.resolve())
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        try:
            runpy.run_path(source, run_name="__main__")
        except Exception:
            print(f"{path} ended with", traceback.format_exc(limit=-2))


def _run_document(path: Path) -> None:
    """Run the blocks in one name space: each uses what those before define; a failure ends one only."""
    names: dict[str, object] = {"__name__": "__main__"}
    blocks = _BLOCK.findall(path.read_text())
    failed = 0
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        for indent, block in blocks:
            code = "\n".join(line.removeprefix(indent) for line in block.splitlines())
            try:
                exec(compile(code, str(path), "exec"), names)
            except Exception:
                failed += 1
    print(f"{path}: {len(blocks)} blocks, {failed} of them failed by themselves")


def main(argv: Sequence[str] | None = None) -> int:
    """Run as a command."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    extra: list[str] = []
    if "--" in arguments:
        cut = arguments.index("--")
        arguments, extra = arguments[:cut], arguments[cut + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("targets", nargs="*", default=["tests/shadow"], help="what to run")
    parser.add_argument("--examples", type=int, default=10, help="calls to show of each bad outcome")
    parser.add_argument("--refusals", type=int, default=0, help="refused calls to show")
    parser.add_argument("--seconds", type=float, help="begin no further test after these")
    parser.add_argument("--every", type=int, default=1, help="compare one of so many writes of each method")
    options = parser.parse_args(arguments)
    tally = shadow(options.targets, extra, options.seconds, options.every)
    tally.write(
        sys.stdout,
        shown={
            Outcome.REFUSED: options.refusals,
            Outcome.ONLY_OURS: options.refusals,
            Outcome.DIFFERENT: options.examples,
            Outcome.CRASHED: options.examples,
            Outcome.BROKEN: options.examples,
        },
    )
    return 1 if tally.is_bad else 0


if __name__ == "__main__":
    sys.exit(main())
