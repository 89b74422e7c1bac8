"""Fleet plan: a value that is printed, saved as JSON, approved, and run."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from hashlib import blake2b
from typing import Any

from lance_ops.errors import FleetModeError, InvalidArgumentError
from lance_ops.maintenance.text import bytes_text, count_text, seconds_text, table_text

_FORM = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDataset:
    """Planned operations on one dataset.

    Attributes:
        dataset: Its name.
        store: Name of its store.
        path: Path below the root of the store.
        uri: URI of the dataset.
        verdict: `due` or `overdue`.
        why: The numbers behind it.
        operations: In order; those still due at their turn are run.
        mode: Mode of its class: `propose` waits for approval, `auto` does not.
        owner: Recipient of alerts.
        version: Newest version at planning.
        data_bytes: Size of its data files.
        large: Maintained in its own task, and resumed after an interruption.
        rank: Benefit over cost.
        seconds: Estimate of the work.
        bytes: Estimate of what is read and written.
        scan_seconds_saved: What a full scan is faster by, an estimate.
        bytes_saved: What cleanup frees, an estimate.
        most_bytes: A compaction stays within so many bytes, the rest waits; None for no bound.
        level: Lost runs in a row, for which its groups are made smaller.
        terms: For each operation, what it takes away for good, see `DatasetPolicy.terms`.
        head: Identifies the dataset among those at its path, see `survey.look`; empty when not known.
    """

    dataset: str
    store: str
    path: str
    uri: str
    verdict: str
    why: str
    operations: tuple[str, ...]
    mode: str
    owner: str | None = None
    version: int | None = None
    data_bytes: int = 0
    large: bool = False
    rank: float = 0.0
    seconds: float = 0.0
    bytes: int = 0
    scan_seconds_saved: float = 0.0
    bytes_saved: int = 0
    most_bytes: int | None = None
    level: int = 0
    terms: tuple[str, ...] = ()
    head: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A due dataset that is not planned.

    Attributes:
        dataset: Its name.
        verdict: Last verdict.
        reason: Why it is not planned, and until when.
    """

    dataset: str
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """Next operations, by priority.

    Attributes:
        id: Id of the plan.
        at: Time of planning.
        items: Datasets with due operations.
        left: Datasets that are not planned, with reasons.
        approved_by: Approver; None before approval.
        approved_at: Time of approval.
        digest: Digest of the approved items.
    """

    id: str
    at: datetime
    items: tuple[PlannedDataset, ...]
    left: tuple[LeftOut, ...] = ()
    approved_by: str | None = None
    approved_at: datetime | None = None
    digest: str | None = None

    @property
    def seconds(self) -> float:
        """Estimated duration of all work in sequence."""
        return sum(item.seconds for item in self.items)

    @property
    def bytes(self) -> int:
        """Estimated bytes read and written."""
        return sum(item.bytes for item in self.items)

    @property
    def bytes_saved(self) -> int:
        """Estimated bytes freed."""
        return sum(item.bytes_saved for item in self.items)

    def fingerprint(self) -> str:
        """Digest of the items: an approved plan must run unchanged."""
        text = json.dumps([asdict(item) for item in self.items], sort_keys=True)
        return blake2b(f"{self.id}{text}".encode(), digest_size=16).hexdigest()

    def approve(self, by: str, at: datetime) -> "FleetPlan":
        """Return the plan with an approval.

        Raises:
            InvalidArgumentError: The name of the approver is empty.
        """
        if not by:
            raise InvalidArgumentError("name of the approver is missing", field="by")
        return replace(self, approved_by=by, approved_at=at, digest=self.fingerprint())

    def check_approved(self) -> None:
        """Check that the plan was approved and not changed since.

        Raises:
            FleetModeError: It was not approved, or was changed.
        """
        if self.approved_by is None:
            raise FleetModeError(
                f"plan {self.id} waits for approval",
                hint="approve it with lance-ops fleet plan --approve FILE",
            )
        if self.digest != self.fingerprint():
            raise FleetModeError(
                f"plan {self.id} was changed after its approval by {self.approved_by}",
                hint="review it and approve it again",
            )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "form": _FORM,
            "id": self.id,
            "at": self.at.isoformat(),
            "seconds": self.seconds,
            "bytes": self.bytes,
            "bytes_saved": self.bytes_saved,
            "approved_by": self.approved_by,
            "approved_at": None if self.approved_at is None else self.approved_at.isoformat(),
            "digest": self.digest,
            "items": [asdict(item) for item in self.items],
            "left": [asdict(item) for item in self.left],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "FleetPlan":
        """Read a plan from `to_dict`.

        Raises:
            InvalidArgumentError: The values are not a plan.
        """
        try:
            if values["form"] != _FORM:
                raise InvalidArgumentError(f"plan has form {values['form']} of another release")
            approved_at = values.get("approved_at")
            return cls(
                id=str(values["id"]),
                at=datetime.fromisoformat(values["at"]),
                items=tuple(_value(PlannedDataset, item) for item in values["items"]),
                left=tuple(_value(LeftOut, item) for item in values["left"]),
                approved_by=values.get("approved_by"),
                approved_at=None if approved_at is None else datetime.fromisoformat(approved_at),
                digest=values.get("digest"),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, InvalidArgumentError):
                raise
            raise InvalidArgumentError(f"not a plan of a fleet: {error!r}") from error

    def to_text(self, limit: int | None = 20) -> str:
        """Return a summary and a table of the first items."""
        lines = [self.summary()]
        if self.items:
            lines.append(table_text(PLAN_HEADER, [plan_row(item) for item in self.items], limit))
        if self.left:
            rows = [(item.dataset, item.verdict, item.reason) for item in self.left]
            lines.append(table_text(("left", "verdict", "because"), rows, limit))
        return "\n".join(lines)

    def summary(self) -> str:
        """Return the plan in one line."""
        parts = (
            count_text(len(self.items), "dataset"),
            f"{seconds_text(self.seconds)} of work",
            f"{bytes_text(self.bytes)} read and written",
            f"{bytes_text(self.bytes_saved)} freed",
            f"{len(self.left):,} left",
        )
        return f"plan {self.id}: {', '.join(parts)}"

    def __str__(self) -> str:
        return self.to_text()


PLAN_HEADER = ("dataset", "verdict", "do", "work", "moves", "frees", "scan gains", "because")


def plan_row(item: PlannedDataset) -> tuple[str, ...]:
    """Return an item as a row of a table, see `PLAN_HEADER`."""
    return (
        item.dataset,
        item.verdict,
        ", ".join(item.operations),
        seconds_text(item.seconds),
        bytes_text(item.bytes),
        bytes_text(item.bytes_saved),
        seconds_text(item.scan_seconds_saved),
        item.why,
    )


def _value(kind: type[Any], values: Mapping[str, Any]) -> Any:
    known = {item.name for item in fields(kind)}
    plain = {name: value for name, value in values.items() if name in known}
    return kind(**{name: tuple(item) if isinstance(item, list) else item for name, item in plain.items()})
