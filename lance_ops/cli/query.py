"""The command that reads rows: query."""

import base64
import json
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any

import click

from lance_ops.cli.command import Call, dataset_command
from lance_ops.cli.output import print_rows
from lance_ops.errors import InvalidArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_ops.table.dataset import Dataset

_ROWS = 20
_WIDTH = 60


@click.command("query", short_help="Show rows: filtered, nearest to a vector, or fitting some words.")
@click.argument("uri")
@click.option("--columns", help="Names or nested paths between commas; default all.")
@click.option("--filter", "condition", help="SQL condition.")
@click.option("--nearest", help='Nearest vectors, as JSON: {"column": "v", "q": [0.5, 1.0], "k": 5}.')
@click.option("--match", "words", help="Words that texts of indexed columns hold, or a query as JSON.")
@click.option("--prefilter", is_flag=True, help="Search among the rows that meet --filter only.")
@click.option("--fast-search", is_flag=True, help="Search indexed rows only.")
@click.option("--limit", type=click.IntRange(min=0), default=_ROWS, show_default=True, help="Rows to show.")
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Rows to leave out first.")
@click.option("--version", "version", help="Version or tag; default the newest.")
@click.option("--explain", is_flag=True, help="Show what would be read and by which indices, and no row.")
@dataset_command
def query_command(
    call: Call,
    *,
    columns: str | None,
    condition: str | None,
    nearest: str | None,
    words: str | None,
    prefilter: bool,
    fast_search: bool,
    limit: int,
    offset: int,
    version: str | None,
    explain: bool,
) -> None:
    """Show rows of URI. Its indices are used; --explain tells which."""
    dataset = _open(call, version)
    options: dict[str, Any] = {"prefilter": prefilter, "fast_search": fast_search}
    if nearest is not None:
        options["nearest"] = _parsed("nearest", nearest)
    if words is not None:
        options["full_text_query"] = _parsed("match", words) if words.lstrip().startswith("{") else words
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    scan = dataset.scanner(names, condition, limit, offset, **options)
    if explain:
        shown = scan.explain()
        call.show(
            {"operation": "query", "uri": dataset.uri, "version": dataset.version, "plan": shown}
            if call.as_json
            else shown
        )
        return
    table = scan.to_table()
    rows = [{name: _plain(value) for name, value in row.items()} for row in _rows(table)]
    if call.as_json:
        call.show({"operation": "query", "uri": dataset.uri, "version": dataset.version, "rows": rows})
        return
    print_rows(table.column_names, [[_short(value) for value in row.values()] for row in rows])


def _open(call: Call, version: str | None) -> "Dataset":
    from lance_ops.table.dataset import Dataset

    chosen = int(version) if version is not None and version.isdecimal() else version
    return Dataset.open(call.uri, chosen, storage_options=call.storage_options)


def _parsed(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(f"it is no JSON: {error}", field=f"--{name}") from error


def _rows(table: "pa.Table") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return {str(name): _plain(item) for name, item in value.items()}
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
