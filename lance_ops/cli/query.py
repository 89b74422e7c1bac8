"""Commands that read rows: query and changes."""

import json
from typing import TYPE_CHECKING, Any

import click

from lance_ops.cli.command import Call, dataset_command
from lance_ops.cli.output import print_rows
from lance_ops.cli.values import plain_rows
from lance_ops.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lance_ops.table.dataset import Dataset

_ROWS = 20
_WIDTH = 60


@click.command("query", short_help="Show rows: filtered, or found by vector or text search.")
@click.argument("uri")
@click.option("--columns", help="Names or nested paths, separated by commas; default all.")
@click.option("--filter", "condition", help="SQL condition.")
@click.option("--nearest", help='Nearest vectors, as JSON: {"column": "v", "q": [0.5, 1.0], "k": 5}.')
@click.option("--match", "words", help="Words to search in the indexed text columns, or a query as JSON.")
@click.option("--prefilter", is_flag=True, help="Apply --filter before the search.")
@click.option("--fast-search", is_flag=True, help="Search indexed rows only.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=_ROWS, show_default=True, help="Maximum rows to show."
)
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Rows to skip first.")
@click.option("--version", "version", help="Version or tag; default the newest.")
@click.option("--explain", is_flag=True, help="Show the plan (files and indices) without any rows.")
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
    """Show rows of URI, with its indices; --explain shows the plan."""
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
    rows = plain_rows(table)
    if call.as_json:
        call.show({"operation": "query", "uri": dataset.uri, "version": dataset.version, "rows": rows})
        return
    print_rows(table.column_names, [[_short(value) for value in row.values()] for row in rows])


@click.command("changes", short_help="Show rows that were inserted, updated and deleted.")
@click.argument("uri")
@click.option("--since", required=True, help="The older version, or a tag.")
@click.option("--until", help="The newer version, or a tag; default the newest.")
@click.option("--columns", help="Names separated by commas; default all.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=_ROWS, show_default=True, help="Maximum rows to show."
)
@dataset_command
def changes_command(call: Call, *, since: str, until: str | None, columns: str | None, limit: int) -> None:
    """Show the rows of URI that differ between two versions, and how many of each kind there are."""
    from collections import Counter

    from lance_ops.table.changes import CHANGE_TYPE

    dataset = _open(call, until)
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    feed = dataset.changes(int(since) if since.isdecimal() else since, columns=names)
    counts: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    for batch in feed:
        counts.update(batch.column(CHANGE_TYPE).to_pylist())
        rows += plain_rows(batch.slice(0, limit - len(rows)))
    if call.as_json:
        head = {"operation": "changes", "uri": dataset.uri, "version": dataset.version}
        call.show({**head, "counts": dict(counts), "rows": rows})
        return
    print_rows(feed.schema.names, [[_short(value) for value in row.values()] for row in rows])
    told = ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items())) or "no rows differ"
    click.echo(told)


def _open(call: Call, version: str | None) -> "Dataset":
    from lance_ops.table.dataset import Dataset

    chosen = int(version) if version is not None and version.isdecimal() else version
    return Dataset.open(call.uri, chosen, storage_options=call.storage_options)


def _parsed(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(f"is not valid JSON: {error}", field=f"--{name}") from error


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
