"""`lance-ops sql`: maintenance statements, as in the connector for the JVM."""

import json
from typing import TYPE_CHECKING

import click

from lance_ops.cli.command import running
from lance_ops.cli.options import KeyValueType, spark_option
from lance_ops.cli.output import fail, print_rows
from lance_ops.cli.values import plain_rows
from lance_ops.errors import LanceOpsError

if TYPE_CHECKING:
    import pyarrow as pa


@click.command("sql", short_help="Run a statement such as OPTIMIZE or MERGE INTO.")
@click.argument("statement")
@click.option("--root", help="Folder or bucket of the tables: t is t.lance.")
@click.option("--table", "tables", type=KeyValueType(), multiple=True, help="NAME=URI of a table.")
@click.option(
    "--storage-option", "storage_options", type=KeyValueType(), multiple=True, help="KEY=VALUE for the store."
)
@click.option("--json", "as_json", is_flag=True, help="Print the rows as one JSON object.")
@spark_option
def sql_command(
    *,
    statement: str,
    root: str | None,
    tables: tuple[tuple[str, str], ...],
    storage_options: tuple[tuple[str, str], ...],
    as_json: bool,
    spark: str | None,
) -> None:
    """Run STATEMENT and print the rows that it returns.

    A path in backticks is a table: lance-ops sql 'OPTIMIZE `events.lance`'. MERGE INTO reads its rows from
    another table.
    """
    try:
        from lance_ops.spark.sql.run import sql

        with running(spark) as run:
            found = sql(
                statement,
                tables=dict(tables),
                root=root,
                storage_options=dict(storage_options),
                runner=run.get("runner"),
            )
    except LanceOpsError as error:
        fail(error, as_json=as_json)
    _print(found, as_json=as_json)


def _print(table: "pa.Table", *, as_json: bool) -> None:
    rows = plain_rows(table)
    if as_json:
        click.echo(json.dumps({"rows": rows}))
    elif rows:
        print_rows(table.column_names, [[_text(value) for value in row.values()] for row in rows])


def _text(value: object) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
