"""Fleet plan: a value that prints, is kept as JSON, is approved by a person, and is run."""

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
    """What is going to be done to one dataset.

    Attributes:
        dataset: Its name.
        store: Name of its store.
        path: Below the root of the store.
        uri: Where it is.
        verdict: `due` or `overdue`.
        why: The numbers behind it.
        operations: In their order; those that are due when their turn comes are done.
        mode: Of its class: `propose` waits for approval, `auto` does not.
        owner: Who is told.
        version: Newest version when it was planned.
        data_bytes: Of its data files.
        large: It is maintained on its own, and resumed where it was broken off.
        rank: Benefit over cost.
        seconds: Estimate of the work.
        bytes: Estimate of what is read and written.
        scan_seconds_saved: What a full scan is faster by, an estimate.
        bytes_saved: What cleanup frees, an estimate.
        most_bytes: A compaction stays within so many bytes, the rest waits; None for no bound.
        level: Lost runs in a row, for which its groups are made smaller.
        terms: For each operation, what it takes away for good, see `DatasetPolicy.terms`.
        head: Tells the dataset from another one at its path, see `survey.look`; empty when not known.
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
    """A dataset that is due, or should be looked after, and is not planned.

    Attributes:
        dataset: Its name.
        verdict: Of the last look.
        reason: Why it is left, and until when.
    """

    dataset: str
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """What is done next, the best first.

    Attributes:
        id: Its id.
        at: When it was made.
        items: Datasets with what is due on them.
        left: Those that are not, and why.
        approved_by: Who approved it; None while nobody has.
        approved_at: When.
        digest: Of the items when they were approved.
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
        """Estimate of all work, one after the other."""
        return sum(item.seconds for item in self.items)

    @property
    def bytes(self) -> int:
        """Estimate of what is read and written."""
        return sum(item.bytes for item in self.items)

    @property
    def bytes_saved(self) -> int:
        """Estimate of what is freed."""
        return sum(item.bytes_saved for item in self.items)

    def fingerprint(self) -> str:
        """Of the items: an approved plan is run as it was seen."""
        text = json.dumps([asdict(item) for item in self.items], sort_keys=True)
        return blake2b(f"{self.id}{text}".encode(), digest_size=16).hexdigest()

    def approve(self, by: str, at: datetime) -> "FleetPlan":
        """The plan, approved by a person.

        Raises:
            InvalidArgumentError: By nobody.
        """
        if not by:
            raise InvalidArgumentError("who approves the plan?", field="by")
        return replace(self, approved_by=by, approved_at=at, digest=self.fingerprint())

    def check_approved(self) -> None:
        """See that the plan was approved, and is still what was.

        Raises:
            FleetModeError: It is not.
        """
        if self.approved_by is None:
            raise FleetModeError(
                f"plan {self.id} waits for approval", hint="lance-ops fleet plan --approve FILE"
            )
        if self.digest != self.fingerprint():
            raise FleetModeError(
                f"plan {self.id} was changed after {self.approved_by} had approved it",
                hint="look at it and approve it again",
            )

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
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
        """The plan of `to_dict`.

        Raises:
            InvalidArgumentError: It is none.
        """
        try:
            if values["form"] != _FORM:
                raise InvalidArgumentError(f"a plan of form {values['form']} is of another release")
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
            raise InvalidArgumentError(f"this is no plan of a fleet: {error!r}") from error

    def to_text(self, limit: int | None = 20) -> str:
        """A summary and a table of the first items."""
        lines = [self.summary()]
        if self.items:
            lines.append(table_text(PLAN_HEADER, [plan_row(item) for item in self.items], limit))
        if self.left:
            rows = [(item.dataset, item.verdict, item.reason) for item in self.left]
            lines.append(table_text(("left", "verdict", "because"), rows, limit))
        return "\n".join(lines)

    def summary(self) -> str:
        """In one line."""
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
    """An item as a row of a table, see `PLAN_HEADER`."""
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
