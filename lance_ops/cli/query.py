"""Commands that read rows: query and changes."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from lance_ops.cli.command import Call, dataset_command
from lance_ops.cli.options import VersionType, columns_option, filter_option, output_option, version_option
from lance_ops.cli.rows_output import (
    check_output,
    chosen_columns,
    print_plain_rows,
    print_table,
    told_of_file,
    write_file,
)
from lance_ops.errors import InvalidArgumentError

if TYPE_CHECKING:
    from lance_ops.table.dataset import Dataset

_ROWS = 20


@click.command("query", short_help="Show rows: filtered, or found by vector or text search.")
@click.argument("uri")
@columns_option
@filter_option
@click.option("--nearest", help='Nearest vectors, as JSON: {"column": "v", "q": [0.5, 1.0], "k": 5}.')
@click.option("--match", "words", help="Words to search in the indexed text columns, or a query as JSON.")
@click.option("--prefilter", is_flag=True, help="Apply --filter before the search.")
@click.option("--fast-search", is_flag=True, help="Search indexed rows only.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help=f"Maximum rows; default {_ROWS}, and all with --output.",
)
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Rows to skip first.")
@version_option
@click.option(
    "--mem-wal",
    is_flag=True,
    help="Also read rows of MemWAL that are not merged into the table: the newest row of each key.",
)
@click.option("--explain", is_flag=True, help="Show the plan (files and indices) without any rows.")
@output_option
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
    limit: int | None,
    offset: int,
    version: int | str | None,
    mem_wal: bool,
    explain: bool,
    output: str | None,
    file_format: str | None,
    overwrite: bool,
) -> None:
    """Show rows of URI, with its indices; --explain shows the plan, and --output writes them to a file."""
    if explain and output is not None:
        raise click.UsageError("--explain reads no rows: omit --output")
    check_output(output, file_format, overwrite=overwrite)
    dataset = call.open(version)
    options: dict[str, Any] = {"prefilter": prefilter, "fast_search": fast_search, "mem_wal": mem_wal}
    if nearest is not None:
        options["nearest"] = _parsed("nearest", nearest)
    if words is not None:
        options["full_text_query"] = _parsed("match", words) if words.lstrip().startswith("{") else words
    if limit is None and output is None:
        limit = _ROWS
    scan = dataset.scanner(chosen_columns(columns), condition, limit, offset, **options)
    head = {"operation": "query", "uri": dataset.uri, "version": dataset.version}
    if explain:
        shown = scan.explain()
        call.show({**head, "plan": shown} if call.as_json else shown)
        return
    if output is None:
        print_table(call, "query", dataset, scan.to_table())
        return
    written = write_file(
        scan.to_batches(),
        output,
        file_format,
        overwrite=overwrite,
        operation="query",
        storage_options=dict(dataset.storage_options),
    )
    if written is not None:
        call.show({**head, **asdict(written)} if call.as_json else f"query: {told_of_file(written)}")


@click.command("changes", short_help="Show rows that were inserted, updated and deleted.")
@click.argument("uri")
@click.option("--since", required=True, type=VersionType(), help="The older version, or a tag.")
@click.option("--until", type=VersionType(), help="The newer version, or a tag; default the newest.")
@click.option("--columns", help="Names separated by commas; default all.")
@click.option(
    "--limit", type=click.IntRange(min=0), default=_ROWS, show_default=True, help="Maximum rows to show."
)
@dataset_command
def changes_command(
    call: Call, *, since: int | str, until: int | str | None, columns: str | None, limit: int
) -> None:
    """Show the rows of URI that differ between two versions, and how many of each kind there are."""
    dataset = call.open(until)
    found = changed_rows(dataset, since, chosen_columns(columns), limit)
    if call.as_json:
        head = {"operation": "changes", "uri": dataset.uri, "version": dataset.version}
        call.show({**head, "counts": dict(found.counts), "rows": found.rows})
        return
    found.print()
    told = ", ".join(f"{count:,} {kind}" for kind, count in sorted(found.counts.items()))
    click.echo(told or "no rows differ")


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """The first rows that differ between two versions.

    Attributes:
        names: Columns.
        rows: The first rows, as JSON values.
        counts: Number of all rows by kind.
    """

    names: Sequence[str]
    rows: list[dict[str, Any]]
    counts: Counter[str]

    def print(self) -> None:
        """Print the rows as a table."""
        print_plain_rows(self.names, self.rows)


def changed_rows(dataset: "Dataset", since: int | str, columns: list[str] | None, limit: int) -> ChangedRows:
    """Read the rows that differ from an older version, and keep the first ones."""
    from lance_ops.answers.json_values import plain_rows
    from lance_ops.table.changes import CHANGE_TYPE

    feed = dataset.changes(since, columns=columns)
    counts: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    for batch in feed:
        counts.update(batch.column(CHANGE_TYPE).to_pylist())
        rows += plain_rows(batch.slice(0, limit - len(rows)))
    return ChangedRows(feed.schema.names, rows, counts)


def _parsed(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(
            f"--{name} is not valid JSON: {error}",
            field=f"--{name}",
            hint='put it in single quotes, as in \'{"column": "v", "q": [0.5, 1.0], "k": 5}\'',
        ) from error
