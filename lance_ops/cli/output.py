"""Output of the commands: text for people, JSON for programs, progress on a terminal."""

import json
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

import click

from lance_ops.cli.options import verbosity
from lance_ops.cli.spelling import Spelling
from lance_ops.errors import CommitConflictError, LanceOpsError, SchemaMismatchError
from lance_ops.maintenance.fsck.remedy import hint_for
from lance_ops.maintenance.text import bytes_text, seconds_text, table_text

if TYPE_CHECKING:
    from lance_ops.maintenance.progress import Progress, ProgressEvent

_SECONDS_BETWEEN_LINES = 10.0


def print_result(result: object, *, as_json: bool) -> None:
    """Print a result or plan: its own text, or its fields as one JSON object."""
    click.echo(json.dumps(result, default=_json_value) if as_json else str(result))


def print_rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; on a terminal, its last column is wrapped to the width."""
    if not sys.stdout.isatty():
        click.echo(table_text(header, rows, limit=None))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    last = len(header) - 1
    for position, name in enumerate(header):
        numeric = position != last and all(row[position][:1].isdigit() for row in rows)
        table.add_column(
            name, justify="right" if numeric else "left", no_wrap=position != last, overflow="fold"
        )
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


def fail(error: LanceOpsError, *, as_json: bool, uri: str | None = None) -> NoReturn:
    """Print an error to standard error and exit with code 1.

    Args:
        error: The error.
        as_json: Print one JSON object.
        uri: The dataset of the command.
    """
    hint = error.hint if uri is None else hint_for(error, uri)
    if verbosity() == "verbose":
        click.echo("".join(traceback.format_exception(error)), err=True)
    if as_json:
        click.echo(json.dumps({**error_values(error), "hint": hint}), err=True)
        sys.exit(1)
    spelling = Spelling.of_running()
    lines = [click.style("error: ", fg="red", bold=True) + spelling.of_text(error.message)]
    lines += [] if error.path is None else [f"  file: {error.path}"]
    lines += [] if error.field is None else ["  {}: {}".format(*spelling.of_field(error.field))]
    lines += [] if hint is None else [f"  hint: {spelling.of_text(hint)}"]
    click.echo("\n".join(lines), err=True)
    sys.exit(1)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print warnings of lance_ops to standard error as one line, without a source location."""
    with warnings.catch_warnings():
        usual = warnings.showwarning
        spelled = Spelling.of_running().of_text

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if category.__module__.startswith("lance_ops."):
                if verbosity() != "quiet":
                    click.echo(
                        click.style("warning: ", fg="yellow", bold=True) + spelled(str(message)), err=True
                    )
            else:
                usual(message, category, *place, **more)

        warnings.showwarning = show
        yield


def error_values(error: LanceOpsError) -> dict[str, object]:
    """Return all attributes of an error as JSON values."""
    values: dict[str, object] = {
        "error": type(error).__name__,
        "code": error.code,
        "message": error.message,
        "path": error.path,
        "field": error.field,
        "hint": error.hint,
    }
    if isinstance(error, SchemaMismatchError):
        values["mismatches"] = list(error.mismatches)
    if isinstance(error, CommitConflictError):
        values |= {
            "ours": error.ours,
            "theirs": error.theirs,
            "version": error.version,
            "retryable": error.retryable,
        }
    return values


@contextmanager
def progress_listener() -> "Iterator[Progress | None]":
    """Return a listener that draws bars on a terminal and writes lines elsewhere; None if quiet."""
    if verbosity() == "quiet":
        yield None
        return
    if not sys.stderr.isatty() or verbosity():
        yield _plain_listener(0.0 if verbosity() else _SECONDS_BETWEEN_LINES)
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[count]}"),
        progress.TextColumn("{task.fields[size]}"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("{task.fields[left]}"),
    )
    # Standard output is left alone: it may be a pipe that expects JSON, or the same terminal.
    with progress.Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bars:
        task = bars.add_task("", total=None, count="", size="", left="")

        def listen(event: "ProgressEvent") -> None:
            bars.update(
                task,
                description=f"{event.operation}: {event.message}",
                completed=event.done,
                total=event.total,
                count=_count_of(event),
                size=_size_of(event),
                left=_left_of(event),
            )

        yield listen


def _plain_listener(pause: float) -> "Progress":
    """Return a listener that writes log lines, the first one after a pause: short calls are silent."""
    last = time.monotonic()

    def listen(event: "ProgressEvent") -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < pause:
            return
        last = now
        counted = _count_of(event)
        text = f"{event.operation}: {event.message}" + (f" {counted}" if counted else "")
        parts = [part for part in (_size_of(event), _left_of(event)) if part]
        click.echo(", ".join([text, *parts]), err=True)

    return listen


def _count_of(event: "ProgressEvent") -> str:
    """Return what is done, of what: "3 of 10", "2,097,152 rows"; empty if neither total nor unit is known."""
    unit = f" {event.unit}" if event.unit else ""
    if event.total:
        return f"{event.done:,} of {event.total:,}{unit}"
    return f"{event.done:,}{unit}" if unit else ""


def _size_of(event: "ProgressEvent") -> str:
    if event.bytes_done is None or event.bytes_total is None:
        return ""
    return f"{bytes_text(event.bytes_done)} of {bytes_text(event.bytes_total)}"


def _left_of(event: "ProgressEvent") -> str:
    return "" if event.seconds_left is None else f"{seconds_text(event.seconds_left)} left"


def _json_value(value: Any) -> object:
    to_dict = getattr(value, "to_dict", None)
    if callable(to_dict):
        return to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in fields(value)}
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, frozenset | set):
        return sorted(value)
    raise TypeError(f"cannot write {type(value).__name__} as JSON")
