"""Commands of upkeep: compact, index, cleanup.

The operations are imported by the commands that run them, so that `--help` and mistyped options answer at
once.
"""

from datetime import timedelta
from typing import Literal

import click

from lance_ops._removed import MONEY_REMOVED
from lance_ops.cli.command import Call, dataset_command
from lance_ops.cli.options import (
    DurationType,
    ParameterType,
    dry_run_option,
    job_key_option,
    removed_option,
    spark_option,
)
from lance_ops.cli.output import progress_listener


@click.command("compact", short_help="Merge small fragments, purge deleted rows.")
@click.argument("uri")
@click.option("--target-rows", type=click.IntRange(min=1), help="Rows of a fragment to aim at.")
@click.option("--target-bytes", type=click.IntRange(min=1), help="Bytes of a fragment to aim at.")
@click.option(
    "--tier-growth",
    type=click.IntRange(min=2),
    help="Merge only what gets into a size tier so many times as large; e.g. 4.",
)
@click.option("--min-source-fragments", type=click.IntRange(min=2), help="Merge no fewer than this.")
@click.option("--max-bytes-per-file", type=click.IntRange(min=1), help="Bytes of a data file at most.")
@click.option(
    "--deletions-threshold",
    type=click.FloatRange(0, 1),
    help="Share of deleted rows above which a fragment is rewritten; 1 for never.",
)
@click.option("--max-source-fragments", type=click.IntRange(min=1), help="Fragments to rewrite at most.")
@click.option("--max-source-bytes", type=click.IntRange(min=1), help="Bytes to rewrite at most.")
@click.option(
    "--budget-seconds",
    type=click.FloatRange(min=0, min_open=True),
    help="Take what speeds scans up most for its time, no more than this by the estimate.",
)
@click.option("--budget-bytes", type=click.IntRange(min=1), help="So for bytes read and written.")
@click.option("--budget-fragments", type=click.IntRange(min=1), help="So for fragments replaced.")
@click.option("--budget-requests", type=click.IntRange(min=1), help="So for requests to the store.")
@removed_option("--budget-money", MONEY_REMOVED)
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
    "--defer-where-cheaper",
    is_flag=True,
    default=None,
    help="Do so for segments of which little moves, where that costs less than a remap.",
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
@click.option(
    "--commit-every",
    type=click.IntRange(min=1),
    help="Commit after so many groups of fragments instead of once at the end.",
)
@click.option(
    "--commit-every-seconds",
    type=click.FloatRange(min=0, min_open=True),
    help="Commit what is done when so much time has passed since the last commit.",
)
@dry_run_option
@job_key_option
@click.option(
    "--resume/--no-resume",
    default=True,
    show_default=True,
    help="With --job-key: go on where an earlier run of the job was broken off, or begin anew.",
)
@spark_option
@dataset_command
def compact_command(
    call: Call,
    *,
    commit_every: int | None,
    commit_every_seconds: float | None,
    resume: bool,
    target_rows: int | None,
    target_bytes: int | None,
    tier_growth: int | None,
    min_source_fragments: int | None,
    max_bytes_per_file: int | None,
    deletions_threshold: float | None,
    max_source_fragments: int | None,
    max_source_bytes: int | None,
    budget_seconds: float | None,
    budget_bytes: int | None,
    budget_fragments: int | None,
    budget_requests: int | None,
    data_storage_version: str | None,
    defer_index_remap: bool | None,
    defer_where_cheaper: bool | None,
    on_unknown_index: Literal["leave", "defer"] | None,
    method: Literal["auto", "copy", "rewrite"] | None,
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Merge small fragments of URI and purge deleted rows.

    Rows keep their order and indices their coverage. Options left out come from the table's own
    configuration, then from the defaults of the format. Under a job key, a run that was killed is gone on
    with by the next one; an interrupt leaves nothing. Exit code 1 when some groups failed: the others are
    committed.
    """
    from lance_ops.maintenance.compact.operation import compact
    from lance_ops.maintenance.results import CompactResult

    with call.running(spark, dry_run=dry_run, job_key=job_key) as run:
        result = compact(
            call.uri,
            target_rows_per_fragment=target_rows,
            target_bytes_per_fragment=target_bytes,
            tier_growth=tier_growth,
            min_source_fragments=min_source_fragments,
            max_bytes_per_file=max_bytes_per_file,
            materialize_deletions_threshold=deletions_threshold,
            max_source_fragments=max_source_fragments,
            max_source_bytes=max_source_bytes,
            budget_seconds=budget_seconds,
            budget_bytes=budget_bytes,
            budget_fragments=budget_fragments,
            budget_requests=budget_requests,
            data_storage_version=data_storage_version,
            defer_index_remap=defer_index_remap,
            defer_where_cheaper=defer_where_cheaper,
            on_unknown_index=on_unknown_index,
            method=method,
            commit_every=commit_every,
            commit_every_seconds=commit_every_seconds,
            resume=resume,
            **run,
        )
    call.show(result)
    if isinstance(result, CompactResult) and not result.complete:
        raise click.exceptions.Exit(1)


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
    with call.running(spark, dry_run=dry_run, job_key=job_key) as run:
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
    help="Without effect: the newest 100,000 job keys are kept, whatever their age.",
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
