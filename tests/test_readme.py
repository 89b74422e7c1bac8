"""The Python examples of the README run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs_as_it_stands(tmp_path: Path, number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXAMPLES[number]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_command_of_the_readme_exists() -> None:
    from lance_ops.cli import main

    named = set(re.findall(r"^lance-ops (\w+)", README.read_text(encoding="utf-8"), re.MULTILINE))
    assert named
    assert named <= set(main.commands)
