"""Commands that change nothing: history, health, indices, fsck."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from lance_ops.cli.command import Call, dataset_command
from lance_ops.cli.output import print_rows, progress_listener

if TYPE_CHECKING:
    from lance_ops.maintenance.health.measure import DatasetHealth


_DUE = {"healthy": "no", "due": "yes", "blocked": "blocked"}
_PROBE = "Also test put-if-absent of the store with concurrent writers; writes a small object and deletes it."


@click.command("history", short_help="Show the operation of each version.")
@click.argument("uri")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Maximum versions to show, newest first.",
)
@dataset_command
def history_command(call: Call, *, limit: int) -> None:
    """Show what each version of URI did, newest first."""
    from lance_ops.maintenance.compact.accuracy import compaction_text
    from lance_ops.maintenance.text import bytes_text
    from lance_ops.table.dataset import Dataset

    dataset = Dataset.open(call.uri, storage_options=call.storage_options)
    entries = dataset.history(limit=limit)
    if call.as_json:
        call.show({"operation": "history", "uri": dataset.uri, "versions": entries})
        return
    click.echo(dataset.uri)
    writers = [entry.writer.partition(" (")[0] for entry in entries]
    jobs = [entry.job_key or "" for entry in entries]
    # The summary takes the place of missing values; --json has all of them.
    told = {"writer": writers} if len(set(writers)) > 1 else {}
    told |= {"job": jobs} if any(jobs) else {}
    print_rows(
        ("version", "time (UTC)", "rows", "deleted", "fragments", "size", *told, "what"),
        [
            (
                f"{entry.version}",
                f"{entry.timestamp:%Y-%m-%d %H:%M:%S}",
                "unknown" if entry.size.rows is None else f"{entry.size.rows:,}",
                "unknown" if entry.size.deleted_rows is None else f"{entry.size.deleted_rows:,}",
                f"{entry.size.fragments:,}",
                bytes_text(entry.size.data_bytes),
                *(values[number] for values in told.values()),
                "; ".join(
                    filter(
                        None,
                        (entry.description, _rebased(entry.rebased_over), compaction_text(entry.properties)),
                    )
                ),
            )
            for number, entry in enumerate(entries)
        ],
    )


def _rebased(over: range) -> str:
    """Return the versions of other writers over which a commit was rebased."""
    if not over:
        return ""
    return f"over version {over[0]}" if len(over) == 1 else f"over versions {over[0]} to {over[-1]}"


@click.command("health", short_help="Measure a dataset and list due maintenance.")
@click.argument("uri")
@click.option("--probe", is_flag=True, help=_PROBE)
@dataset_command
def health_command(call: Call, *, probe: bool) -> None:
    """Measure URI, and show which maintenance is due and why, by the default thresholds.

    An operation that is due but would have no effect is blocked.
    """
    from lance_ops.maintenance.fsck.race_probe import probe_races
    from lance_ops.maintenance.health.forecast import forecast_health
    from lance_ops.maintenance.health.policy import MaintenancePolicy
    from lance_ops.maintenance.health.verdicts import judge_dataset, measure_by_policy
    from lance_ops.table.dataset import Dataset

    dataset = Dataset.open(call.uri, storage_options=call.storage_options)
    policy = MaintenancePolicy()
    health = measure_by_policy(dataset, policy)
    verdicts = judge_dataset(dataset, policy, health)
    forecasts = forecast_health(dataset, policy, health)
    races = probe_races(dataset) if probe else None
    if call.as_json:
        due = {
            item.operation: {"due": item.due, "state": item.state, "reason": item.reason} for item in verdicts
        }
        probed = {} if races is None else {"races": races.state.value}
        call.show(
            {
                "operation": "health",
                "uri": dataset.uri,
                **health.to_dict(),
                **probed,
                "maintenance": due,
                "forecast": [asdict(item) for item in forecasts],
            }
        )
        return
    click.echo(f"{dataset.uri} at version {health.version}")
    print_rows(("measure", "value"), _measures(health))
    if races is not None:
        click.echo(f"\nracing writers: {races}")
    click.echo()
    print_rows(
        ("operation", "due", "because"),
        [(item.operation, _DUE[item.state], item.reason) for item in verdicts],
    )
    if forecasts:
        click.echo()
        print_rows(
            ("threshold", "now", "limit", "passed, by past commits"),
            [
                (item.measure, f"{item.value:,.4g}", f"{item.limit:,.4g}", _when(item.days))
                for item in forecasts
            ],
        )


def _when(days: float | None) -> str:
    from lance_ops.maintenance.text import seconds_text

    if days is None:
        return "never"
    return f"in {seconds_text(days * 86400)}" if days else "already"


@click.command("indices", short_help="List the indices and what they cover.")
@click.argument("uri")
@click.option("--name", help="Show the statistics of this index only.")
@click.option("--recall", is_flag=True, help="Also search for some sampled rows, to measure recall.")
@click.option("--version", "version", help="Version or tag; default the newest.")
@dataset_command
def indices_command(call: Call, *, name: str | None, recall: bool, version: str | None) -> None:
    """List the indices of URI with the rows that they cover, or the statistics of one as JSON.

    Deleted rows, and how well vector indices fit their rows, are measured on samples.
    """
    from lance_ops.index.search.recall import measure_recall, vector_indices
    from lance_ops.index.upkeep.statistics import describe_indices, index_statistics
    from lance_ops.index.upkeep.wear import measure_wear
    from lance_ops.maintenance.text import bytes_text, share_text
    from lance_ops.table.dataset import Dataset

    chosen = int(version) if version is not None and version.isdecimal() else version
    dataset = Dataset.open(call.uri, chosen, storage_options=call.storage_options)
    if name is not None:
        call.show({"operation": "indices", "uri": dataset.uri, **index_statistics(dataset, name)})
        return
    found = describe_indices(dataset)
    wear = {item.name: item for item in measure_wear(dataset)}
    samples = [measure_recall(dataset, item.name) for item in vector_indices(dataset)] if recall else []
    if call.as_json:
        recalls = {sample.index: {"recall": asdict(sample)} for sample in samples}
        listed = [
            {**asdict(item), "coverage": item.coverage}
            | {"wear": wear[item.name].to_dict()}
            | recalls.get(item.name, {})
            for item in found
        ]
        call.show({"operation": "indices", "uri": dataset.uri, "version": dataset.version, "indices": listed})
        return
    click.echo(f"{dataset.uri} at version {dataset.version}")
    print_rows(
        ("index", "kind", "column", "segments", "rows", "coverage", "gone", "size"),
        [
            (
                item.name,
                item.index_type if item.readable else f"{item.index_type} (kept, not used)",
                ", ".join(path or "dropped" for path in item.field_names),
                f"{item.num_segments:,}",
                f"{item.num_rows_indexed:,}",
                share_text(item.coverage),
                share_text(wear[item.name].dead_ratio) if wear[item.name].segments else "unknown",
                "unknown" if item.total_size_bytes is None else bytes_text(item.total_size_bytes),
            )
            for item in found
        ],
    )
    lines = [line for item in wear.values() for line in item.lines()]
    lines += [str(sample) for sample in samples]
    if lines:
        click.echo()
        click.echo("\n".join(lines))


@click.command("fsck", short_help="Check that a version is complete and consistent.")
@click.argument("uri")
@click.option("--version", "version", help="Version or tag; default the newest.")
@click.option("--deep", is_flag=True, help="Also read every data file.")
@click.option("--probe", is_flag=True, help=_PROBE)
@dataset_command
def fsck_command(call: Call, *, version: str | None, deep: bool, probe: bool) -> None:
    """Check that all files of a version of URI exist and are consistent; exit code 1 if not."""
    from lance_ops.maintenance.fsck.operation import fsck

    with progress_listener() as progress:
        result = fsck(
            call.uri,
            int(version) if version is not None and version.isdecimal() else version,
            deep=deep,
            probe=probe,
            progress=progress,
            storage_options=call.storage_options,
        )
    call.show(result)
    if not result.ok:
        raise click.exceptions.Exit(1)


def _measures(health: "DatasetHealth") -> list[tuple[str, str]]:
    from lance_ops.maintenance.text import bytes_text, count_text

    covered = f", the worst covers {health.index_coverage:.1%} of rows" if health.indices else ""
    waiting = count_text(health.deferred_compactions, "compaction")
    waiting = f"; {waiting} to follow" if health.deferred_compactions else ""
    return [
        ("rows", f"{health.rows:,}"),
        ("deleted rows", f"{health.deleted_rows:,} ({health.deleted_ratio:.1%} of those stored)"),
        (
            "fragments",
            f"{health.fragments:,} ({health.small_fragments:,} to merge)",
        ),
        ("data", f"{bytes_text(health.data_bytes)} in {count_text(health.data_files, 'file')}"),
        ("indices", f"{health.indices:,}{covered}{waiting}"),
        *([("index degradation", _wear(health))] if health.indices else []),
        ("layout debt", _debt(health)),
        *([] if health.mem_wal_rows is None else [("MemWAL", _waiting(health))]),
        ("versions", f"{health.live_versions:,}"),
        ("manifest", bytes_text(health.manifest_bytes)),
    ]


def _waiting(health: "DatasetHealth") -> str:
    from lance_ops.maintenance.text import count_text

    generations = count_text(health.mem_wal_generations or 0, "generation")
    return f"{health.mem_wal_rows:,} rows are not in the table, {generations} to fold with compact-wal"


def _debt(health: "DatasetHealth") -> str:
    from lance_ops.maintenance.text import bytes_text, count_text, seconds_text

    lost = f"{seconds_text(health.debt_seconds)} and {count_text(health.debt_requests, 'request')}"
    return f"{lost} of each full scan, {bytes_text(health.debt_bytes)} of deleted rows and dropped columns"


def _wear(health: "DatasetHealth") -> str:
    parts = [f"at most {health.index_dead_ratio or 0:.1%} of the rows of a segment are deleted"]
    if health.index_imbalance is not None:
        parts.append(f"imbalance {health.index_imbalance:.2f}")
    if health.index_drift is not None:
        parts.append(f"drift {health.index_drift:.2f}")
    return ", ".join(parts)
