"""Draw the imports of a checkout in numbers: rooms, the arrows between them, circles, and lines by purpose.

    python tools/import_graph.py            this checkout
    python tools/import_graph.py FOLDER     another one
    python tools/import_graph.py --json     for comparisons

A room is a folder. An arrow leads from one room to another that a module of it imports. Every import counts:
at the top, in a function, and for the type checker alone. Circles are those among modules, and those among
what lies side by side in one folder, where a room stands for everything in it.
"""

import argparse
import ast
import io
import json
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "lance_ops"
GENERATED = "lance_ops.pb"

Graph = dict[str, set[str]]
"""What each node imports."""


@dataclass(frozen=True)
class Lines:
    """Lines of modules by purpose."""

    code: int = 0
    imports: int = 0
    words: int = 0
    blank: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.code + self.imports + self.words + self.blank

    def __add__(self, other: "Lines") -> "Lines":
        return Lines(
            self.code + other.code,
            self.imports + other.imports,
            self.words + other.words,
            self.blank + other.blank,
        )


def main() -> int:
    """Print the drawing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", nargs="?", type=Path, default=ROOT, help="its root")
    parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON object")
    arguments = parser.parse_args()
    found = measure(arguments.checkout)
    if arguments.as_json:
        print(json.dumps(found, indent=2))
    else:
        show(found)
    return 0


def measure(checkout: Path) -> dict[str, object]:
    """Everything that is printed, as values for JSON.

    Args:
        checkout: A folder that holds the package.
    """
    files = find_modules(checkout)
    if not files:
        sys.exit(f"{checkout} holds no package {PACKAGE}")
    graph = {name: imports(path, files) - {name} for name, path in files.items()}
    rooms: dict[str, Lines] = {}
    modules: Counter[str] = Counter()
    for name, path in files.items():
        room = room_of(name, files)
        modules[room] += path.name != "__init__.py"
        rooms[room] = rooms.get(room, Lines()) + count_lines(path.read_text())
    arrows = {
        (room_of(source, files), room_of(target, files))
        for source, targets in graph.items()
        for target in targets
    }
    arrows = {(source, target) for source, target in arrows if source != target}
    return {
        "modules": len(files),
        "imports": sum(map(len, graph.values())),
        "rooms": {
            room: {"modules": modules[room], "lines": lines.total, **vars(lines)}
            for room, lines in sorted(rooms.items())
        },
        "arrows": len(arrows),
        "circles of modules": circles(graph),
        "circles side by side": [circle for level in siblings(graph) for circle in circles(level)],
    }


def show(found: Mapping[str, object]) -> None:
    """Print for people."""
    rooms = found["rooms"]
    assert isinstance(rooms, dict)
    wide = max(map(len, rooms))
    purposes = ("lines", "code", "imports", "words", "blank")
    print(f"{'room':{wide}} {'modules':>8}" + "".join(f"{purpose:>8}" for purpose in purposes))
    for room, counts in rooms.items():
        print(f"{room:{wide}} {counts['modules']:>8}" + "".join(f"{counts[name]:>8}" for name in purposes))
    sums = [sum(counts[name] for counts in rooms.values()) for name in ("modules", *purposes)]
    print(f"{'together':{wide}} " + "".join(f"{number:>8}" for number in sums))
    print(
        f"{len(rooms)} rooms, at most {max(counts['modules'] for counts in rooms.values())} modules in one; "
        f"{found['imports']} imports between modules, {found['arrows']} arrows between rooms"
    )
    for name in ("circles of modules", "circles side by side"):
        listed = found[name]
        assert isinstance(listed, list)
        print(f"{name}: {len(listed)}")
        for circle in listed:
            print("  " + " - ".join(circle))


def find_modules(checkout: Path) -> dict[str, Path]:
    """The modules and packages of a checkout by name, without those that are generated."""
    found = {}
    for path in sorted((checkout / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(checkout).with_suffix("").parts).removesuffix(".__init__")
        if not name.startswith(GENERATED):
            found[name] = path
    return found


def room_of(name: str, files: Mapping[str, Path]) -> str:
    """The folder that a module lies in; a package lies in itself."""
    return name if files[name].name == "__init__.py" else name.rpartition(".")[0]


def imports(path: Path, files: Mapping[str, Path]) -> set[str]:
    """The modules that a module names in imports, wherever these stand."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                found.add(below if below in files else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & set(files)


def siblings(graph: Graph) -> Iterator[Graph]:
    """For each folder, the graph of what lies side by side in it."""
    levels: dict[str, Graph] = {}
    for source, targets in graph.items():
        for target in targets:
            one, other = source.split("."), target.split(".")
            depth = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
            if depth is None:
                # A package and what is in it.
                continue
            level = levels.setdefault(".".join(one[:depth]), {})
            level.setdefault(".".join(one[: depth + 1]), set()).add(".".join(other[: depth + 1]))
    yield from (levels[name] for name in sorted(levels))


def circles(graph: Graph) -> list[list[str]]:
    """Groups of nodes of which each can be reached from each."""
    reached = {node: reachable(node, graph) for node in graph}
    groups = {frozenset(other for other in reached[node] if node in reached.get(other, ())) for node in graph}
    return sorted(sorted(group) for group in groups if len(group) > 1)


def reachable(node: str, graph: Graph) -> set[str]:
    """All nodes to which arrows lead from one."""
    found: set[str] = set()
    pending = list(graph.get(node, ()))
    while pending:
        other = pending.pop()
        if other not in found:
            found.add(other)
            pending.extend(graph.get(other, ()))
    return found


def count_lines(text: str) -> Lines:
    """Sort the lines of a module by purpose; a line of code with a comment behind it is code."""
    tree = ast.parse(text)
    imported = set(spans(node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)))
    words = set(
        spans(
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
    )
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip():
            words.add(token.start[0])
    # Empty lines of a docstring belong to it.
    counts: Counter[str] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        if number in words:
            counts["words"] += 1
        elif number in imported:
            counts["imports"] += 1
        else:
            counts["code" if line.strip() else "blank"] += 1
    return Lines(**counts)


def spans(nodes: Iterable[ast.stmt]) -> Iterator[int]:
    """The numbers of the lines of statements."""
    for node in nodes:
        yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


if __name__ == "__main__":
    sys.exit(main())
