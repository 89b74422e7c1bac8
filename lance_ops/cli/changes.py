"""The commands that change a dataset: append, delete, compact, index, cleanup.

The operations are imported by the commands that run them, so that `--help` and mistyped options answer at
once.
"""

from datetime import timedelta
from typing import Literal

import click

from lance_ops.cli.command import Call, dataset_command, running
from lance_ops.cli.options import DurationType, ParameterType, dry_run_option, job_key_option, spark_option
from lance_ops.cli.output import progress_listener


@click.command("append", short_help="Add rows from files to a dataset.")
@click.argument("uri")
@click.argument("source", nargs=-1, required=True)
@click.option(
    "--mode",
    type=click.Choice(["append", "create", "overwrite"]),
    default="append",
    show_default=True,
    help="create wants no dataset at URI; overwrite replaces schema and rows in a new version.",
)
@click.option("--fill-missing", is_flag=True, help="Fill nullable columns that SOURCE lacks with nulls.")
@click.option("--max-rows-per-file", type=click.IntRange(min=1), help="Rows of a data file at most.")
@click.option("--max-bytes-per-file", type=click.IntRange(min=1), help="Bytes of a data file at most.")
@click.option("--data-storage-version", help="Of the files; default that of the dataset, or 2.2.")
@click.option("--stable-row-ids", is_flag=True, help="Rows of a new dataset keep their ids when they move.")
@job_key_option
@spark_option
@dataset_command
def append_command(
    call: Call,
    *,
    source: tuple[str, ...],
    mode: Literal["append", "create", "overwrite"],
    fill_missing: bool,
    max_rows_per_file: int | None,
    max_bytes_per_file: int | None,
    data_storage_version: str | None,
    stable_row_ids: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Add the rows of SOURCE to the dataset at URI, in one commit; creates it if there is none.

    SOURCE are Parquet, CSV, TSV or Arrow files, folders of them, or globs, all of one format. Columns are
    matched by name; whatever does not fit is listed before anything is written.
    """
    from lance_ops.maintenance.ingest.operation import write_dataset

    limits = {"max_rows_per_file": max_rows_per_file, "max_bytes_per_file": max_bytes_per_file}
    with running(spark) as run:
        run |= {name: limit for name, limit in limits.items() if limit is not None}
        result = write_dataset(
            list(source) if len(source) > 1 else source[0],
            call.uri,
            mode=mode,
            data_storage_version=data_storage_version,
            enable_stable_row_ids=stable_row_ids,
            fill_missing=fill_missing,
            job_key=job_key,
            storage_options=call.storage_options,
            **run,
        )
    call.show(result)


@click.command("replace", short_help="Replace the rows that a condition selects by those of files.")
@click.argument("uri")
@click.argument("predicate")
@click.argument("source", nargs=-1, required=True)
@click.option("--fill-missing", is_flag=True, help="Fill nullable columns that SOURCE lacks with nulls.")
@click.option("--max-rows-per-file", type=click.IntRange(min=1), help="Rows of a data file at most.")
@click.option("--allow-empty", is_flag=True, help="Delete the old rows even if SOURCE has none.")
@dry_run_option
@job_key_option
@spark_option
@dataset_command
def replace_command(
    call: Call,
    *,
    predicate: str,
    source: tuple[str, ...],
    fill_missing: bool,
    max_rows_per_file: int | None,
    allow_empty: bool,
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Replace the rows of URI for which PREDICATE is true by the rows of SOURCE, in one commit.

    PREDICATE is an SQL condition as in delete, SOURCE what append takes. Every row of SOURCE has to match
    PREDICATE, so that replacing it once more finds them all.
    """
    from lance_ops.maintenance.ingest.operation import replace_where

    with running(spark) as run:
        if max_rows_per_file is not None:
            run["max_rows_per_file"] = max_rows_per_file
        result = replace_where(
            call.uri,
            list(source) if len(source) > 1 else source[0],
            predicate,
            fill_missing=fill_missing,
            allow_empty=allow_empty,
            dry_run=dry_run,
            job_key=job_key,
            storage_options=call.storage_options,
            **run,
        )
    call.show(result)


@click.command("delete", short_help="Delete the rows for which a condition is true.")
@click.argument("uri")
@click.argument("predicate")
@click.option(
    "--max-fraction", type=click.FloatRange(0, 1), help="Refuse to delete a greater share of the rows."
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
    stay. The rows are marked; their space comes back with compact and cleanup.
    """
    from lance_ops.maintenance.delete.operation import delete

    with running(spark) as run:
        result = delete(
            call.uri,
            predicate,
            dry_run=dry_run,
            max_fraction=max_fraction,
            job_key=job_key,
            storage_options=call.storage_options,
            **run,
        )
    call.show(result)


@click.command("drop-columns", short_help="Drop columns and the indices on them.")
@click.argument("uri")
@click.argument("columns", nargs=-1, required=True)
@job_key_option
@dataset_command
def drop_columns_command(call: Call, *, columns: tuple[str, ...], job_key: str | None) -> None:
    """Drop the top-level COLUMNS of URI, in one commit; earlier versions keep them.

    No file is rewritten: the space comes back with compaction and cleanup.
    """
    from lance_ops.maintenance.metadata.actions import drop_columns

    with progress_listener() as progress:
        call.show(
            drop_columns(
                call.uri, columns, job_key=job_key, progress=progress, storage_options=call.storage_options
            )
        )


@click.command("compact", short_help="Merge small fragments, purge deleted rows.")
@click.argument("uri")
@click.option("--target-rows", type=click.IntRange(min=1), help="Rows of a fragment to aim at.")
@click.option("--max-bytes-per-file", type=click.IntRange(min=1), help="Bytes of a data file at most.")
@click.option(
    "--deletions-threshold",
    type=click.FloatRange(0, 1),
    help="Share of deleted rows above which a fragment is rewritten; 1 for never.",
)
@click.option("--max-source-fragments", type=click.IntRange(min=1), help="Fragments to rewrite at most.")
@click.option("--max-source-bytes", type=click.IntRange(min=1), help="Bytes to rewrite at most.")
@click.option(
    "--data-storage-version",
    metavar="VERSION",
    help="Move the table to data files of this version, e.g. 2.2, as far as the limits allow.",
)
@click.option(
    "--defer-index-remap/--remap-indices",
    default=None,
    help="Leave the indices as they are, and tell their readers where rows went.",
)
@click.option(
    "--on-unknown-index",
    type=click.Choice(["leave", "defer"]),
    help="Fragments under an index that cannot be moved along: leave them, or defer its remap.",
)
@click.option(
    "--method",
    type=click.Choice(["auto", "copy", "rewrite"]),
    help="Copy encoded pages where files allow that, or rewrite all rows; --dry-run says why.",
)
@dry_run_option
@job_key_option
@spark_option
@dataset_command
def compact_command(
    call: Call,
    *,
    target_rows: int | None,
    max_bytes_per_file: int | None,
    deletions_threshold: float | None,
    max_source_fragments: int | None,
    max_source_bytes: int | None,
    data_storage_version: str | None,
    defer_index_remap: bool | None,
    on_unknown_index: Literal["leave", "defer"] | None,
    method: Literal["auto", "copy", "rewrite"] | None,
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Merge small fragments of URI and purge deleted rows.

    Rows keep their order and indices their coverage. Options left out come from the table's own
    configuration, then from the defaults of the format.
    """
    from lance_ops.maintenance.compact.operation import compact

    with running(spark) as run:
        result = compact(
            call.uri,
            target_rows_per_fragment=target_rows,
            max_bytes_per_file=max_bytes_per_file,
            materialize_deletions_threshold=deletions_threshold,
            max_source_fragments=max_source_fragments,
            max_source_bytes=max_source_bytes,
            data_storage_version=data_storage_version,
            defer_index_remap=defer_index_remap,
            on_unknown_index=on_unknown_index,
            method=method,
            dry_run=dry_run,
            job_key=job_key,
            storage_options=call.storage_options,
            **run,
        )
    call.show(result)


@click.command("index", short_help="Build, refresh, rebuild or drop an index.")
@click.argument("uri")
@click.argument("column", required=False)
@click.option("--kind", help="With COLUMN: kind of the new index; default BTREE.")
@click.option("--name", help="Name of the index; default COLUMN_idx.")
@click.option(
    "--param",
    "parameters",
    multiple=True,
    type=ParameterType(),
    help="With COLUMN: how the index is made, e.g. --param metric=cosine. Repeatable.",
)
@click.option(
    "--merge",
    "merge_segments",
    type=click.IntRange(min=0),
    help="Without COLUMN: newest segments to merge with new rows; default: by what it costs.",
)
@click.option("--replace", is_flag=True, help="With COLUMN: build it anew if there is one of this name.")
@click.option("--rebuild", is_flag=True, help="Without COLUMN: build anew instead of refreshing.")
@click.option("--drop", is_flag=True, help="Drop the index called --name.")
@click.option("--rename", metavar="NEW", help="Give the index called --name this name.")
@dry_run_option
@job_key_option
@spark_option
@dataset_command
def index_command(
    call: Call,
    *,
    column: str | None,
    kind: str | None,
    name: str | None,
    parameters: tuple[tuple[str, object], ...],
    merge_segments: int | None,
    replace: bool,
    rebuild: bool,
    drop: bool,
    rename: str | None,
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Build an index on COLUMN of URI.

    Without COLUMN, bring all indices (or the one called --name) up to date: rows that an index does not cover
    yet are read and merged into it, and it catches up with deferred compactions.
    """
    from lance_ops.maintenance.index.names import drop_index, rename_index
    from lance_ops.maintenance.index.operation import create_index, optimize_indices

    if drop or rename is not None:
        asked = "--drop" if drop else "--rename"
        if name is None or column is not None:
            raise click.UsageError(f"{asked} needs --name and no COLUMN")
        others = replace or rebuild or dry_run or parameters or kind or merge_segments is not None or spark
        if others or (drop and rename is not None):
            raise click.UsageError(f"{asked} goes with --name and --job-key only")
        if rename is None:
            done = drop_index(call.uri, name, job_key=job_key, storage_options=call.storage_options)
        else:
            done = rename_index(call.uri, name, rename, job_key=job_key, storage_options=call.storage_options)
        call.show(done)
        return
    if replace and column is None:
        raise click.UsageError("--replace needs COLUMN; --rebuild builds existing indices anew")
    if rebuild and column is not None:
        raise click.UsageError("--rebuild goes without COLUMN; --replace builds the index on COLUMN anew")
    if column is None and (parameters or kind is not None):
        raise click.UsageError(f"{'--param' if parameters else '--kind'} needs COLUMN")
    if merge_segments is not None and column is not None:
        raise click.UsageError("--merge goes without COLUMN")
    with running(spark) as run:
        run |= {"dry_run": dry_run, "job_key": job_key, "storage_options": call.storage_options}
        if column is None:
            names = [name] if name else None
            result = optimize_indices(call.uri, names, merge_segments=merge_segments, rebuild=rebuild, **run)
        else:
            result = create_index(
                call.uri,
                column,
                kind or "BTREE",
                name=name,
                replace=replace,
                parameters=dict(parameters),
                **run,
            )
    call.show(result)


@click.command("cleanup", short_help="Remove old versions and the files that only they use.")
@click.argument("uri")
@click.option(
    "--older-than",
    type=DurationType(),
    help="Keep versions younger than this, e.g. 12h, 14d. Default 14d, or no limit with --retain.",
)
@click.option("--retain", type=click.IntRange(min=1), help="Keep so many newest versions.")
@click.option(
    "--delete-unverified",
    is_flag=True,
    help="Also remove files younger than 7 days that no version uses. Only safe when nobody else writes.",
)
@click.option(
    "--clones",
    "clones",
    multiple=True,
    metavar="URI",
    help="A shallow clone of URI, whose files here stay. Repeatable; clones cannot be seen from here.",
)
@click.option(
    "--job-keys",
    "job_key_age",
    type=DurationType(),
    help="How long job keys are known after their commits although the versions go. Default 90d.",
)
@click.option("--all", "show_all", is_flag=True, help="With --dry-run: list every file, however many.")
@dry_run_option
@dataset_command
def cleanup_command(
    call: Call,
    *,
    older_than: timedelta | None,
    retain: int | None,
    delete_unverified: bool,
    clones: tuple[str, ...],
    job_key_age: timedelta | None,
    show_all: bool,
    dry_run: bool,
) -> None:
    """Remove old versions of URI and the files that only they use.

    The newest version and tagged versions stay. A dry run says of each file why it goes or stays. Exit code
    1 when something could not be removed; the next run finishes it.
    """
    from lance_ops.maintenance.cleanup.operation import CleanupResult, cleanup
    from lance_ops.maintenance.cleanup.plan import CleanupPlan

    if show_all and not dry_run:
        raise click.UsageError("--all goes with --dry-run")
    with progress_listener() as progress:
        result = cleanup(
            call.uri,
            older_than=older_than,
            retain_versions=retain,
            delete_unverified=delete_unverified,
            clones=clones,
            job_key_age=job_key_age,
            dry_run=dry_run,
            progress=progress,
            storage_options=call.storage_options,
        )
    if isinstance(result, CleanupPlan) and show_all and not call.as_json:
        click.echo(result.to_text(limit=None))
    else:
        call.show(result)
    if isinstance(result, CleanupResult) and not result.complete:
        raise click.exceptions.Exit(1)
