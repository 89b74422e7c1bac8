"""Commands that change the rows and columns of a dataset: append, replace, delete, drop-columns.

The operations are imported by the commands that run them, so that `--help` and mistyped options answer at
once.
"""

from typing import Any, Literal

import click

from lance_ops.cli.command import Call, dataset_command
from lance_ops.cli.options import SizeType, dry_run_option, job_key_option, spark_option
from lance_ops.cli.output import progress_listener
from lance_ops.cli.source import source_options


@click.command("append", short_help="Add rows from files to a dataset.")
@click.argument("uri")
@click.option(
    "--mode",
    type=click.Choice(["append", "create", "overwrite"]),
    default="append",
    show_default=True,
    help="create requires that URI has no dataset; overwrite replaces schema and rows in a new version.",
)
@click.option("--fill-missing", is_flag=True, help="Fill nullable columns that SOURCE lacks with nulls.")
@click.option("--max-rows-per-file", type=click.IntRange(min=1), help="Maximum rows per data file.")
@click.option("--max-bytes-per-file", type=SizeType(), help="Maximum bytes per data file.")
@click.option(
    "--data-storage-version", help="Storage version of the files; default that of the dataset, or 2.2."
)
@click.option(
    "--stable-row-ids",
    is_flag=True,
    help="Use stable row ids in a new dataset: rows keep their ids when they move.",
)
@dry_run_option
@job_key_option
@spark_option
@dataset_command
@source_options
def append_command(
    call: Call,
    *,
    data: Any,
    mode: Literal["append", "create", "overwrite"],
    fill_missing: bool,
    max_rows_per_file: int | None,
    max_bytes_per_file: int | None,
    data_storage_version: str | None,
    stable_row_ids: bool,
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Add the rows of SOURCE to the dataset at URI, in one commit; creates it if there is none.

    SOURCE are files, folders of them, or globs, all of one format: Parquet, Arrow, CSV, TSV, JSON (lines or
    an array), ORC or Avro, also compressed (.gz, .zst, .bz2); or one Lance table; or - for standard input.
    Columns are matched by name; all mismatches are listed before anything is written.
    """
    from lance_ops.maintenance.ingest.operation import write_dataset

    limits = {"max_rows_per_file": max_rows_per_file, "max_bytes_per_file": max_bytes_per_file}
    with call.running(spark, job_key=job_key, dry_run=dry_run) as run:
        run |= {name: limit for name, limit in limits.items() if limit is not None}
        result = write_dataset(
            data,
            call.uri,
            mode=mode,
            data_storage_version=data_storage_version,
            enable_stable_row_ids=stable_row_ids,
            fill_missing=fill_missing,
            **run,
        )
    call.show(result)


@click.command("replace", short_help="Replace the rows that match a condition by rows from files.")
@click.argument("uri")
@click.argument("predicate")
@click.option("--fill-missing", is_flag=True, help="Fill nullable columns that SOURCE lacks with nulls.")
@click.option("--max-rows-per-file", type=click.IntRange(min=1), help="Maximum rows per data file.")
@click.option("--allow-empty", is_flag=True, help="Delete the old rows even if SOURCE has none.")
@dry_run_option
@job_key_option
@spark_option
@dataset_command
@source_options
def replace_command(
    call: Call,
    *,
    data: Any,
    predicate: str,
    fill_missing: bool,
    max_rows_per_file: int | None,
    allow_empty: bool,
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Replace the rows of URI for which PREDICATE is true by the rows of SOURCE, in one commit.

    PREDICATE is an SQL condition as in delete, SOURCE what append takes. Every row of SOURCE must match
    PREDICATE, so that a repeated replace finds all of them.
    """
    from lance_ops.maintenance.ingest.operation import replace_where

    with call.running(spark, dry_run=dry_run, job_key=job_key) as run:
        if max_rows_per_file is not None:
            run["max_rows_per_file"] = max_rows_per_file
        result = replace_where(
            call.uri,
            data,
            predicate,
            fill_missing=fill_missing,
            allow_empty=allow_empty,
            **run,
        )
    call.show(result)


@click.command("delete", short_help="Delete the rows that match a condition.")
@click.argument("uri")
@click.argument("predicate")
@click.option(
    "--max-fraction",
    type=click.FloatRange(0, 1),
    help="Fail if more than this share of the rows would be deleted.",
)
@dry_run_option
@job_key_option
@spark_option
@dataset_command
def delete_command(
    call: Call,
    *,
    predicate: str,
    max_fraction: float | None,
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Delete the rows of URI for which PREDICATE is true.

    PREDICATE is an SQL condition such as "year < 2013 AND carrier IN ('UA', 'AA')"; rows for which it is null
    stay. The rows are marked as deleted; compact and cleanup free their space.
    """
    from lance_ops.maintenance.delete.operation import delete

    with call.running(spark, dry_run=dry_run, job_key=job_key) as run:
        result = delete(
            call.uri,
            predicate,
            max_fraction=max_fraction,
            **run,
        )
    call.show(result)


@click.command("drop-columns", short_help="Drop columns and the indices on them.")
@click.argument("uri")
@click.argument("columns", nargs=-1, required=True)
@job_key_option
@dataset_command
def drop_columns_command(call: Call, *, columns: tuple[str, ...], job_key: str | None) -> None:
    """Drop the COLUMNS of URI, in one commit; earlier versions keep them. A path such as a.b drops a member.

    No file is rewritten: compact and cleanup free the space.
    """
    from lance_ops.maintenance.metadata.actions import drop_columns

    with progress_listener() as progress:
        call.show(
            drop_columns(
                call.uri, columns, job_key=job_key, progress=progress, storage_options=call.storage_options
            )
        )
