"""What the whole suite shares: clean environment, hypothesis profiles, one Spark session, browser policy."""

import atexit
import gc
import os
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support import coverage_share
from tests.support.examples import QUICK_EXAMPLES, cap_examples
from tests.support.manifest_stores import dynamo, manifest_options, postgres_url  # noqa: F401 - fixtures
from tests.support.object_servers import AZURITE_HINT, azurite, moto, seaweed  # noqa: F401 - fixtures
from tests.support.postgres import POSTGRES_HINT
from tests.support.scratch import memory_folder
from tests.support.side_by_side import (
    UnitScheduling,
    keep_seconds,
    kept_seconds,
    process_count,
    start_order,
    why_stranger,
)
from tests.support.spark import FAST_JVM
from tests.support.unit import NOT_UNIT, is_unit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Rewriting the assertions is most of what collecting the tests costs: the results are kept even where the
# environment (a container's, often) tells Python to leave no compiled files behind.
sys.dont_write_bytecode = False

# Removed before any library reads them: a developer's own set-up must not decide what the tests see.
for _name in (
    "DAGSTER_HOME",
    "PYSPARK_DRIVER_PYTHON",
    "PYSPARK_PYTHON",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_HOME",
    "SPARK_REMOTE",
):
    os.environ.pop(_name, None)
os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
# Processes of a run ask for themselves, and find what the first one found.
if "TMPDIR" not in os.environ and (_folder := memory_folder()) is not None:
    os.environ["TMPDIR"] = str(_folder)
    tempfile.tempdir = None
# Object store clients without credentials would wait for a cloud machine's metadata service.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"

# The same examples in every run, so that a red build is red again; "explore" looks for new ones.
settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
# A few of the same, for an answer while one works; also of tests that ask for more.
settings.register_profile("quick", settings.get_profile("ci"), max_examples=QUICK_EXAMPLES)
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(_PROFILE)

_COVERAGE = pytest.StashKey[str]()
_COVERAGE_MODE = pytest.StashKey[str]()
BROWSER_HINT = "install Chromium and chromedriver (Debian: apt-get install chromium chromium-driver)"


@pytest.fixture(scope="session", autouse=True)
def _no_beats() -> Iterator[None]:
    """Leases are written when work begins, and not renewed by the clock.

    What a store is asked then does not depend on how long a test takes on a busy machine.
    """
    from lance_ops.storage import lease

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease, "BEAT_SECONDS", 3600.0)
        yield


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """The one Spark session of the run, with two cores, whose SQL settings a test puts back after itself."""
    from lance_ops.spark.session import build_session

    session = build_session("lance_ops tests", "local[2]", config={"spark.driver.extraJavaOptions": FAST_JVM})
    yield session
    session.stop()


def pytest_configure(config: pytest.Config) -> None:
    """Trace the lines of unit tests where that is asked for: in the processes that run them."""
    given = getattr(config, "workerinput", None)
    # Taken out: what a test starts is not asked.
    asked = os.environ.pop(coverage_share.SWITCH, "")
    mode = asked if given is None else given.get(coverage_share.SWITCH, "")
    config.stash[_COVERAGE_MODE] = mode
    if mode and given is None:
        coverage_share.forget()
    if mode and (given is not None or not config.getoption("numprocesses", None)):
        config.pluginmanager.register(coverage_share.CoverageShare())


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process whether it traces lines."""
    node.workerinput[coverage_share.SWITCH] = node.config.stash[_COVERAGE_MODE]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Compare what the unit tests ran with what the page says, once all processes are done."""
    mode = session.config.stash[_COVERAGE_MODE]
    if not mode or hasattr(session.config, "workerinput") or exitstatus:
        return
    percent = coverage_share.measured()
    wrong = coverage_share.settle(percent, write=mode == "write")
    session.config.stash[_COVERAGE] = wrong or f"unit tests run {percent:.1f} % of the lines"
    if wrong:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what takes longest, for runs in several processes, and mark the tests of `make check`."""
    items[:] = start_order(items, kept_seconds())
    for item in items:
        if is_unit(item):
            item.add_marker("unit")
        if _PROFILE == "quick":
            cap_examples(item)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Do not look for garbage while thousands of tests and modules come in, which all stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Spare the garbage collector from going through thousands of collected tests again and again."""
    gc.collect()
    gc.freeze()
    # Libraries report what nobody freed before the exit as leaks.
    atexit.register(gc.unfreeze)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what `make check` leaves out."""
    if config.option.markexpr != "unit":
        return None
    path = collection_path.relative_to(config.rootpath).as_posix()
    return f"{path}/".startswith(NOT_UNIT) or path.startswith(NOT_UNIT) or None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a test that would start a second session or server in another process."""
    if reason := why_stranger(item):
        pytest.fail(reason, pytrace=False)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Say how many processes `-n auto` is."""
    return process_count(os.cpu_count() or 1, quick=config.option.markexpr == "unit")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> UnitScheduling:
    """Share the tests among the processes by unit, in the order of the collection."""
    config.option.loadscopereorder = False
    return UnitScheduling(config, log)


# What may be left out where a program is missing, but not where nobody would read about it.
_OPTIONAL = {
    "ui": ("of the Dagster UI", BROWSER_HINT),
    "azurite": ("on Azurite", AZURITE_HINT),
    "postgres": ("on PostgreSQL", POSTGRES_HINT),
}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the skip of an optional test into a failure where nobody would read about it."""
    report = yield
    if report.skipped and os.environ.get("CI", "").lower() in {"1", "true"}:
        for marker, (_, hint) in _OPTIONAL.items():
            if marker in item.keywords:
                reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
                report.outcome = "failed"
                report.longrepr = f"{item.nodeid} may not be left out in CI: {reason}; {hint}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was not tested for want of a program, and keep how long tests took where that is asked for."""
    if os.environ.get("KEEP_SECONDS"):
        keep_seconds(
            report
            for reports in terminalreporter.stats.values()
            for report in reports
            if isinstance(report, pytest.TestReport)
        )
    if _COVERAGE in terminalreporter.config.stash:
        terminalreporter.write_line(terminalreporter.config.stash[_COVERAGE])
    for marker, (what, hint) in _OPTIONAL.items():
        left_out = [
            report for report in terminalreporter.stats.get("skipped", ()) if marker in report.keywords
        ]
        if left_out:
            tests = "1 test" if len(left_out) == 1 else f"{len(left_out)} tests"
            terminalreporter.write_line(f"left out: {tests} {what}; {hint}", yellow=True)
