"""Draw docstrings and error messages at random, to be judged by the rules of the project's language.

python -m tools.draw_words --seed 7 --docstrings 50 --messages 30 lance_ops/table lance_ops/file
"""

import argparse
import ast
import random
from collections.abc import Iterator
from pathlib import Path

_OWNERS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def find_docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the location and the text of each docstring of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, _OWNERS) and (text := ast.get_docstring(node)):
            yield f"{path}:{getattr(node, 'lineno', 1)}", text


def find_messages(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the location and the source of each raised message of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            first = node.exc.args[0]
            if isinstance(first, ast.JoinedStr) or isinstance(getattr(first, "value", None), str):
                yield f"{path}:{node.lineno}", ast.unparse(first)


def draw(
    folders: list[str], seed: int, docstrings: int, messages: int
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return docstrings and messages, each with its location; equal for equal sources and seed."""
    paths = [path for folder in folders for path in sorted(Path(folder).rglob("*.py"))]
    generator = random.Random(seed)
    texts = [found for path in paths for found in find_docstrings(path)]
    errors = [found for path in paths for found in find_messages(path)]
    return (
        generator.sample(texts, min(docstrings, len(texts))),
        generator.sample(errors, min(messages, len(errors))),
    )


def main() -> None:
    """Print a sample."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", default=["lance_ops"])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--docstrings", type=int, default=200)
    parser.add_argument("--messages", type=int, default=100)
    args = parser.parse_args()
    for kind, found in zip(
        ("docstring", "message"), draw(args.folders, args.seed, args.docstrings, args.messages), strict=True
    ):
        for number, (where, text) in enumerate(found, start=1):
            print(f"{kind} {number} {where}\n{text}\n")


if __name__ == "__main__":
    main()
