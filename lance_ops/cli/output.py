"""What the commands print: text for people, JSON for machines, progress on a terminal."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import date, datetime, timedelta
from typing import Any, NoReturn, Protocol

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from lance_ops.errors import LanceOpsError
from lance_ops.maintenance.progress import Progress as ProgressListener
from lance_ops.maintenance.progress import ProgressEvent


class HasDict(Protocol):
    """A result or plan that says itself in plain values."""

    def to_dict(self) -> Mapping[str, object]:
        """All numbers and names."""
        ...


def print_result(result: object, *, as_json: bool) -> None:
    """Print a result or plan: its own text, or its fields as JSON."""
    click.echo(json.dumps(_plain(result), default=_json_value) if as_json else str(result))


def print_rows(header: Sequence[str], rows: Sequence[Sequence[object]], *, title: str | None = None) -> None:
    """Print a table; numbers go to the right."""
    table = Table(title=title, title_justify="left", header_style="bold")
    for position, name in enumerate(header):
        numeric = bool(rows) and all(isinstance(row[position], (int, float)) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    Console(soft_wrap=not sys.stdout.isatty(), width=None if sys.stdout.isatty() else 160).print(table)


def fail(error: LanceOpsError, *, as_json: bool) -> NoReturn:
    """Print an error to standard error and leave with exit code 1."""
    if as_json:
        details = {
            "error": type(error).__name__,
            "message": error.message,
            "path": error.path,
            "hint": error.hint,
        }
        click.echo(json.dumps(details), err=True)
    else:
        click.echo(click.style("error: ", fg="red", bold=True) + str(error), err=True)
    sys.exit(1)


@contextmanager
def progress_listener() -> Iterator[ProgressListener | None]:
    """A listener that draws bars on a terminal; None where standard error is not one."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None)

        def listen(event: ProgressEvent) -> None:
            bars.update(
                task,
                description=f"{event.operation}: {event.message}",
                completed=event.done,
                total=event.total,
            )

        yield listen


def _plain(value: object) -> object:
    to_dict = getattr(value, "to_dict", None)
    if callable(to_dict):
        return to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value


def _json_value(value: Any) -> object:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, frozenset | set):
        return sorted(value)
    return str(value)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return str(value)
