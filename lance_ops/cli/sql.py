"""`lance-ops sql`: queries by DuckDB, and maintenance statements as in the connector for the JVM."""

import json
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from lance_ops.cli.command import running
from lance_ops.cli.options import KeyValueType, output_option, spark_option, verbosity_options
from lance_ops.cli.output import fail, plain_warnings, print_result, print_rows
from lance_ops.cli.rows_output import check_output, told_of_file, write_file
from lance_ops.errors import LanceOpsError

if TYPE_CHECKING:
    import pyarrow as pa


@click.command("sql", short_help="Run a SELECT, or a statement such as OPTIMIZE or MERGE INTO.")
@click.argument("statement")
@click.option("--root", help="Folder or bucket of the tables: t is t.lance.")
@click.option("--table", "tables", type=KeyValueType(), multiple=True, help="NAME=URI of a table.")
@output_option
@click.option(
    "--storage-option", "storage_options", type=KeyValueType(), multiple=True, help="KEY=VALUE for the store."
)
@verbosity_options
@click.option("--json", "as_json", is_flag=True, help="Print the rows as one JSON object.")
@spark_option
def sql_command(
    *,
    statement: str,
    root: str | None,
    tables: tuple[tuple[str, str], ...],
    output: str | None,
    file_format: str | None,
    overwrite: bool,
    storage_options: tuple[tuple[str, str], ...],
    as_json: bool,
    spark: str | None,
) -> None:
    """Run STATEMENT and print the rows that it returns, or write them to --output.

    SELECT, DESCRIBE, SUMMARIZE and EXPLAIN run in DuckDB (the extra duckdb) without Java, or on Spark with
    --spark. Every other statement is one of maintenance: OPTIMIZE, VACUUM, DELETE FROM, UPDATE, MERGE INTO,
    ALTER TABLE, SHOW INDEXES. A path in backticks is a table: lance-ops sql 'OPTIMIZE `events.lance`'.
    """
    check_output(output, file_format, overwrite=overwrite)
    try:
        from lance_ops.spark.sql.run import open_rows

        with plain_warnings(), running(spark) as run, ExitStack() as stack:
            rows = stack.enter_context(
                open_rows(
                    statement,
                    tables=dict(tables),
                    root=root,
                    storage_options=dict(storage_options),
                    runner=run.get("runner"),
                )
            )
            if output is None:
                _print(rows.read_all(), as_json=as_json)
                return
            written = write_file(
                rows,
                output,
                file_format,
                overwrite=overwrite,
                operation="sql",
                storage_options=dict(storage_options),
            )
    except LanceOpsError as error:
        fail(error, as_json=as_json)
    if written is not None:
        print_result(asdict(written) if as_json else f"sql: {told_of_file(written)}", as_json=as_json)


def _print(table: "pa.Table", *, as_json: bool) -> None:
    from lance_ops.answers.json_values import plain_rows

    rows = plain_rows(table)
    if as_json:
        click.echo(json.dumps({"rows": rows}))
    elif table.column_names == ["explain_key", "explain_value"]:
        click.echo("\n".join(row["explain_value"] for row in rows))
    elif rows:
        print_rows(table.column_names, [[_text(value) for value in row.values()] for row in rows])


def _text(value: object) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
