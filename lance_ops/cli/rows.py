"""Commands that change rows by expressions or by keys: update, merge-insert, add-columns."""

import sys
from importlib import import_module
from typing import Any, Literal

import click

from lance_ops.cli.command import Call, dataset_command
from lance_ops.cli.options import KeyValueType, dry_run_option, job_key_option, spark_option
from lance_ops.cli.source import source_options


@click.command("update", short_help="Set columns of rows to new values.")
@click.argument("uri")
@click.option(
    "--set",
    "values",
    multiple=True,
    required=True,
    type=KeyValueType(),
    help='COLUMN=SQL, e.g. "price=price * 2" or "name=\'x\'". Repeatable; all read the old values.',
)
@click.option("--where", help="SQL condition; without it all rows are updated.")
@click.option(
    "--rewrite",
    type=click.Choice(["rows", "columns", "auto"]),
    default="rows",
    show_default=True,
    help="Move the rows to new files, or write the changed columns of all rows to separate files.",
)
@dry_run_option
@job_key_option
@spark_option
@dataset_command
def update_command(
    call: Call,
    *,
    values: tuple[tuple[str, str], ...],
    where: str | None,
    rewrite: Literal["rows", "columns", "auto"],
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Set columns of the rows of URI to values of SQL expressions, in one commit.

    A value that does not fit its column is an error, and nothing is changed. The rows move to new files, or
    get new files for these columns; compact and cleanup free the space of the old values.
    """
    from lance_ops.maintenance.update.operation import update

    with call.running(spark, dry_run=dry_run, job_key=job_key) as run:
        result = update(
            call.uri,
            dict(values),
            where,
            rewrite=rewrite,
            **run,
        )
    call.show(result)


@click.command("merge-insert", short_help="Update and insert rows from files by a key.")
@click.argument("uri")
@click.option("--on", multiple=True, help="Key column. Repeatable; default the primary key of URI.")
@click.option(
    "--when-matched",
    type=click.Choice(["update_all", "update_if", "delete", "fail", "do_nothing"]),
    default="update_all",
    show_default=True,
    help="What happens to rows whose key SOURCE has; update_if requires --condition.",
)
@click.option("--condition", help='SQL, e.g. "source.seen > target.seen": the rows that update_if updates.')
@click.option(
    "--when-not-matched",
    type=click.Choice(["insert_all", "do_nothing"]),
    default="insert_all",
    show_default=True,
    help="What happens to rows of SOURCE with a new key.",
)
@click.option(
    "--when-not-matched-by-source",
    default="do_nothing",
    show_default=True,
    help="delete removes the rows whose key SOURCE lacks; an SQL condition limits this to matching rows.",
)
@click.option(
    "--on-duplicates",
    type=click.Choice(["fail", "first"]),
    default="fail",
    show_default=True,
    help="What happens when several rows of SOURCE have the same key.",
)
@dry_run_option
@job_key_option
@spark_option
@dataset_command
@source_options
def merge_insert_command(
    call: Call,
    *,
    data: Any,
    on: tuple[str, ...],
    when_matched: Literal["update_all", "update_if", "delete", "fail", "do_nothing"],
    condition: str | None,
    when_not_matched: Literal["insert_all", "do_nothing"],
    when_not_matched_by_source: str,
    on_duplicates: Literal["fail", "first"],
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Merge the rows of SOURCE into the dataset at URI by a key, in one commit.

    SOURCE is the same as for append; it may lack columns, which updated rows keep. By default, rows with a
    known key are updated and the others are inserted.
    """
    from lance_ops.maintenance.merge_insert.operation import merge_insert

    with call.running(spark, dry_run=dry_run, job_key=job_key) as run:
        result = merge_insert(
            call.uri,
            data,
            list(on) or None,
            when_matched=when_matched,
            condition=condition,
            when_not_matched=when_not_matched,
            when_not_matched_by_source=when_not_matched_by_source,
            on_duplicates=on_duplicates,
            **run,
        )
    call.show(result)


@click.command("add-columns", short_help="Add columns by SQL, a function or files.")
@click.argument("uri")
@click.option(
    "--set",
    "values",
    multiple=True,
    type=KeyValueType(),
    help='COLUMN=SQL, e.g. "total=price * amount", or "note=CAST(NULL AS STRING)". Repeatable.',
)
@click.option(
    "--function",
    metavar="MODULE:NAME",
    help="Function over record batches as MODULE:NAME, see batch_udf of the Python API.",
)
@click.option(
    "--from",
    "source",
    multiple=True,
    help="Files with the new columns: one row for each live row, in the order of URI. Repeatable.",
)
@dry_run_option
@job_key_option
@spark_option
@dataset_command
def add_columns_command(
    call: Call,
    *,
    values: tuple[tuple[str, str], ...],
    function: str | None,
    source: tuple[str, ...],
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Add columns to URI, computed from existing ones or read from files, in one commit.

    No existing file is rewritten: each fragment gets another one. With a job key, an interrupted run is
    resumed by the next one.
    """
    from lance_ops.maintenance.columns.operation import add_columns
    from lance_ops.maintenance.sources.open import open_paths

    if sum(map(bool, (values, function, source))) != 1:
        raise click.UsageError("use one of --set, --function and --from")
    columns: Any = dict(values)
    if function is not None:
        columns = _imported(function)
    elif source:
        columns = open_paths(source).batches()
    with call.running(spark, dry_run=dry_run, job_key=job_key) as run:
        result = add_columns(
            call.uri,
            columns,
            **run,
        )
    call.show(result)


def _imported(name: str) -> Any:
    """Return a function by module and name."""
    module, _, attribute = name.partition(":")
    sys.path.insert(0, "")
    try:
        return getattr(import_module(module), attribute)
    except (AttributeError, ImportError, ValueError) as error:
        raise click.BadParameter(f"cannot import {name!r}: {error}", param_hint="--function") from error
    finally:
        sys.path.remove("")


@click.command("alter-column", short_help="Change the name or type of a column.")
@click.argument("uri")
@click.argument("path")
@click.option("--name", help="The new name.")
@click.option(
    "--type", "type_name", help="The new type as an Arrow name, e.g. int64, string, double, date32."
)
@click.option("--nullable/--required", default=None, help="Allow or forbid nulls.")
@dry_run_option
@job_key_option
@spark_option
@dataset_command
def alter_column_command(
    call: Call,
    *,
    path: str,
    name: str | None,
    type_name: str | None,
    nullable: bool | None,
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Alter the column PATH of URI: its --name, its --type, or its nullability, in one commit.

    A new type writes the values of the column to new files; other changes write no data.
    """
    import pyarrow as pa

    from lance_ops.maintenance.columns.alter import Alteration, alter_columns

    alteration: Alteration = {"path": path}
    if name is not None:
        alteration["name"] = name
    if nullable is not None:
        alteration["nullable"] = nullable
    if type_name is not None:
        try:
            alteration["data_type"] = pa.type_for_alias(type_name)
        except ValueError as error:
            message = f"{type_name!r} is not an Arrow type; write for example int64, string, double or date32"
            raise click.BadParameter(message, param_hint="--type") from error
    with call.running(spark, dry_run=dry_run, job_key=job_key) as run:
        result = alter_columns(
            call.uri,
            alteration,
            **run,
        )
    call.show(result)
