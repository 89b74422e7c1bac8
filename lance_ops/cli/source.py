"""Options of commands that read input: files and their format, a query, or another Lance table."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import click

from lance_ops.cli.command import Call
from lance_ops.cli.options import KeyValueType

_OPTIONS = (
    click.argument("source", nargs=-1),
    click.option(
        "--format",
        "format_name",
        type=click.Choice(["parquet", "arrow", "csv", "tsv", "json", "jsonl", "orc", "avro"]),
        help="Format of SOURCE; default by the names of files, or the first bytes of standard input.",
    ),
    click.option("--delimiter", help="Character between CSV columns; default a comma, in .tsv files a tab."),
    click.option("--encoding", help="Encoding of CSV and JSON, e.g. latin-1 or utf-16; default UTF-8."),
    click.option(
        "--column-type",
        "column_types",
        multiple=True,
        type=KeyValueType(),
        help="NAME=TYPE of a CSV or JSON column, e.g. zip=string or 'price=decimal128(10, 2)'. Repeatable.",
    ),
    click.option(
        "--null", "null_values", multiple=True, help="Text that is null in CSV, e.g. NA. Repeatable."
    ),
    click.option("--column-names", help="Names of the columns of CSV without a header: a,b,c."),
    click.option("--decimal-point", help="Character of decimal numbers in CSV, e.g. a comma."),
    click.option("--timestamp-format", help="Format of dates and timestamps in CSV, e.g. %d.%m.%Y."),
    click.option("--query", help="SQL query whose rows are the input: DuckDB, or --database."),
    click.option(
        "--database",
        help="Database of --query: a DuckDB or SQLite file, or a URL such as postgresql://host/name.",
    ),
    click.option("--source-version", help="Version or tag of a Lance table as SOURCE; default the newest."),
    click.option("--source-columns", help="Columns of a Lance table as SOURCE: a,b,c."),
    click.option("--source-filter", help="SQL condition of the rows of a Lance table as SOURCE."),
)
_NAMES = (
    "source",
    "format_name",
    "delimiter",
    "encoding",
    "column_types",
    "null_values",
    "column_names",
    "decimal_point",
    "timestamp_format",
    "query",
    "database",
    "source_version",
    "source_columns",
    "source_filter",
)


def source_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add SOURCE and the options of input; the command gets the source as `data`."""

    @functools.wraps(command)
    def run(call: Call, **values: Any) -> None:
        given = {name: values.pop(name) for name in _NAMES}
        command(call, data=_source(given, call.storage_options), **values)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


def _source(given: Mapping[str, Any], storage_options: Mapping[str, str] | None) -> Any:
    paths: tuple[str, ...] = given["source"]
    _check(given, paths)
    if given["query"] is not None:
        from lance_ops.maintenance.sources.open import read_query

        return read_query(given["query"], given["database"])
    of_table = {name: given[f"source_{name}"] for name in ("version", "columns", "filter")}
    if any(value is not None for value in of_table.values()):
        return _table(paths, of_table, storage_options)
    from lance_ops.maintenance.sources.open import read_files

    return read_files(
        paths,
        format=given["format_name"],
        delimiter=given["delimiter"],
        encoding=given["encoding"],
        column_types=dict(given["column_types"]),
        null_values=given["null_values"] or None,
        column_names=_split(given["column_names"]),
        decimal_point=given["decimal_point"],
        timestamp_format=given["timestamp_format"],
        storage_options=storage_options,
    )


def _check(given: Mapping[str, Any], paths: tuple[str, ...]) -> None:
    if given["query"] is None and not paths:
        raise click.UsageError("Missing argument 'SOURCE...'; or use --query.")
    if given["query"] is not None and paths:
        raise click.UsageError("use either SOURCE or --query")
    if given["database"] is not None and given["query"] is None:
        raise click.UsageError("--database requires --query")
    others = [
        name for name in _NAMES[1:] if name not in ("query", "database") and given[name] not in (None, ())
    ]
    if given["query"] is not None and others:
        option = "--" + others[0].replace("_", "-").replace("format-name", "format")
        raise click.UsageError(f"{option} is for files, and a query has no files")


def _table(
    paths: tuple[str, ...], chosen: Mapping[str, str | None], storage_options: Mapping[str, str] | None
) -> Any:
    from lance_ops.maintenance.sources.lance_table import is_lance_table, open_table

    if len(paths) > 1 or not is_lance_table(paths[0]):
        raise click.UsageError(
            "--source-version, --source-columns and --source-filter are for one Lance table as SOURCE"
        )
    version = chosen["version"]
    return open_table(
        paths[0],
        int(version) if version is not None and version.isdecimal() else version,
        _split(chosen["columns"]),
        chosen["filter"],
        storage_options,
    )


def _split(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",")]
