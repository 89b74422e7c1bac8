"""What stands for `spark-submit` in tests: a process that runs the program with threads for executors."""

import sys
from pathlib import Path

from lance_ops.dagster import LanceStoreResource, SparkSubmit
from tests.support.spark import ROOT

_SUBMIT = """
import subprocess, sys
arguments = sys.argv[1:]
application = next(i for i, a in enumerate(arguments) if a.endswith(".py"))
code = (
    "import runpy, sys, lance_ops.spark.runner as runner, lance_ops.spark.submitted.program as program;"
    "from lance_ops.maintenance.runner import LocalRunner;"
    "runner.SparkRunner = lambda session: LocalRunner(1); program.driver_session = lambda: None;"
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)
start = f"import sys; sys.argv = sys.argv[1:]; {code}"
sys.exit(subprocess.run([sys.executable, "-c", start, *arguments[application:]]).returncode)
"""

DIE_ONCE = """
import os, pathlib, signal

def die_once(place):
    mark = pathlib.Path({folder!r}) / ("killed " + place)
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""
"""The begin of a module that submitted programs import: `die_once` kills the driver once at each place."""


def submitting_store(
    folder: Path, *, environment: dict[str, str] | None = None, **options: str
) -> LanceStoreResource:
    """A store whose work is submitted to processes of this machine.

    Args:
        folder: On the path of what they import.
        environment: More variables of theirs.
        options: Of the store.
    """
    submit = folder / "submit"
    submit.write_text(_SUBMIT)
    return LanceStoreResource(
        runner="spark-submit",
        storage_options=options,
        submit=SparkSubmit(
            command=[sys.executable, str(submit)],
            environment={"PYTHONPATH": f"{folder}:{ROOT}", **(environment or {})},
        ),
    )
