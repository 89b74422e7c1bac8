"""Make the environments beside `.venv` and compile the kernels, before anything waits for them.

    python tools/environments.py

For the core alone, Airflow, and the lowest versions. Needs a package index.
"""

import subprocess
import sys
from pathlib import Path

from lowest import lowest_environment
from throwaway_environment import airflow_environment, core_environment

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Make what is missing or outdated, in the order in which it is needed."""
    subprocess.run([sys.executable, "-m", "lance_ops", "warmup"], check=True, cwd=ROOT)
    lowest_environment()
    airflow_environment()
    core_environment()


if __name__ == "__main__":
    main()
