"""Tables that `old_peers_tables.py` exchanges: what is done to each, and the rows that it then has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from old_peers_index_report import OURS, RELEASE

MAIN = "main"
LATE = "late"
FIRST, ROWS_PER_FILE = 400, 150
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("i", pa.int64()),
        ("s", pa.string()),
        ("l", pa.list_(pa.int32())),
        ("v", pa.list_(pa.float32(), 4)),
    ]
)

Row = dict[str, Any]
Rows = dict[int, Row]
"""By id."""


def make_row(number: int) -> Row:
    """A row that follows from its id."""
    return {
        "id": number,
        "i": None if number % 9 == 0 else number * 7919 % 1000,
        "s": None if number % 11 == 0 else "" if number % 10 == 0 else f"s{number * 13 % 300}",
        "l": None if number % 8 == 0 else [number] * (number % 3),
        "v": None if number % 6 == 1 else [float(number + place) for place in range(4)],
    }


@dataclass(frozen=True, slots=True)
class Step:
    """One operation, for whoever does it.

    Attributes:
        name: What the document calls it.
        job: What `act_on_table` takes.
        first: Id of the first new row.
        count: New rows.
        chosen: Which rows are deleted or updated.
    """

    name: str
    job: Mapping[str, Any]
    first: int = 0
    count: int = 0
    chosen: Callable[[int], bool] = lambda _: False

    @property
    def line(self) -> str:
        """Main, or a branch."""
        return str(self.job.get("line", MAIN))


@dataclass(slots=True)
class Model:
    """What a table should hold.

    Attributes:
        lines: The rows of main and of each branch.
        tags: The rows of each tag.
    """

    lines: dict[str, Rows] = field(default_factory=dict)
    tags: dict[str, Rows] = field(default_factory=dict)

    def new_rows(self, step: Step) -> pa.Table:
        """What a step adds, with the columns that the line has."""
        rows = [make_row(number) for number in range(step.first, step.first + step.count)]
        schema = SCHEMA
        if any(LATE in row for row in self.lines.get(step.line, {}).values()):
            rows = [row | {LATE: row["id"] * 2} for row in rows]
            schema = SCHEMA.append(pa.field(LATE, pa.int64()))
        return pa.Table.from_pylist(rows, schema)

    def apply(self, step: Step) -> None:
        """Do a step."""
        what = step.job["do"]
        if what in ("create", "append"):
            new = {row["id"]: row for row in self.new_rows(step).to_pylist()}
            self.lines[step.line] = self.lines.get(step.line, {}) | new
        elif what == "branch":
            self.lines[step.job["name"]] = self.lines[step.line]
        elif what == "tag":
            self.tags[step.job["name"]] = self.lines[step.line]
        else:
            rows = self.lines[step.line].items()
            self.lines[step.line] = dict(
                changed for number, row in rows if (changed := _after(step, number, row))
            )


def _after(step: Step, number: int, row: Row) -> tuple[int, Row] | None:
    what = step.job["do"]
    if what == "add column":
        return number, row | {LATE: number * 2}
    if what == "delete" and step.chosen(number):
        return None
    if what == "update" and step.chosen(number):
        return number, row | {"i": None if row["i"] is None else row["i"] + 1000, "s": "new"}
    return number, row


@dataclass(frozen=True, slots=True)
class TableVariant:
    """A kind of table: what its writer does, what the other side does then, what the writer goes on with.

    Attributes:
        name: What the document calls it.
        written: By the writer.
        tended: By the other side.
        resumed: By the writer.
        stable: Whether rows have stable ids.
    """

    name: str
    written: Sequence[Step]
    tended: Sequence[Step]
    resumed: Sequence[Step]
    stable: bool = False

    def steps(self, writer: str, tender: str) -> list[tuple[str, Step]]:
        """All steps, each with who does it."""
        parts = ((writer, self.written), (tender, self.tended), (writer, self.resumed))
        return [(actor, step) for actor, steps in parts for step in steps]


def _create(*, stable: bool = False) -> Step:
    job = {"do": "create", "rows_per_file": ROWS_PER_FILE, "stable": stable}
    return Step("create", job, 0, FIRST)


def _append(first: int, count: int = 40, line: str = MAIN, version: str | None = None) -> Step:
    name = "append" if version is None else f"append at {version}"
    return Step(_on(name, line), {"do": "append", "line": line, "version": version}, first, count)


def _delete(divisor: int, value: int, line: str = MAIN) -> Step:
    job = {"do": "delete", "line": line, "where": f"id % {divisor} = {value}"}
    return Step(_on("delete", line), job, chosen=lambda number: number % divisor == value)


def _update(divisor: int, value: int, line: str = MAIN) -> Step:
    where = f"id % {divisor} = {value}"
    job = {"do": "update", "line": line, "set": {"i": "i + 1000", "s": "'new'"}, "where": where}
    return Step(_on("update", line), job, chosen=lambda number: number % divisor == value)


def _compact(line: str = MAIN) -> Step:
    return Step(_on("compact", line), {"do": "compact", "line": line})


def _tag(name: str) -> Step:
    return Step("tag", {"do": "tag", "name": name})


def _on(name: str, line: str) -> str:
    return name if line == MAIN else f"{name} on the branch"


_ADD = Step("add column", {"do": "add column", "column": LATE, "expression": "id * 2"})
_BRANCH = Step("branch", {"do": "branch", "name": "dev"})
_TENDED = (_append(500), _delete(11, 5), _update(13, 2), _compact())
_RESUMED = (_append(600), _delete(17, 3), _update(19, 4), _compact())

TABLE_VARIANTS = (
    TableVariant(
        "Two data files a fragment, deletions, a tag",
        (_create(), _append(FIRST), _tag("early"), _ADD, _delete(7, 3), _tag("late")),
        _TENDED,
        _RESUMED,
    ),
    TableVariant(
        "Stable row ids",
        (_create(stable=True), _append(FIRST), _tag("early"), _ADD, _delete(7, 3)),
        # Old releases lose rows with the later of these.
        (_append(500), _delete(11, 5), _compact(), _update(13, 2), _compact()),
        _RESUMED,
        stable=True,
    ),
    TableVariant(
        "Mixed storage versions",
        (_create(), _delete(7, 3), _append(FIRST, version="2.1"), _ADD, _tag("late")),
        _TENDED,
        _RESUMED,
    ),
    TableVariant(
        "A branch",
        (_create(), _append(FIRST), _delete(7, 3), _BRANCH, _append(450, line="dev"), _delete(5, 1, "dev")),
        (_append(500, line="dev"), _delete(11, 5, "dev"), _update(13, 2, "dev"), _compact("dev"), *_TENDED),
        (_append(600, line="dev"), _update(19, 4, "dev"), _compact("dev"), _append(600)),
    ),
    TableVariant(
        "A branch, stable row ids",
        (_create(stable=True), _delete(7, 3), _BRANCH, _append(450, line="dev"), _delete(5, 1, "dev")),
        (_append(500, line="dev"), _delete(11, 5, "dev"), _update(13, 2, "dev"), _compact("dev"), _compact()),
        (_append(600, line="dev"), _update(19, 4, "dev"), _compact("dev"), _append(600)),
        stable=True,
    ),
)
DIRECTIONS = ((RELEASE, OURS), (OURS, RELEASE))
"""Who writes a table, and who tends it."""
