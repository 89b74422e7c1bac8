"""Result of a fleet run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lance_ops.fleet.ledger.rows import Look, OperationRow, RunRow, to_json
from lance_ops.fleet.plan.model import LeftOut
from lance_ops.fleet.run.task import Outcome
from lance_ops.maintenance.text import bytes_text, count_text, seconds_text, table_text


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRun:
    """Result of a run.

    Attributes:
        row: Its row of the ledger.
        outcomes: Outcome by dataset.
        left: Due datasets that it did not start, with reasons.
        before: Number of datasets by verdict before.
        after: The same afterwards.
        broken_off: Interrupted operations of earlier runs.
        errors: Errors of the discovery, one line each.
        damaged: Observations of damaged datasets afterwards, with the messages of `fsck`.
    """

    row: RunRow
    outcomes: Mapping[str, Outcome]
    left: tuple[LeftOut, ...]
    before: Mapping[str, int]
    after: Mapping[str, int]
    broken_off: int = 0
    errors: tuple[str, ...] = ()
    damaged: tuple[Look, ...] = ()

    @property
    def rows(self) -> list[OperationRow]:
        """All operations."""
        return [row for outcome in self.outcomes.values() for row in outcome.rows]

    @property
    def complete(self) -> bool:
        """True if nothing failed or was cut short."""
        return not self.row.failed and not self.row.stopped

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "operation": "fleet run",
            **to_json(self.row),
            "before": dict(self.before),
            "after": dict(self.after),
            "broken_off": self.broken_off,
            "errors": list(self.errors),
            "outcomes": [
                {"dataset": item.dataset, "state": item.state, "why": item.why}
                for item in self.outcomes.values()
            ],
            "operations_done": [to_json(row) for row in self.rows],
            "damaged": [
                {"dataset": look.dataset, "uri": look.uri, "reason": look.why} for look in self.damaged
            ],
            "left_out": [
                {"dataset": item.dataset, "verdict": item.verdict, "reason": item.reason}
                for item in self.left
            ],
        }

    def summary(self) -> str:
        """Return the result in one line."""
        row = self.row
        parts = [
            f"{row.done:,} of {count_text(row.datasets, 'due dataset')} done",
            count_text(row.operations, "operation"),
            f"{bytes_text(row.bytes_read + row.bytes_written)} moved",
            f"{bytes_text(row.bytes_freed)} freed",
            seconds_text(row.seconds),
        ]
        parts += [
            f"{count:,} {what}" for count, what in ((row.failed, "failed"), (row.busy, "busy")) if count
        ]
        return ", ".join(parts)

    def __str__(self) -> str:
        lines = [f"fleet run {self.row.key}: {self.summary()}"]
        if self.row.stopped:
            lines.append(f"  stopped: {self.row.stopped}; {count_text(self.row.left, 'dataset')} left")
        lines += [f"  not surveyed: {error}" for error in self.errors]
        if self.rows:
            header = ("dataset", "operation", "outcome", "took", "before -> after", "result")
            lines.append(table_text(header, [operation_row(row) for row in self.rows], limit=None))
        for look in self.damaged:
            lines.append(f"damaged: {look.dataset}: {look.why}")
            lines.append(f"  check: lance-ops fsck {look.uri}")
        # A failed operation is in the table above.
        told = {row.dataset for row in self.rows if row.error}
        bad = [
            (item.dataset, item.state, item.why)
            for item in self.outcomes.values()
            if item.why and item.dataset not in told
        ]
        if bad:
            lines.append(table_text(("dataset", "state", "because"), bad, 20))
        if self.left:
            rows = [
                (item.dataset, item.verdict, item.reason) for item in self.left if item.verdict != "damaged"
            ]
            if rows:
                lines.append(table_text(("left", "verdict", "because"), rows, 20))
        return "\n".join(lines)


def operation_row(row: OperationRow) -> tuple[str, ...]:
    """Return an operation as a row of a table: dataset, operation, outcome, duration, before and after."""
    return (
        row.dataset,
        row.operation,
        row.outcome,
        seconds_text(row.seconds),
        _before_and_after(row) or "-",
        row.error or row.summary or "-",
    )


def _before_and_after(row: OperationRow) -> str:
    """Return the measures of an operation before and after; empty if nothing was measured."""
    parts = []
    if row.fragments_after is not None:
        parts.append(f"{row.fragments_before or 0:,} -> {count_text(row.fragments_after, 'fragment')}")
    if row.bytes_after is not None:
        parts.append(f"{bytes_text(row.bytes_before or 0)} -> {bytes_text(row.bytes_after)}")
    if row.rows_deleted:
        parts.append(f"{count_text(row.rows_deleted, 'row')} deleted")
    if row.versions_after is not None:
        parts.append(f"{count_text(row.versions_after, 'version')} left")
    if row.bytes_freed:
        parts.append(f"{bytes_text(row.bytes_freed)} freed")
    return ", ".join(parts)
