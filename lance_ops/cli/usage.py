"""Usage errors: what is wrong with options and arguments, in plain English, with what to write instead."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

import click

# click's messages, and what they mean.
_NUMBERS = (
    (re.compile(r"(\S+) is not a valid integer(?: range)?\."), r"\1 is not a whole number."),
    (re.compile(r"(\S+) is not a valid float(?: range)?\."), r"\1 is not a number."),
    (re.compile(r"(\S+) is not in the range x>=(\S+)\."), r"must be at least \2, got \1."),
    (re.compile(r"(\S+) is not in the range x>(\S+)\."), r"must be more than \2, got \1."),
    (re.compile(r"(\S+) is not in the range x<=(\S+)\."), r"must be at most \2, got \1."),
    (re.compile(r"(\S+) is not in the range (\S+)<=x<=(\S+)\."), r"must be from \2 to \3, got \1."),
)
_EXTRA = re.compile(r"Got unexpected extra arguments? \((.*)\)", re.DOTALL)

_CONDITION = ("--filter", "--where", "PREDICATE")
OTHER_OPTIONS = {
    "--as-of": ("--version",),
    "--at": ("--version",),
    "--cols": ("--columns",),
    "--column": ("--columns", "COLUMNS", "COLUMN"),
    "--columns": ("COLUMNS", "COLUMN"),
    "--condition": _CONDITION,
    "--dest": ("--output", "FILE"),
    "--dryrun": ("--dry-run",),
    "--dtype": ("--column-type", "--type"),
    "--fields": ("--columns", "COLUMNS"),
    "--file": ("SOURCE", "FILE", "--output"),
    "--filter": _CONDITION,
    "--force": ("--overwrite", "--replace"),
    "--header": ("--column-names",),
    "--if-exists": ("--mode",),
    "--input": ("SOURCE",),
    "--keep": ("--retain",),
    "--key": ("--on", "--job-key"),
    "--n": ("--limit",),
    "--na": ("--null",),
    "--name": ("--name", "TAG", "BRANCH"),
    "--null-value": ("--null",),
    "--num-rows": ("--limit",),
    "--out": ("--output", "FILE"),
    "--output": ("FILE",),
    "--predicate": _CONDITION,
    "--rows": ("--limit",),
    "--schema": ("--column-type",),
    "--select": ("--columns",),
    "--sep": ("--delimiter",),
    "--separator": ("--delimiter",),
    "--sort": (),
    "--sql": ("--set", "--query", "STATEMENT"),
    "--tag": ("--version", "TAG"),
    "--top": ("--limit",),
    "--type": ("--kind", "--column-type"),
    "--where": _CONDITION,
}
"""Options of other tools and other commands, and those that mean the same where a command has them."""


@contextlib.contextmanager
def plain_usage_errors() -> Iterator[None]:
    """Say in plain English what is wrong with the options and arguments of a command."""
    try:
        yield
    except click.NoSuchOption as error:
        advice = _other_option(error)
        if advice is None:
            raise
        raise click.UsageError(f"No such option '{error.option_name}'. {advice}", error.ctx) from error
    except click.BadParameter as error:
        text = error.message
        for form, words in _NUMBERS:
            text = form.sub(words, text)
        if text == error.message:
            raise
        raise click.BadParameter(text, error.ctx, error.param, error.param_hint) from error
    except click.UsageError as error:
        extra = _EXTRA.fullmatch(error.message)
        if extra is None or error.ctx is None:
            raise
        raise click.UsageError(f"{error.message}. {_for_extra(error.ctx, extra[1])}", error.ctx) from error


def close_command(name: str, names: Iterable[str]) -> str | None:
    """Return the command of a similar name; None if there is none."""
    return next(iter(get_close_matches(name, list(names), 1)), None)


def _other_option(error: click.NoSuchOption) -> str | None:
    if error.ctx is None:
        return None
    typed = _typed(error.ctx)
    wanted = [name for name in OTHER_OPTIONS.get(error.option_name.replace("_", "-"), ()) if name in typed]
    close = get_close_matches(error.option_name.replace("_", "-"), typed, 1, cutoff=0.75)
    found = next(iter([*wanted, *close]), None)
    if found is None:
        return f"Options are {', '.join(name for name in typed if name.startswith('--'))}."
    if found.startswith("-"):
        return f"Did you mean '{found}'?"
    return f"Write its value as the argument {found}: lance-ops {_usage(error.ctx)}."


def _for_extra(ctx: click.Context, extra: str) -> str:
    typed = _typed(ctx)
    if extra.strip().isdecimal() and "--limit" in typed:
        return f"Write a number of rows as --limit {extra}."
    condition = next((name for name in _CONDITION if name in typed), None)
    if (
        condition is not None
        and condition.startswith("-")
        and re.search(r"[=<>]| (?:is|in|like) ", extra, re.IGNORECASE)
    ):
        return f"Write a condition as {condition} '{extra}'."
    if "--output" in typed and re.search(r"\.\w+$", extra):
        return f"Write the name of a file to write as --output {extra}."
    return f"Its arguments are: lance-ops {_usage(ctx)}."


def _usage(ctx: click.Context) -> str:
    arguments = [item.make_metavar(ctx) for item in ctx.command.params if isinstance(item, click.Argument)]
    path = ctx.command_path.partition(" ")[2]
    return " ".join([path, *arguments])


def _typed(ctx: click.Context) -> list[str]:
    """Return the long options and the arguments of a command as typed."""
    found = []
    for item in ctx.command.params:
        if isinstance(item, click.Option) and not item.hidden:
            found.append(max(item.opts, key=len))
        elif isinstance(item, click.Argument):
            found.append(str(item.metavar or item.name).upper())
    return found
