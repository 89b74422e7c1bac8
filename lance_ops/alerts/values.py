"""Alerts as values, and as JSON: for webhooks, and for the cursors in which they wait for one."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class ConflictAlert:
    """A run lost against another writer.

    Attributes:
        dataset: Name of the dataset.
        uri: Where it lies.
        job: Job of the run.
        step: Step that failed.
        run_id: Run that failed.
        conflict: `retryable` (tried as often as allowed), `incompatible`, or `conflict`.
        ours: Our transaction, in one line.
        theirs: The committed transaction that it collides with, in one line.
        version: Version of the other transaction; None when that is not known.
        message: The error as the run's page shows it.
    """

    kind: ClassVar[str] = "conflict"

    dataset: str
    uri: str
    job: str
    step: str
    run_id: str
    conflict: str
    ours: str
    theirs: str
    version: int | None
    message: str

    def __str__(self) -> str:
        return (
            f"{self.conflict} conflict on {self.dataset} in run {self.run_id} of {self.job}: "
            f"ours: {self.ours}; theirs: {self.theirs}"
        )


@dataclass(frozen=True, slots=True)
class FailureAlert:
    """A run of maintenance or of an ingest failed for another reason than a conflict.

    Attributes:
        dataset: Name of the dataset.
        uri: Where it lies.
        job: Job of the run.
        step: Step that failed; empty when the run ended without one, for instance with its process.
        run_id: Run that failed.
        error: Kind of the error, e.g. `FileMissingError`; empty when it is not known.
        message: The error as the run's page shows it.
        path: The file that it is about, if there is one.
        hint: What to do about it, if the error knows.
    """

    kind: ClassVar[str] = "failure"

    dataset: str
    uri: str
    job: str
    step: str
    run_id: str
    error: str
    message: str
    path: str = ""
    hint: str = ""

    def __str__(self) -> str:
        error = f" ({self.error})" if self.error else ""
        hint = f" [{self.hint}]" if self.hint and self.hint not in self.message else ""
        return f"run {self.run_id} of {self.job} on {self.dataset} failed{error}: {self.message}{hint}"


@dataclass(frozen=True, slots=True)
class CheckAlert:
    """A check on a dataset failed, or passes again.

    Attributes:
        dataset: Name of the dataset.
        uri: Where it lies.
        check: Name of the check.
        passed: It passes again.
        severity: `ERROR` or `WARN`.
        message: Why.
        version: Version that was checked; None when none could be read.
        metadata: Numbers that the verdict rests on.
        hint: What to do about damage.
    """

    kind: ClassVar[str] = "check"

    dataset: str
    uri: str
    check: str
    passed: bool
    severity: str
    message: str
    version: int | None = None
    metadata: Mapping[str, str | int | float | None] = field(default_factory=dict)
    hint: str = ""

    def __str__(self) -> str:
        at = "" if self.version is None else f" at version {self.version}"
        verdict = "passes again" if self.passed else f"failed ({self.severity})"
        hint = f" [{self.hint}]" if self.hint and self.hint not in self.message else ""
        return f"check {self.check} on {self.dataset}{at} {verdict}: {self.message}{hint}"


Alert = ConflictAlert | FailureAlert | CheckAlert
"""What a notifier is told."""

_KINDS: Mapping[str, type[Any]] = {kind.kind: kind for kind in (ConflictAlert, FailureAlert, CheckAlert)}


def alert_to_dict(alert: Alert) -> dict[str, object]:
    """All fields as JSON values, with `kind` and one line of `text`."""
    return {"kind": alert.kind, "text": str(alert), **asdict(alert)}


def alert_from_dict(content: object) -> Alert | None:
    """The alert of `alert_to_dict`; None when it is something else."""
    if not isinstance(content, dict):
        return None
    kind = _KINDS.get(str(content.get("kind")))
    values = {str(name): value for name, value in content.items() if name not in ("kind", "text")}
    try:
        alert: Alert | None = None if kind is None else kind(**values)
    except TypeError:
        return None
    return alert
