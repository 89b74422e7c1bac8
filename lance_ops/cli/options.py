"""Options shared by several commands, and parsers of their values."""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

if TYPE_CHECKING:
    _Duration: TypeAlias = click.ParamType[timedelta]
    _Pair: TypeAlias = click.ParamType[tuple[str, str]]
    _Version: TypeAlias = click.ParamType[int | str]
    _Size: TypeAlias = click.ParamType[int]
    _Seconds: TypeAlias = click.ParamType[float]
else:
    # Generic for type checkers only before click 8.4.
    _Duration = _Pair = _Version = _Size = _Seconds = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])

_VERBOSITY = "lance_ops.verbosity"
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class DurationType(_Duration):
    """An age such as 30m, 12h, 14d or 2w."""

    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Parse the text."""
        if isinstance(value, timedelta):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", str(value).strip().lower())
        if match is None:
            self.fail(f"{value!r} is not an age; write for example 30m, 12h, 14d or 2w", param, ctx)
        try:
            return timedelta(**{_UNITS[match[2]]: float(match[1])})
        except OverflowError:
            self.fail(f"{value!r} is too long; write for example 30m, 12h, 14d or 2w", param, ctx)


class SizeType(_Size):
    """A size such as 10MB or 64MiB, or a number of bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the text."""
        from lance_ops.fleet.policy.quantities import parse_bytes

        text = str(value).strip()
        try:
            size = parse_bytes(int(text) if text.isdecimal() else text)
        except ValueError:
            self.fail(
                f"{value!r} is not a size; write for example 10MB, 64MiB or a number of bytes", param, ctx
            )
        if size < 1:
            self.fail("must be at least 1 byte", param, ctx)
        return size


class SecondsType(_Seconds):
    """A duration such as 30s, 10m or 2h, or a number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the text."""
        text = str(value).strip()
        try:
            seconds = float(text)
        except ValueError:
            if re.fullmatch(r"\d+(?:\.\d+)?[smhdw]", text.lower()) is None:
                self.fail(f"{value!r} is not a duration; write for example 30s, 10m or 2h", param, ctx)
            seconds = DurationType().convert(text, param, ctx).total_seconds()
        if not 0 < seconds < float("inf"):
            self.fail(f"must be more than 0, got {value}", param, ctx)
        return seconds


class VersionType(_Version):
    """A version: a number, or the name of a tag."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Return a number as such."""
        del param, ctx
        return int(value) if str(value).isdecimal() else str(value)


class KeyValueType(_Pair):
    """A pair KEY=VALUE."""

    name = "key=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Split at the first equals sign."""
        if isinstance(value, tuple):
            return value
        key, equals, text = str(value).partition("=")
        key, text = key.strip(), text.strip() if key != key.rstrip() else text
        if not equals or not key:
            self.fail(f"{value!r} is not of the form KEY=VALUE", param, ctx)
        return key, text


class ParameterType(KeyValueType):
    """A pair KEY=VALUE whose value is JSON, or else a string."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Split at the first equals sign and parse what follows."""
        key, text = super().convert(value, param, ctx)
        try:
            return key, json.loads(text)
        except ValueError:
            return key, text


def removed_option(name: str, why: str) -> Callable[[F], F]:
    """Declare a removed option: it fails and names its replacement."""

    def refuse(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise click.BadParameter(why, ctx, param)

    return click.option(name, hidden=True, expose_value=False, callback=refuse, help=why)


def verbosity_options(command: F) -> F:
    """Add `--quiet` and `--verbose`, which hold for the whole call; see `verbosity`."""

    def keep(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value:
            ctx.meta[_VERBOSITY] = param.name

    for name, text in (
        ("verbose", "Print each step, and the traceback of an error."),
        ("quiet", "Print no progress, no warnings, and nothing about a change that succeeded."),
    ):
        command = click.option(
            f"-{name[0]}", f"--{name}", is_flag=True, expose_value=False, callback=keep, help=text
        )(command)
    return command


def verbosity() -> str:
    """Return "quiet", "verbose" or "" for the running command."""
    ctx = click.get_current_context(silent=True)
    return "" if ctx is None else str(ctx.meta.get(_VERBOSITY, ""))


def common_options(command: F) -> F:
    """Add `--json`, `--storage-option` and the options of verbosity to a command on a dataset."""
    command = verbosity_options(command)
    command = click.option("--json", "as_json", is_flag=True, help="Print one JSON object for machines.")(
        command
    )
    return click.option(
        "--storage-option",
        "storage_options",
        multiple=True,
        type=KeyValueType(),
        help="Option of the object store, e.g. aws_endpoint=http://127.0.0.1:9000. Repeatable.",
    )(command)


def version_option(command: F) -> F:
    """Add `--version` to a command that reads."""
    return click.option(
        "--version",
        "version",
        type=VersionType(),
        metavar="VERSION",
        help="Version or tag; default the newest.",
    )(command)


def columns_option(command: F) -> F:
    """Add `--columns`."""
    return click.option("--columns", help="Names or nested paths, separated by commas; default all.")(command)


def filter_option(command: F) -> F:
    """Add `--filter`."""
    return click.option("--filter", "condition", help="SQL condition.")(command)


def output_options(command: F) -> F:
    """Add `--format` and `--overwrite` of commands that write a file."""
    command = click.option("--overwrite", is_flag=True, help="Replace an existing file.")(command)
    return click.option(
        "--format",
        "file_format",
        type=click.Choice(["parquet", "arrow", "csv", "tsv", "jsonl", "json"]),
        help="Format of the file; default by its suffix.",
    )(command)


def output_option(command: F) -> F:
    """Add `--output` with its format."""
    command = output_options(command)
    return click.option(
        "-o",
        "--output",
        metavar="FILE",
        help="Write all rows to this file instead: .parquet, .arrow, .csv, .tsv, .jsonl or .json; - for "
        "standard output, with --format.",
    )(command)


def spark_option(command: F) -> F:
    """Add `--spark`, which every command with tasks has."""
    return click.option(
        "--spark",
        metavar="MASTER",
        help="Run tasks on Spark, e.g. 'local[*]' or spark://host:7077; default: threads.",
    )(command)


def dry_run_option(command: F) -> F:
    """Add `--dry-run`."""
    return click.option("--dry-run", is_flag=True, help="Show the plan and change nothing.")(command)


def job_key_option(command: F) -> F:
    """Add `--job-key`."""
    return click.option("--job-key", help="Job key: a second run with the same key changes nothing.")(command)
