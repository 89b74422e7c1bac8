"""Maintenance commands: maintain, compact, compact-wal, index, cleanup.

The operations are imported by the commands that run them, so that `--help` and mistyped options answer at
once.
"""

from dataclasses import replace as replace_fields
from datetime import timedelta
from typing import Literal

import click

from lance_ops._removed import MONEY_REMOVED
from lance_ops.cli.command import Call, dataset_command
from lance_ops.cli.options import (
    DurationType,
    ParameterType,
    SecondsType,
    SizeType,
    dry_run_option,
    job_key_option,
    removed_option,
    spark_option,
)
from lance_ops.cli.output import progress_listener


@click.command("maintain", short_help="Compact, refresh indices and clean up, each if due.")
@click.argument("uri")
@click.option(
    "--budget-bytes",
    type=SizeType(),
    help="Maximum bytes read and written by the estimates; the rest is left to the next run.",
)
@click.option(
    "--budget-seconds",
    type=SecondsType(),
    help="Maximum seconds by the estimates; nothing is started after them.",
)
@click.option("--older-than", type=DurationType(), help="Keep versions younger than this; default 14d.")
@click.option("--retain", type=click.IntRange(min=1), help="Number of newest versions to keep; default 10.")
@dry_run_option
@job_key_option
@spark_option
@dataset_command
def maintain_command(
    call: Call,
    *,
    budget_bytes: int | None,
    budget_seconds: float | None,
    older_than: timedelta | None,
    retain: int | None,
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Keep URI healthy: compact it, refresh its indices and remove old versions, each if due.

    Thresholds are those of `health`. For each operation it prints what was done, with numbers before and
    after, the numbers by which nothing is due, or the reason of a failure. Exit code 1 when one failed.
    """
    from lance_ops.maintenance.health.policy import MaintenancePolicy
    from lance_ops.maintenance.maintain.operation import maintain
    from lance_ops.maintenance.maintain.result import MaintainResult

    usual = MaintenancePolicy()
    policy = replace_fields(
        usual, older_than=older_than or usual.older_than, retain_versions=retain or usual.retain_versions
    )
    with call.running(spark, dry_run=dry_run, job_key=job_key) as run:
        result = maintain(call.uri, policy, budget_bytes=budget_bytes, budget_seconds=budget_seconds, **run)
    call.show(result)
    if isinstance(result, MaintainResult) and not result.complete:
        raise click.exceptions.Exit(1)


@click.command("compact", short_help="Merge small fragments, purge deleted rows.")
@click.argument("uri")
@click.option("--target-rows", type=click.IntRange(min=1), help="Target rows per fragment.")
@click.option(
    "--strategy",
    type=click.Choice(["tiers", "rows"]),
    help="tiers (default): targets in rows and bytes, and each byte is rewritten a few times only. rows: "
    "merge all small fragments up to the target of rows, as pylance does.",
)
@click.option("--target-bytes", type=SizeType(), help="Target bytes per fragment; 512 MB with tiers.")
@click.option(
    "--tier-growth",
    type=click.IntRange(min=2),
    help="Merge a fragment only into a size tier this many times larger; 8 with tiers.",
)
@click.option("--min-source-fragments", type=click.IntRange(min=2), help="Minimum fragments to merge.")
@click.option("--max-bytes-per-file", type=SizeType(), help="Maximum bytes per data file.")
@click.option(
    "--deletions-threshold",
    type=click.FloatRange(0, 1),
    help="Share of deleted rows above which a fragment is rewritten; 1 for never.",
)
@click.option("--max-source-fragments", type=click.IntRange(min=1), help="Maximum fragments to rewrite.")
@click.option("--max-source-bytes", type=SizeType(), help="Maximum bytes to rewrite.")
@click.option(
    "--budget-seconds",
    type=SecondsType(),
    help="Maximum seconds by the estimate; chooses the fragments with most benefit for scans.",
)
@click.option(
    "--budget-bytes",
    type=SizeType(),
    help="Maximum bytes read plus written, chosen in the same way.",
)
@click.option(
    "--budget-fragments",
    type=click.IntRange(min=1),
    help="Maximum fragments replaced, chosen in the same way.",
)
@click.option(
    "--budget-requests",
    type=click.IntRange(min=1),
    help="Maximum requests to the store, chosen in the same way.",
)
@removed_option("--budget-money", MONEY_REMOVED)
@click.option(
    "--data-storage-version",
    metavar="VERSION",
    help="Rewrite the table to this storage version, e.g. 2.2, as far as the limits allow.",
)
@click.option(
    "--defer-index-remap/--remap-indices",
    default=None,
    help="Do not rewrite indices; record the moved rows in the fragment reuse index.",
)
@click.option(
    "--defer-where-cheaper",
    is_flag=True,
    default=None,
    help="Defer the remap of segments with few moved rows where that costs less than a remap.",
)
@click.option(
    "--on-unknown-index",
    type=click.Choice(["leave", "defer"]),
    help="Fragments under an index that cannot be remapped: leave them, or defer its remap.",
)
@click.option(
    "--method",
    type=click.Choice(["auto", "copy", "rewrite"]),
    help="Copy encoded pages where files allow it, or rewrite all rows; --dry-run shows the reason.",
)
@click.option(
    "--commit-every",
    type=click.IntRange(min=1),
    help="Commit after this many groups of fragments instead of once at the end.",
)
@click.option(
    "--commit-every-seconds",
    type=SecondsType(),
    help="Commit finished groups when this much time has passed since the last commit.",
)
@dry_run_option
@job_key_option
@click.option(
    "--resume/--no-resume",
    default=True,
    show_default=True,
    help="With --job-key: resume an interrupted run of the job, or start over.",
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
    strategy: Literal["tiers", "rows"] | None,
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

    Rows keep their order and indices their coverage. Omitted options come from the table's configuration,
    then from the defaults of the format. With a job key, an interrupted run is resumed by the next one. Exit
    code 1 when some groups failed: the others are committed.
    """
    from lance_ops.maintenance.compact.operation import compact
    from lance_ops.maintenance.results import CompactResult

    with call.running(spark, dry_run=dry_run, job_key=job_key) as run:
        result = compact(
            call.uri,
            target_rows_per_fragment=target_rows,
            strategy=strategy,
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


@click.command("compact-wal", short_help="Fold flushed generations of MemWAL into the table.")
@click.argument("uri")
@click.option(
    "--max-bytes",
    type=SizeType(),
    default="256MB",
    show_default=True,
    help="Maximum bytes of the generations of one commit; they are read into memory.",
)
@click.option(
    "--remove/--keep",
    default=True,
    show_default=True,
    help="Remove generations that every existing version of the table has.",
)
@click.option(
    "--remove-after",
    type=DurationType(),
    help="Remove them although versions superseded longer ago lack them, e.g. 1h, 7d.",
)
@dry_run_option
@job_key_option
@spark_option
@dataset_command
def compact_wal_command(
    call: Call,
    *,
    max_bytes: int,
    remove: bool,
    remove_after: timedelta | None,
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Fold the flushed generations of URI into the table, then remove those that no reader needs.

    Each commit records how far it came, so an interrupted run is continued by the next one, and two runs at
    once fold nothing twice. Writers go on meanwhile.
    """
    from lance_ops.maintenance.compact_wal.operation import compact_wal

    if remove_after is not None and not remove:
        raise click.UsageError("--remove-after requires --remove")
    with call.running(spark, dry_run=dry_run, job_key=job_key) as run:
        result = compact_wal(call.uri, max_bytes=max_bytes, remove=remove, remove_after=remove_after, **run)
    call.show(result)


@click.command("compact-columns", short_help="Join the data files of each fragment, free dropped columns.")
@click.argument("uri")
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="COLUMN[,COLUMN]",
    help="Columns that get a data file of their own. Repeatable; all other columns are in one more file.",
)
@click.option(
    "--min-files",
    type=click.IntRange(min=2),
    default=2,
    show_default=True,
    help="Join the files of fragments with at least so many.",
)
@click.option(
    "--min-dead-ratio",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    help="Write a fragment again if dropped columns are at least this share of its bytes.",
)
@click.option("--max-bytes", type=SizeType(), help="Maximum bytes read and written; most files first.")
@dry_run_option
@job_key_option
@spark_option
@dataset_command
def compact_columns_command(
    call: Call,
    *,
    groups: tuple[str, ...],
    min_files: int,
    min_dead_ratio: float,
    max_bytes: int | None,
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Join the data files of each fragment of URI by copying pages, without dropped columns.

    Rows keep their addresses and indices are not touched; the next cleanup removes the old files. A dry run
    shows files and bytes.
    """
    from lance_ops.maintenance.column_files.operation import compact_columns

    named = [[name.strip() for name in group.split(",")] for group in groups]
    with call.running(spark, dry_run=dry_run, job_key=job_key) as run:
        result = compact_columns(
            call.uri,
            column_groups=named or None,
            min_files=min_files,
            min_dead_ratio=min_dead_ratio,
            max_bytes=max_bytes,
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
    help="With COLUMN: parameter of the index, e.g. --param metric=cosine. Repeatable.",
)
@click.option(
    "--merge",
    "merge_segments",
    type=click.IntRange(min=0),
    help="Without COLUMN: newest segments to merge with new rows; default: by estimated cost.",
)
@click.option("--replace", is_flag=True, help="With COLUMN: replace an index of this name.")
@click.option("--rebuild", is_flag=True, help="Without COLUMN: rebuild instead of refreshing.")
@click.option("--drop", is_flag=True, help="Drop the index with this --name.")
@click.option("--rename", metavar="NEW", help="New name for the index with this --name.")
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

    Without COLUMN, refresh all indices (or the one with --name): rows without coverage are read and merged
    into them, and deferred remaps are applied.
    """
    from lance_ops.maintenance.index.names import drop_index, rename_index
    from lance_ops.maintenance.index.operation import create_index, optimize_indices

    if drop or rename is not None:
        asked = "--drop" if drop else "--rename"
        if name is None or column is not None:
            raise click.UsageError(f"{asked} requires --name and no COLUMN")
        others = replace or rebuild or dry_run or parameters or kind or merge_segments is not None or spark
        if others or (drop and rename is not None):
            raise click.UsageError(f"{asked} can be combined with --name and --job-key only")
        if rename is None:
            done = drop_index(call.uri, name, job_key=job_key, storage_options=call.storage_options)
        else:
            done = rename_index(call.uri, name, rename, job_key=job_key, storage_options=call.storage_options)
        call.show(done)
        return
    if replace and column is None:
        raise click.UsageError("--replace requires COLUMN; --rebuild rebuilds existing indices")
    if rebuild and column is not None:
        raise click.UsageError("--rebuild cannot be used with COLUMN; --replace rebuilds the index on COLUMN")
    if column is None and (parameters or kind is not None):
        raise click.UsageError(f"{'--param' if parameters else '--kind'} needs COLUMN")
    if merge_segments is not None and column is not None:
        raise click.UsageError("--merge cannot be used with COLUMN")
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
@click.option("--retain", type=click.IntRange(min=1), help="Number of newest versions to keep.")
@click.option(
    "--delete-unverified",
    is_flag=True,
    help="Also remove unused files younger than 7 days. Only safe when there are no other writers.",
)
@click.option(
    "--clones",
    "clones",
    multiple=True,
    metavar="URI",
    help="URI of a shallow clone whose files here are kept. Repeatable; clones cannot be found from here.",
)
@click.option(
    "--job-keys",
    "job_key_age",
    type=DurationType(),
    help="No effect: the newest 100,000 job keys are kept, whatever their age.",
)
@click.option(
    "--grace",
    type=DurationType(),
    help="Time for which removed versions stay in the trash with their files, for `undo-cleanup`.",
)
@click.option("--empty-trash", is_flag=True, help="Also remove versions from the trash before their time.")
@click.option("--all", "show_all", is_flag=True, help="With --dry-run: list every file without a limit.")
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
    grace: timedelta | None,
    empty_trash: bool,
    show_all: bool,
    dry_run: bool,
) -> None:
    """Remove old versions of URI and the files that only they use.

    The newest version and tagged versions are kept. A dry run lists for each file why it is kept or removed.
    Exit code 1 when something could not be removed; the next run finishes it.
    """
    from lance_ops.maintenance.cleanup.operation import CleanupResult, cleanup
    from lance_ops.maintenance.cleanup.plan import CleanupPlan

    if show_all and not dry_run:
        raise click.UsageError("--all requires --dry-run")
    with progress_listener() as progress:
        result = cleanup(
            call.uri,
            older_than=older_than,
            retain_versions=retain,
            delete_unverified=delete_unverified,
            clones=clones,
            job_key_age=job_key_age,
            grace=grace or timedelta(0),
            empty_trash=empty_trash,
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


@click.command("undo-cleanup", short_help="Bring back versions that a cleanup moved to the trash.")
@click.argument("uri")
@click.option(
    "--version",
    "versions",
    type=click.IntRange(min=1),
    multiple=True,
    help="Version. Repeatable; all if omitted.",
)
@dry_run_option
@dataset_command
def undo_cleanup_command(call: Call, *, versions: tuple[int, ...], dry_run: bool) -> None:
    """Bring back versions of URI that a cleanup with --grace moved to the trash.

    A version comes back if all of its files are there; the others are named. Exit code 1 when one stays.
    """
    from lance_ops.maintenance.cleanup.undo import UndoResult, undo_cleanup

    with progress_listener() as progress:
        result = undo_cleanup(
            call.uri,
            versions or None,
            dry_run=dry_run,
            progress=progress,
            storage_options=call.storage_options,
        )
    call.show(result)
    if isinstance(result, UndoResult) and result.versions_left:
        raise click.exceptions.Exit(1)
