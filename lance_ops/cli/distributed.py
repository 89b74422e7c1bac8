"""Commands for engines with writers of their own: write-fragments and commit."""

import json
import sys
from pathlib import Path

import click

from lance_ops.cli.command import Call, dataset_command, source_of
from lance_ops.cli.options import dry_run_option, job_key_option, spark_option


@click.command("write-fragments", short_help="Write data files for a later commit.")
@click.argument("uri")
@click.argument("source", nargs=-1, required=True)
@click.option("--fill-missing", is_flag=True, help="Fill nullable columns that SOURCE lacks with nulls.")
@click.option("--max-rows-per-file", type=click.IntRange(min=1), help="Maximum rows per data file.")
@job_key_option
@dataset_command
def write_fragments_command(
    call: Call,
    *,
    source: tuple[str, ...],
    fill_missing: bool,
    max_rows_per_file: int | None,
    job_key: str | None,
) -> None:
    """Write the rows of SOURCE as fragments of the dataset at URI, and print a JSON line for each fragment.

    Nothing is committed: collect the lines of all tasks and pass them to commit.
    """
    from lance_ops.maintenance.distributed.fragments import write_fragments
    from lance_ops.table.data_writer import MAX_ROWS_PER_FILE
    from lance_ops.table.manifest.fragment_json import fragment_to_json

    written = write_fragments(
        source_of(source),
        call.uri,
        fill_missing=fill_missing,
        max_rows_per_file=max_rows_per_file or MAX_ROWS_PER_FILE,
        job_key=job_key,
        storage_options=call.storage_options,
    )
    for fragment in written:
        click.echo(json.dumps(fragment_to_json(fragment)))


@click.command("commit", short_help="Add fragments written by tasks, in one commit.")
@click.argument("uri")
@click.argument(
    "fragments", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, allow_dash=True)
)
@click.option(
    "--read-version",
    type=click.IntRange(min=1),
    help="The version for which the fragments were written; default the newest.",
)
@click.option("--message", help="Property to store in the transaction.")
@click.option(
    "--detached",
    is_flag=True,
    help="Commit a detached version: outside of the history, known by its number alone.",
)
@dry_run_option
@job_key_option
@spark_option
@dataset_command
def commit_command(
    call: Call,
    *,
    fragments: tuple[str, ...],
    read_version: int | None,
    message: str | None,
    detached: bool,
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
) -> None:
    """Add the rows of FRAGMENTS to the dataset at URI, in one commit.

    FRAGMENTS are files with a JSON line for each fragment, as write-fragments prints them (or pylance, as
    FragmentMetadata.to_json); - is the standard input. Every file is checked before the commit.
    """
    from lance_ops.maintenance.distributed.commit import commit
    from lance_ops.table.dataset import Dataset
    from lance_ops.table.manifest.fragment_json import fragment_from_json
    from lance_ops.table.transaction.operations import Append

    lines = [line for name in fragments for line in _text(name).splitlines() if line.strip()]
    parts = tuple(map(fragment_from_json, lines))
    with call.running(spark, dry_run=dry_run, job_key=job_key) as run:
        result = commit(
            Dataset.open(call.uri, read_version, call.storage_options),
            Append(parts),
            commit_message=message,
            detached=detached,
            **run,
        )
    call.show(result)


def _text(name: str) -> str:
    return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
