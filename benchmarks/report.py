"""What the documents keep of runs: tables whose rows are replaced one by one, each with its day.

So a run of some cases with `--only` renews their rows and leaves the others, which say how old they are.
"""

import datetime as dt
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import psutil

README = Path(__file__).with_name("README.md")


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a document.

    Attributes:
        name: What its marker begins with, `<!-- NAME: ... -->`.
        header: The two lines of its head, without the column that tells when a row was measured.
        keys: How many cells from the left tell rows apart.
        path: The document.
    """

    name: str
    header: Sequence[str]
    keys: int = 1
    path: Path = README

    @property
    def marker(self) -> str:
        """Stands before what is written."""
        return f"<!-- {self.name}: written by a run with `--write` -->"

    def keep(self, rows: Iterable[str], order: Sequence[str] = (), *, how: str) -> None:
        """Renew rows of the document's table.

        Args:
            rows: Lines of the table.
            order: First cells of all rows that the table may have, in their order; others are dropped.
                Without it old rows keep their place, and new ones follow.
            how: Pairs, and what was measured, e.g. `5 pairs, clock`.
        """
        text = self.path.read_text(encoding="utf-8")
        head, marker, rest = text.partition(self.marker)
        if not marker:
            raise ValueError(f"{self.path.name} has no {self.marker}")
        end = rest.find("\n## ")
        old, following = (rest, "") if end < 0 else (rest[:end], rest[end:])
        kept = {self._key(line): line for line in old.splitlines() if _is_row(line)}
        stamp = f" {today()}, {how}, load {os.getloadavg()[0]:.1f} |"
        kept.update({self._key(row): row.rstrip() + stamp for row in rows})
        lines = list(kept.values())
        if order:
            place = {title: number for number, title in enumerate(order)}
            lines = sorted(
                (line for line in lines if _cells(line)[0] in place), key=lambda line: place[_cells(line)[0]]
            )
        titles, rule = self.header
        body = [marker, "", titles + " measured |", rule + "---|", *lines, ""]
        self.path.write_text(head + "\n".join(body) + following, encoding="utf-8")

    def _key(self, row: str) -> tuple[str, ...]:
        return tuple(_cells(row)[: self.keys])


def keep_text(name: str, lines: Sequence[str], path: Path = README) -> None:
    """Replace all that stands between a marker and the next heading."""
    table = Table(name, ("", ""), path=path)
    head, marker, rest = path.read_text(encoding="utf-8").partition(table.marker)
    if not marker:
        raise ValueError(f"{path.name} has no {table.marker}")
    end = rest.find("\n## ")
    following = "" if end < 0 else rest[end:]
    path.write_text(head + "\n".join([marker, "", *lines, ""]) + following, encoding="utf-8")


def today() -> str:
    """The day, in UTC."""
    return dt.datetime.now(dt.UTC).date().isoformat()


def machine() -> str:
    """What it was measured on, in one line."""
    memory = round(psutil.virtual_memory().total / 2**30)
    python = platform.python_version()
    return f"{os.cpu_count()} cores, {memory} GiB, Python {python}, pylance {version('pylance')}"


def _is_row(line: str) -> bool:
    return line.startswith("| ") and not line.startswith("|---") and not line.rstrip().endswith("measured |")


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]
