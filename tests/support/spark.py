"""For tests that start Spark: fast JVM options, and scripts in a Python of their own."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Short jobs never pay back the second compiler, and one small heap needs no parallel collector.
FAST_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def run_script(
    code: str, *, cwd: Path, environment: Mapping[str, str] | None = None, timeout: float = 600.0
) -> subprocess.CompletedProcess[str]:
    """Run Python code in a fresh interpreter, as one that starts a Spark of its own has to.

    Args:
        code: The script; common indentation is removed.
        cwd: Its working directory.
        environment: All of its variables; those of the tests by default.
        timeout: Seconds after which it counts as hung.
    """
    variables = dict(os.environ if environment is None else environment)
    variables["JDK_JAVA_OPTIONS"] = FAST_JVM
    # The scripts use what the tests share.
    path = variables.get("PYTHONPATH")
    variables["PYTHONPATH"] = f"{path}{os.pathsep}{ROOT}" if path else str(ROOT)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=cwd,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done
