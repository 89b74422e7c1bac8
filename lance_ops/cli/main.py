"""The commands on datasets: `lance-ops append|delete|compact|index|cleanup|history|health|fsck URI`."""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import click

from lance_ops.cli.demo import demo_command, ui_command
from lance_ops.cli.options import DurationType, common_options, dry_run_option, job_key_option, spark_option
from lance_ops.cli.output import fail, print_result, print_rows, progress_listener
from lance_ops.errors import LanceOpsError
from lance_ops.maintenance.append import write_dataset
from lance_ops.maintenance.cleanup import cleanup
from lance_ops.maintenance.compact import compact
from lance_ops.maintenance.delete import delete
from lance_ops.maintenance.fsck import fsck
from lance_ops.maintenance.health import measure_health
from lance_ops.maintenance.policy import MaintenancePolicy, judge_health
from lance_ops.maintenance.reindex import create_index, drop_index, optimize_indices
from lance_ops.maintenance.runner import LocalRunner, Runner
from lance_ops.maintenance.text import bytes_text
from lance_ops.table.dataset import Dataset

F = TypeVar("F", bound=Callable[..., Any])


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lance-ops")
def main() -> None:
    """Keep Lance datasets healthy: append, delete, compact, index, clean up, and see what happened."""


def dataset_command(command: F) -> Callable[..., None]:
    """A command on one dataset: a typed error becomes a message and exit code 1."""

    @functools.wraps(command)
    def run(as_json: bool, storage_options: tuple[tuple[str, str], ...], **values: Any) -> None:
        try:
            command(as_json=as_json, storage_options=dict(storage_options) or None, **values)
        except LanceOpsError as error:
            fail(error, as_json=as_json)

    return common_options(run)


@contextmanager
def chosen_runner(spark: str | None) -> Iterator[Runner]:
    """The runner that `--spark` names; a Spark started here is stopped at the end."""
    if spark is None:
        yield LocalRunner()
        return
    from lance_ops.spark.runner import SparkRunner
    from lance_ops.spark.session import build_session

    session = build_session("lance-ops", spark)
    try:
        yield SparkRunner(session)
    finally:
        session.stop()


@main.command("append")
@click.argument("uri")
@click.argument("source", nargs=-1, required=True)
@click.option(
    "--mode",
    type=click.Choice(["append", "create", "overwrite"]),
    default="append",
    help="What to do at URI.",
)
@click.option("--max-rows-per-file", type=click.IntRange(min=1), help="Rows of a data file at most.")
@click.option("--data-storage-version", help="Storage version of a new dataset, e.g. 2.0.")
@job_key_option
@spark_option
@dataset_command
def append_command(
    uri: str,
    source: tuple[str, ...],
    mode: str,
    max_rows_per_file: int | None,
    data_storage_version: str | None,
    job_key: str | None,
    spark: str | None,
    as_json: bool,
    storage_options: Mapping[str, str] | None,
) -> None:
    """Add the rows of Parquet or CSV files (SOURCE: paths or globs) to the dataset at URI."""
    options: dict[str, Any] = {"max_rows_per_file": max_rows_per_file} if max_rows_per_file else {}
    with chosen_runner(spark) as runner, progress_listener() as progress:
        result = write_dataset(
            list(source) if len(source) > 1 else source[0],
            uri,
            mode=mode,  # type: ignore[arg-type]
            data_storage_version=data_storage_version,
            runner=runner,
            job_key=job_key,
            progress=progress,
            storage_options=storage_options,
            **options,
        )
    print_result(result, as_json=as_json)


@main.command("delete")
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
    uri: str,
    predicate: str,
    max_fraction: float | None,
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
    as_json: bool,
    storage_options: Mapping[str, str] | None,
) -> None:
    """Delete the rows of URI for which PREDICATE (SQL) is true."""
    with chosen_runner(spark) as runner, progress_listener() as progress:
        result = delete(
            uri,
            predicate,
            dry_run=dry_run,
            max_fraction=max_fraction,
            runner=runner,
            job_key=job_key,
            progress=progress,
            storage_options=storage_options,
        )
    print_result(result, as_json=as_json)


@main.command("compact")
@click.argument("uri")
@click.option("--target-rows", type=click.IntRange(min=1), help="Rows of a fragment to aim at.")
@click.option("--max-bytes-per-file", type=click.IntRange(min=1), help="Bytes of a data file at most.")
@click.option(
    "--deletions-threshold", type=float, help="Share of deleted rows that makes a rewrite worth it."
)
@click.option("--max-source-fragments", type=click.IntRange(min=1), help="Fragments to rewrite at most.")
@click.option("--max-source-bytes", type=click.IntRange(min=1), help="Bytes to rewrite at most.")
@dry_run_option
@job_key_option
@spark_option
@dataset_command
def compact_command(
    uri: str,
    target_rows: int | None,
    max_bytes_per_file: int | None,
    deletions_threshold: float | None,
    max_source_fragments: int | None,
    max_source_bytes: int | None,
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
    as_json: bool,
    storage_options: Mapping[str, str] | None,
) -> None:
    """Merge small fragments of URI and purge deleted rows; indices keep their coverage."""
    with chosen_runner(spark) as runner, progress_listener() as progress:
        result = compact(
            uri,
            target_rows_per_fragment=target_rows,
            max_bytes_per_file=max_bytes_per_file,
            materialize_deletions_threshold=deletions_threshold,
            max_source_fragments=max_source_fragments,
            max_source_bytes=max_source_bytes,
            dry_run=dry_run,
            runner=runner,
            job_key=job_key,
            progress=progress,
            storage_options=storage_options,
        )
    print_result(result, as_json=as_json)


@main.command("index")
@click.argument("uri")
@click.argument("column", required=False)
@click.option("--kind", default="BTREE", show_default=True, help="Kind of a new index.")
@click.option("--name", help="Name of the index; default COLUMN_idx.")
@click.option("--replace", is_flag=True, help="Rebuild the index on COLUMN if there is one.")
@click.option("--rebuild", is_flag=True, help="Without COLUMN: rebuild instead of refreshing.")
@click.option("--drop", is_flag=True, help="Drop the index called --name.")
@dry_run_option
@job_key_option
@spark_option
@dataset_command
def index_command(
    uri: str,
    column: str | None,
    kind: str,
    name: str | None,
    replace: bool,
    rebuild: bool,
    drop: bool,
    dry_run: bool,
    job_key: str | None,
    spark: str | None,
    as_json: bool,
    storage_options: Mapping[str, str] | None,
) -> None:
    """Build an index on COLUMN of URI; without COLUMN, bring all indices (or the one --name'd) up to date."""
    if drop:
        if name is None or column is not None:
            raise click.UsageError("--drop needs --name and no COLUMN")
        print_result(drop_index(uri, name, storage_options=storage_options), as_json=as_json)
        return
    with chosen_runner(spark) as runner, progress_listener() as progress:
        common: dict[str, Any] = {
            "dry_run": dry_run,
            "runner": runner,
            "job_key": job_key,
            "progress": progress,
            "storage_options": storage_options,
        }
        if column is not None:
            result = create_index(uri, column, kind, name=name, replace=replace, **common)
        else:
            result = optimize_indices(uri, [name] if name else None, rebuild=rebuild, **common)
    print_result(result, as_json=as_json)


@main.command("cleanup")
@click.argument("uri")
@click.option(
    "--older-than", type=DurationType(), help="Remove versions at least this old, e.g. 14d; default 14d."
)
@click.option("--retain", type=click.IntRange(min=1), help="Keep so many newest versions.")
@click.option("--delete-unverified", is_flag=True, help="Also remove young files that no version uses.")
@dry_run_option
@dataset_command
def cleanup_command(
    uri: str,
    older_than: timedelta | None,
    retain: int | None,
    delete_unverified: bool,
    dry_run: bool,
    as_json: bool,
    storage_options: Mapping[str, str] | None,
) -> None:
    """Remove old versions of URI and the files that only they use. Tagged versions stay."""
    with progress_listener() as progress:
        result = cleanup(
            uri,
            older_than=older_than,
            retain_versions=retain,
            delete_unverified=delete_unverified,
            dry_run=dry_run,
            progress=progress,
            storage_options=storage_options,
        )
    print_result(result, as_json=as_json)


@main.command("history")
@click.argument("uri")
@click.option(
    "--limit", type=click.IntRange(min=1), default=30, show_default=True, help="Newest versions to show."
)
@dataset_command
def history_command(uri: str, limit: int, as_json: bool, storage_options: Mapping[str, str] | None) -> None:
    """Show what each version of URI did."""
    dataset = Dataset.open(uri, storage_options=storage_options)
    entries = dataset.history(limit=limit)
    if as_json:
        print_result(entries, as_json=True)
        return
    print_rows(
        ("version", "time (UTC)", "operation", "rows", "fragments", "deleted", "bytes", "what"),
        [
            (
                entry.version,
                entry.timestamp,
                entry.operation or "unknown",
                entry.size.rows,
                entry.size.fragments,
                entry.size.deleted_rows,
                bytes_text(entry.size.data_bytes),
                entry.description,
            )
            for entry in entries
        ],
        title=dataset.uri,
    )


@main.command("health")
@click.argument("uri")
@dataset_command
def health_command(uri: str, as_json: bool, storage_options: Mapping[str, str] | None) -> None:
    """Measure URI, and say which maintenance is due and why."""
    health = measure_health(Dataset.open(uri, storage_options=storage_options))
    verdicts = judge_health(health, MaintenancePolicy())
    if as_json:
        print_result(
            {
                **health.to_dict(),
                "due": {
                    verdict.operation: {"due": verdict.due, "reason": verdict.reason} for verdict in verdicts
                },
            },
            as_json=True,
        )
        return
    print_rows(("measure", "value"), [(name, value) for name, value in health.to_dict().items()])
    print_rows(("operation", "due", "because"), [(v.operation, v.due, v.reason) for v in verdicts])


@main.command("fsck")
@click.argument("uri")
@click.option("--version", "version", help="Version or tag; default the newest.")
@click.option("--deep", is_flag=True, help="Also open every data file.")
@click.pass_context
@dataset_command
def fsck_command(
    context: click.Context,
    uri: str,
    version: str | None,
    deep: bool,
    as_json: bool,
    storage_options: Mapping[str, str] | None,
) -> None:
    """Check that all that a version of URI needs is there and fits together; exit code 1 if not."""
    with progress_listener() as progress:
        result = fsck(
            uri,
            int(version) if version is not None and version.isdecimal() else version,
            deep=deep,
            progress=progress,
            storage_options=storage_options,
        )
    print_result(result, as_json=as_json)
    context.exit(0 if result.ok else 1)


main.add_command(demo_command)
main.add_command(ui_command)
