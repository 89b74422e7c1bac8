"""Commands that answer questions about a dataset: show, schema, head, count, export and diff."""

from dataclasses import asdict

import click

from lance_ops.cli.command import Call, dataset_command
from lance_ops.cli.options import (
    VersionType,
    columns_option,
    filter_option,
    output_options,
    version_option,
)
from lance_ops.cli.output import progress_listener
from lance_ops.cli.rows_output import chosen_columns, print_table, write_to_stdout

_HEAD_ROWS = 10
_DIFF_ROWS = 10


@click.command("show", short_help="Show schema, size, indices and health on one screen.")
@click.argument("uri")
@version_option
@dataset_command
def show_command(call: Call, *, version: int | str | None) -> None:
    """Show URI on one screen: columns, rows, size, versions, tags, indices, and due maintenance."""
    from lance_ops.answers.description import describe

    call.show(describe(call.open(version)))


@click.command("schema", short_help="Show the columns and their types.")
@click.argument("uri")
@version_option
@dataset_command
def schema_command(call: Call, *, version: int | str | None) -> None:
    """Show the columns of URI with their Arrow types; --json has their metadata, too."""
    from lance_ops.answers.description import columns_text, describe_columns

    dataset = call.open(version)
    columns = describe_columns(dataset)
    if call.as_json:
        listed = [asdict(column) for column in columns]
        call.show({"operation": "schema", "uri": dataset.uri, "version": dataset.version, "columns": listed})
        return
    click.echo(columns_text(columns))


@click.command("head", short_help="Show the first rows.")
@click.argument("uri")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    default=_HEAD_ROWS,
    show_default=True,
    help="Maximum rows to show.",
)
@columns_option
@version_option
@dataset_command
def head_command(call: Call, *, limit: int, columns: str | None, version: int | str | None) -> None:
    """Show the first rows of URI; query filters and searches."""
    dataset = call.open(version)
    print_table(call, "head", dataset, dataset.head(limit, chosen_columns(columns)))


@click.command("count", short_help="Count the rows, or those that match a filter.")
@click.argument("uri")
@filter_option
@version_option
@dataset_command
def count_command(call: Call, *, condition: str | None, version: int | str | None) -> None:
    """Count the rows of URI, or those that match --filter; prints the number alone."""
    dataset = call.open(version)
    rows = dataset.count_rows(condition)
    if call.as_json:
        call.show({"operation": "count", "uri": dataset.uri, "version": dataset.version, "rows": rows})
        return
    click.echo(rows)


@click.command("export", short_help="Write rows to a Parquet, Arrow, CSV or JSON file.")
@click.argument("uri")
@click.argument("output", metavar="FILE")
@columns_option
@filter_option
@click.option("--limit", type=click.IntRange(min=0), help="Maximum rows.")
@click.option("--offset", type=click.IntRange(min=0), help="Rows to skip first.")
@version_option
@output_options
@dataset_command
def export_command(
    call: Call,
    *,
    output: str,
    columns: str | None,
    condition: str | None,
    limit: int | None,
    offset: int | None,
    version: int | str | None,
    file_format: str | None,
    overwrite: bool,
) -> None:
    """Write the rows of URI to FILE: .parquet, .arrow, .csv, .tsv, .jsonl or .json, also in an object store.

    FILE appears as a whole or not at all, and replaces no file without --overwrite. The suffixes .gz, .bz2
    and .zst compress text files. Columns whose types a text file does not keep are listed. FILE - is standard
    output, and requires --format.
    """
    from lance_ops.answers.export import export

    dataset = call.open(version)
    names = chosen_columns(columns)
    if output == "-":
        write_to_stdout(dataset.to_batches(names, condition, limit, offset), file_format)
        return
    with progress_listener() as progress:
        call.show(
            export(
                dataset,
                output,
                names,
                condition,
                limit,
                offset,
                format=file_format,
                overwrite=overwrite,
                progress=progress,
            )
        )


@click.command("diff", short_help="Compare schema and rows of two versions.")
@click.argument("uri")
@click.argument("since", metavar="V1", type=VersionType())
@click.argument("until", metavar="[V2]", required=False, type=VersionType())
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=_DIFF_ROWS,
    show_default=True,
    help="Maximum differing rows to show.",
)
@columns_option
@dataset_command
def diff_command(
    call: Call, *, since: int | str, until: int | str | None, limit: int, columns: str | None
) -> None:
    """Compare version V1 of URI with V2 (numbers or tags; default the newest).

    Shows the columns that were added, dropped or altered, how many rows were inserted, updated and deleted,
    and some of them. Exit code 0 with and without differences.
    """
    from lance_ops.answers.difference import diff
    from lance_ops.cli.query import changed_rows

    dataset = call.open(until)
    found = diff(dataset, since)
    known = not found.unknown and bool(found.inserted or found.updated or found.deleted)
    rows = changed_rows(dataset, since, chosen_columns(columns), limit) if known and limit else None
    if call.as_json:
        call.show({**found.to_dict(), "changes": [] if rows is None else rows.rows})
        return
    click.echo(str(found))
    if rows is not None:
        click.echo()
        rows.print()
