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
else:
    # Generic for type checkers only before click 8.4.
    _Duration = _Pair = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])

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


def common_options(command: F) -> F:
    """Add `--json` and `--storage-option`, which every command on a dataset has."""
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
