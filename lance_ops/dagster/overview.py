"""Overview of a dataset for its asset page: verdict, last maintenance, newest versions, indices."""

from datetime import datetime

from lance_ops.dagster.tables import table
from lance_ops.fleet.report.tables import HistoryLine, history_lines, index_lines
from lance_ops.maintenance.health.measure import DatasetHealth
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.maintenance.health.verdicts import judge_dataset
from lance_ops.maintenance.text import bytes_text, share_text
from lance_ops.table.dataset import Dataset

HISTORY = "lance/history"
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
                ("run", "string"),
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
                    line.run,
                )
                for line in lines
            ],
        ),
    }
    if indices:
        values[INDICES] = table(
            [
                ("index", "string"),
                ("kind", "string"),
                ("columns", "string"),
                ("covers", "string"),
                ("segments", "int"),
                ("size", "string"),
                ("built", "string"),
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


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
