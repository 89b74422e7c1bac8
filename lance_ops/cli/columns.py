"""Commands on whole columns and whole tables: merge, replace-columns and truncate."""

from typing import Any

import click

from lance_ops.cli.command import Call, dataset_command, source_of
from lance_ops.cli.options import KeyValueType, dry_run_option, job_key_option, spark_option


@click.command("merge", short_help="Join columns from files to the rows by a key.")
@click.argument("uri")
@click.argument("source", nargs=-1, required=True)
@click.option("--on", "left_on", required=True, help="Key column of URI.")
@click.option("--right-on", help="Key column of SOURCE; default the name of --on.")
@dry_run_option
@job_key_option
@spark_option
@dataset_command
def merge_command(
    call: Call,
    *,
    source: tuple[str, ...],
    left_on: str,
    right_on: str | None,
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Add the columns of SOURCE to the rows of URI with the same key, in one commit: a left join.

    Rows without a match get nulls. SOURCE is the same as for append; its keys must be unique.
    """
    from lance_ops.maintenance.columns.join import merge

    with call.running(spark, dry_run=dry_run, job_key=job_key) as run:
        result = merge(
            call.uri,
            source_of(source),
            left_on,
            right_on,
            **run,
        )
    call.show(result)


@click.command("replace-columns", short_help="Replace the values of whole columns in place.")
@click.argument("uri")
@click.option(
    "--set",
    "values",
    multiple=True,
    required=True,
    type=KeyValueType(),
    help='COLUMN=SQL, e.g. "price=price * 2". Repeatable; all expressions read the old values.',
)
@click.option(
    "--fragment",
    "fragments",
    multiple=True,
    type=int,
    help="Replace values in this fragment only. Repeatable.",
)
@dry_run_option
@job_key_option
@spark_option
@dataset_command
def replace_columns_command(
    call: Call,
    *,
    values: tuple[tuple[str, str], ...],
    fragments: tuple[int, ...],
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Replace the values of whole columns of URI by SQL expressions, in one commit.

    Rows stay where they are: each fragment gets a new file with these columns beside the others.
    """
    from lance_ops.maintenance.columns.replace import replace_columns

    with call.running(spark, dry_run=dry_run, job_key=job_key) as run:
        result = replace_columns(
            call.uri,
            dict(values),
            fragments=fragments or None,
            **run,
        )
    call.show(result)


@click.command("truncate", short_help="Delete all rows, and keep the schema.")
@click.argument("uri")
@dry_run_option
@job_key_option
@dataset_command
def truncate_command(call: Call, *, dry_run: bool, job_key: str | None) -> None:
    """Delete all rows of URI in one commit, without reading any; earlier versions keep them."""
    from lance_ops.maintenance.metadata.truncate import truncate

    done: Any = truncate(call.uri, dry_run=dry_run, job_key=job_key, storage_options=call.storage_options)
    call.show(done)
