"""Words that docstrings, comments and messages must not use again; see the glossary."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "lance_ops"

# The field's term stands in docs/glossary.md: again, rebuild, caller, process, remap, query, package, retry.
WORDS = re.compile(
    r"\b(afresh|anew|anybody|beforehand|by heart|in so many words|in vain|moved along|moves along|nobody|"
    r"power cut|somebody|whoever|whomever|worked out on)\b",
    re.IGNORECASE,
)

# Values that results and reports have, so that they stay.
VALUES = {"build anew"}
QUOTED = re.compile('"[^"]*"')


def prose(path: Path) -> list[str]:
    """Return the strings with a space and the comments of a file."""
    source = path.read_text(encoding="utf-8")
    strings = [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    ]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [*strings, *(token.string for token in tokens if token.type == tokenize.COMMENT)]


PACKAGES = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py") if path.parent.name != "pb")


@pytest.mark.parametrize("package", PACKAGES)
def test_home_made_words_stay_out(package):
    found = {
        (path.relative_to(PACKAGE).as_posix(), word.lower())
        for path in (PACKAGE / package).rglob("*.py")
        for text in prose(path)
        if text not in VALUES
        for word in WORDS.findall(QUOTED.sub("", " ".join(text.split())))
    }
    assert found == set()
