"""How many lines of the product the unit tests run: measured by `make test` as it passes them.

Only unit tests are traced: tracing all of the suite would take minutes, and these are the ones that a change
is first tried with. `CONTRIBUTING.md` states the number; `make coverage` writes it there.
"""

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import coverage

ROOT = Path(__file__).resolve().parents[2]
SWITCH = "LANCE_OPS_COVERAGE"
"""Environment variable: `check` compares with the number of the page, `write` writes it; empty: neither."""
PAGE = ROOT / "CONTRIBUTING.md"
MOST_APART = 1.0
"""Points between the measured and the stated number: threads and times of day run some lines or not."""

_STATED = re.compile(r"Unit tests run (\d+) % of the lines of `lance_ops`")
_FOLDER = ROOT / ".cache" / "coverage"
_KERNELS = ROOT / "lance_ops" / "encoding" / "kernels"


def measuring(folder: Path = _FOLDER, source: Path = ROOT / "lance_ops") -> "coverage.Coverage":
    """Return what traces the lines of this process, or reads what all processes have traced.

    Args:
        folder: For the files of the processes.
        source: The package. Generated code and compiled loops, which nobody can trace, do not count.
    """
    # Not at the top: the environment with the lowest versions does not have it.
    import coverage

    rooms = (path.name for path in _KERNELS.iterdir() if path.is_dir() and path.name != "fronts")
    compiled = [str(_KERNELS / "*.py"), *(str(_KERNELS / room / "*") for room in rooms)]
    return coverage.Coverage(
        data_file=str(folder / "lines"),
        data_suffix=True,
        config_file=False,
        source=[str(source)],
        omit=[*compiled, str(ROOT / "lance_ops" / "pb" / "*")],
    )


class CoverageShare:
    """A plugin of pytest that traces the imports of the collection, and then unit tests alone."""

    def __init__(self) -> None:
        self._measuring = measuring()
        self._measuring.start()
        self._traces = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Trace or not; tests of a file mostly are of one sort, so that this changes seldom."""
        wanted = item.get_closest_marker("unit") is not None
        if wanted != self._traces:
            (self._measuring.start if wanted else self._measuring.stop)()
            self._traces = wanted

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Keep what was traced, for the process that adds it all up."""
        self._measuring.stop()
        self._measuring.save()


def forget() -> None:
    """Remove what an earlier run has traced."""
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir(parents=True)


def measured(folder: Path = _FOLDER, source: Path = ROOT / "lance_ops") -> float:
    """Return the percentage of lines that the processes of this run have traced."""
    found = measuring(folder, source)
    found.combine()
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        return found.report(file=nowhere)


def settle(percent: float, page: Path = PAGE, *, write: bool) -> str | None:
    """Compare with the stated number, or state this one.

    Args:
        percent: What was measured.
        page: Where it is stated.
        write: State it.

    Returns:
        What is wrong, or None.
    """
    text = page.read_text(encoding="utf-8")
    stated = _STATED.search(text)
    if stated is None:
        return f"{page.name} does not say: {_STATED.pattern}"
    if write:
        said = _STATED.sub(f"Unit tests run {percent:.0f} % of the lines of `lance_ops`", text)
        page.write_text(said, encoding="utf-8")
    elif abs(percent - int(stated[1])) > MOST_APART:
        return (
            f"unit tests run {percent:.1f} % of the lines, and {page.name} says {stated[1]} %: "
            "test what is new, or state the number by `make coverage`"
        )
    return None
