"""Command for tables with MemWAL: compact-wal."""

from datetime import timedelta

import click

from lance_ops.cli.command import Call, dataset_command
from lance_ops.cli.options import DurationType, SizeType, dry_run_option, job_key_option, spark_option


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
