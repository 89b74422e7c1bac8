"""The pages of the documentation, and the examples in them as one script for each page."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
AT_ROOT = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]

_BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

_SHELL = """
def run_shell(text):
    import shlex
    import subprocess
    from lance_ops.cli import main
    for line in text.replace("\\\\\\n", " ").splitlines():
        if not line.startswith("lance-ops "):
            subprocess.run(["sh", "-euc", line], check=True)
            continue
        # In this process: a start of Python for each command would take most of the time.
        arguments = shlex.split(line, comments=True)[1:]
        assert main(arguments, standalone_mode=False) is None, line
"""


@dataclass(frozen=True, slots=True)
class Example:
    """A block that is run: Python, or commands of a shell. Others are marked `console` or `text`."""

    language: str
    code: str


def examples(page: Path) -> list[Example]:
    """The blocks of a page that are run, in order."""
    return [Example(*found) for found in _BLOCK.findall(page.read_text(encoding="utf-8"))]


def script(page: Path) -> str:
    """All examples of a page as one script: later ones may use what earlier ones made."""
    parts = [_SHELL]
    for example in examples(page):
        parts.append(example.code if example.language == "python" else f"run_shell({example.code!r})")
    return "\n".join(parts)
