"""Overview of a dataset for its asset page: verdict, last maintenance, newest versions, indices."""

from datetime import UTC, datetime, timedelta

import dagster as dg

from lance_ops.dagster.links import plain, run_path
from lance_ops.dagster.tables import table
from lance_ops.fleet.report.tables import HistoryLine, history_lines, index_lines
from lance_ops.maintenance.health.measure import DatasetHealth
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.maintenance.health.verdicts import judge_dataset
from lance_ops.maintenance.text import bytes_text, seconds_text, share_text
from lance_ops.table.dataset import Dataset

HISTORY = "lance/history"
RUNS = "lance/history_runs"
INDICES = "lance/index_table"
VERDICT = "lance/verdict"
NEXT = "lance/next_maintenance"
LAST = "lance/last_maintenance"

_VERSIONS = 10


def overview(dataset: Dataset, policy: MaintenancePolicy, health: DatasetHealth) -> dict[str, object]:
    """What a person looks for first.

    Args:
        dataset: The newest version.
        policy: By which it is judged.
        health: Its measures.
    """
    lines = history_lines(dataset, _VERSIONS)
    indices = index_lines(dataset)
    values = {
        **_verdict(dataset, policy, health),
        LAST: _last(lines),
        HISTORY: table(
            [
                ("version", "int"),
                ("made", "string"),
                ("operation", "string"),
                ("by", "string"),
                ("rows", "int"),
                ("fragments", "int"),
                ("size", "string"),
                ("seconds", "string"),
                ("run", "string"),
                ("run page", "string"),
            ],
            [
                (
                    line.version,
                    _moment(line.at),
                    line.operation,
                    line.writer,
                    -1 if line.rows is None else line.rows,
                    line.fragments,
                    bytes_text(line.bytes),
                    "" if line.seconds is None else seconds_text(line.seconds),
                    line.run,
                    run_path(line.dagster_run) if line.dagster_run else "",
                )
                for line in lines
            ],
        ),
    }
    made = [line for line in lines if line.dagster_run]
    if made:
        # Cells of a table are plain text there: what can be followed is Markdown.
        values[RUNS] = dg.MetadataValue.md(
            "\n".join(
                f"- [version {line.version}: {plain(line.operation)}]({run_path(line.dagster_run)})"
                for line in made
            )
        )
    if indices:
        now = datetime.now(UTC)
        values[INDICES] = table(
            [
                ("index", "string"),
                ("kind", "string"),
                ("columns", "string"),
                ("covers", "string"),
                ("segments", "int"),
                ("size", "string"),
                ("built", "string"),
                ("age", "string"),
            ],
            [
                (
                    item.name,
                    item.kind,
                    item.columns,
                    share_text(item.coverage),
                    item.segments,
                    "" if item.bytes is None else bytes_text(item.bytes),
                    "" if item.at is None else _moment(item.at),
                    "" if item.at is None else _age(now - item.at),
                )
                for item in indices
            ],
        )
    return values


def _verdict(dataset: Dataset, policy: MaintenancePolicy, health: DatasetHealth) -> dict[str, object]:
    verdicts = judge_dataset(dataset, policy, health)
    due = [item for item in verdicts if item.due]
    blocked = [item for item in verdicts if item.blocked]
    state = "due" if due else "blocked" if blocked else "healthy"
    reasons = "; ".join(f"{item.operation}: {item.reason}" for item in (due or blocked or verdicts))
    return {
        VERDICT: f"{state}: {reasons}",
        NEXT: f"{', '.join(item.operation for item in due)}, now" if due else "nothing is due",
    }


def _last(lines: tuple[HistoryLine, ...]) -> str:
    """What the newest versions tell; a cleanup makes none."""
    found: dict[str, HistoryLine] = {}
    for line in lines:
        if line.upkeep:
            found.setdefault(line.upkeep, line)
    told = [f"{what} at {_moment(line.at)} (version {line.version})" for what, line in found.items()]
    return "; ".join(told) or f"none within the newest {len(lines)} versions"


def _age(age: timedelta) -> str:
    minutes = max(0, int(age.total_seconds() // 60))
    days, hours = minutes // 1440, minutes // 60
    return f"{days:,} days" if days > 1 else f"{hours} h" if hours > 1 else f"{minutes} min"


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
