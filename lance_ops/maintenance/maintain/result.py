"""Result of maintenance: the outcome of each operation, with numbers before and after."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from lance_ops.maintenance.health.measure import DatasetHealth
from lance_ops.maintenance.results import OperationResult
from lance_ops.maintenance.text import bytes_text, seconds_text, share_text, table_text

State = Literal["done", "nothing due", "failed"]

MEASURES: Mapping[str, tuple[str, ...]] = {
    "compact": (
        "fragments",
        "small_fragments",
        "deleted_rows",
        "most_files",
        "dead_column_bytes",
        "data_bytes",
    ),
    "index": ("index_coverage", "unindexed_rows", "index_segments", "deferred_compactions"),
    "cleanup": ("live_versions",),
}
"""Measures of `DatasetHealth` that each operation changes."""

_NOUNS = {
    "fragments": "fragments",
    "small_fragments": "to merge",
    "deleted_rows": "deleted rows",
    "most_files": "files a fragment",
    "dead_column_bytes": "of dropped columns",
    "data_bytes": "data",
    "index_coverage": "coverage",
    "unindexed_rows": "rows without index",
    "index_segments": "segments",
    "deferred_compactions": "deferred remaps",
    "live_versions": "versions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationOutcome:
    """Outcome of one operation.

    Attributes:
        operation: `compact`, `index` or `cleanup`.
        state: `done`, `nothing due` or `failed`.
        reason: The numbers that made it due, or not due; the error of a failed one.
        before: Measures of `MEASURES` before.
        after: The same afterwards; empty if it did not run.
        seconds: Duration.
        bytes_read: Bytes read.
        bytes_written: Bytes written, with those of indices.
        bytes_freed: Bytes of removed files.
        version: Version that it made; None if it made none.
        summary: Its result in one line; empty if it did not run.
        blocked: Why a run would change nothing although a threshold is passed; empty if not.
        left: True if it is due, and left to the next run by the budget.
        result: The whole result; None if it did not run.
        error: The error of a failed operation; None if only parts of it failed.
    """

    operation: str
    state: State
    reason: str
    before: Mapping[str, float] = field(default_factory=dict)
    after: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_freed: int = 0
    version: int | None = None
    summary: str = ""
    blocked: str = ""
    left: bool = False
    result: OperationResult | None = None
    error: Exception | None = None

    @property
    def numbers(self) -> str:
        """The measures before and after, in one line; those that did not change once."""
        parts = [
            _change(name, value, self.after.get(name, value))
            for name, value in self.before.items()
            if value or self.after.get(name)
        ]
        parts += [
            f"{bytes_text(size)} {what}"
            for size, what in ((self.bytes_written, "written"), (self.bytes_freed, "freed"))
            if size
        ]
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, with the numbers of its result."""
        return {
            "operation": self.operation,
            "state": self.state,
            "reason": self.reason,
            "before": dict(self.before),
            "after": dict(self.after),
            "seconds": self.seconds,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "bytes_freed": self.bytes_freed,
            "version": self.version,
            "summary": self.summary,
            "blocked": self.blocked,
            "left": self.left,
            "result": None if self.result is None else self.result.to_dict(),
        }


def _change(name: str, before: float, after: float) -> str:
    def text(value: float) -> str:
        if name in ("data_bytes", "dead_column_bytes"):
            return bytes_text(int(value))
        return share_text(value) if name == "index_coverage" else f"{value:,.0f}"

    values = text(before) if before == after else f"{text(before)} -> {text(after)}"
    noun = _NOUNS[name]
    return f"{values} {noun.removesuffix('s') if before == after == 1 else noun}"


def measures_of(operation: str, health: DatasetHealth) -> dict[str, float]:
    """Return the measures that an operation changes."""
    return {name: getattr(health, name) for name in MEASURES[operation]}


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainResult(OperationResult):
    """Result of `maintain`; `version` is the newest version afterwards.

    Attributes:
        outcomes: Outcome of each operation, in order.
    """

    operation: ClassVar[str] = "maintain"

    outcomes: tuple[OperationOutcome, ...] = ()

    @property
    def complete(self) -> bool:
        """True if nothing failed."""
        return all(item.state != "failed" for item in self.outcomes)

    @property
    def changed(self) -> bool:
        """True if an operation changed anything."""
        return any(item.state == "done" for item in self.outcomes)

    def outcome(self, operation: str) -> OperationOutcome:
        """Return the outcome of an operation.

        Args:
            operation: `compact`, `index` or `cleanup`.
        """
        return next(item for item in self.outcomes if item.operation == operation)

    @property
    def results(self) -> Mapping[str, OperationResult]:
        """Results of the operations that ran, by name."""
        return {item.operation: item.result for item in self.outcomes if item.result is not None}

    @property
    def error(self) -> Exception | None:
        """The first error of an operation; None if none had any."""
        return next((item.error for item in self.outcomes if item.error is not None), None)

    def to_dict(self) -> dict[str, object]:
        """See `Result.to_dict`."""
        # Named: the decorator of a class with slots makes another class, which `super()` does not know.
        return {
            **OperationResult.to_dict(self),
            "complete": self.complete,
            "outcomes": [item.to_dict() for item in self.outcomes],
        }

    def summary(self) -> str:
        """See `OperationResult.summary`."""
        states = [item.state for item in self.outcomes]
        if not self.changed and self.complete:
            return "nothing due"
        counted = [(states.count(state), state) for state in ("done", "nothing due", "failed")]
        return ", ".join(f"{count} {state}" for count, state in counted if count)

    def __str__(self) -> str:
        return f"{OperationResult.__str__(self)}\n{outcomes_text(self.outcomes)}"


def outcomes_text(outcomes: tuple[OperationOutcome, ...]) -> str:
    """Return outcomes as a table: what was done, with numbers before and after, and why."""
    return table_text(
        ("operation", "outcome", "took", "before -> after", "because"),
        [
            (
                item.operation,
                item.state,
                seconds_text(item.seconds) if item.seconds else "-",
                item.numbers or "-",
                item.reason,
            )
            for item in outcomes
        ],
    )
