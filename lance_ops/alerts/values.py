"""Alerts as values and as JSON, for webhooks and for stored state."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

from lance_ops.alerts.texts import MAINTAINED_BY, RUNBOOK, time_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """Common fields of all alerts.

    Attributes:
        at: Start, ISO 8601 in UTC; empty if unknown.
        until: End, in the same form; empty while it is open.
        recovered: The message is about the end of an alert that was sent. An alert with `until` and without
            `recovered` ended before it was sent.
        owners: Of the dataset: e-mail addresses or `team:<name>`.
        run_url: Page of the run.
        asset_url: Page of the asset.
        partition: Partition of the run, if the job has any.
        restart: Command that repeats the work of the run; empty if it is repeated automatically.
    """

    at: str = ""
    until: str = ""
    recovered: bool = False
    owners: tuple[str, ...] = ()
    run_url: str = ""
    asset_url: str = ""
    partition: str = ""
    restart: str = ""

    @property
    def owner(self) -> str | None:
        """The first owner."""
        return self.owners[0] if self.owners else None


@dataclass(frozen=True, slots=True)
class ConflictAlert(Occasion):
    """A run failed with a commit conflict.

    Attributes:
        dataset: Name of the dataset.
        uri: URI of the dataset.
        job: Job of the run.
        step: Step that failed.
        run_id: Run that failed.
        conflict: `retryable` (tried as often as allowed), `incompatible`, or `conflict`.
        ours: Our transaction, in one line.
        theirs: The committed transaction that it collides with, in one line.
        version: Version of the other transaction; None if unknown.
        message: The error as the run's page shows it.
        hint: Suggested fix.
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
    hint: str = ""

    @property
    def rule_kind(self) -> str:
        """The kind in alert rules."""
        return "conflict"

    @property
    def severity_name(self) -> str:
        """`error` or `warning`."""
        return "error"

    @property
    def cause(self) -> str:
        """The cause, which identifies an incident of a dataset."""
        return _joined(_work_of(self), self.partition)

    @property
    def title(self) -> str:
        """The alert in one line."""
        if self.recovered:
            return f"{self.job} on {self.dataset} succeeded after the conflict in run {self.run_id}"
        return (
            f"{self.conflict} conflict on {self.dataset} in run {self.run_id} of {self.job}: "
            f"ours: {self.ours}; theirs: {self.theirs}{_over(self)}"
        )

    def __str__(self) -> str:
        return _text(self)


@dataclass(frozen=True, slots=True)
class FailureAlert(Occasion):
    """A run of maintenance or of an ingest failed without a commit conflict.

    Attributes:
        dataset: Name of the dataset.
        uri: URI of the dataset.
        job: Job of the run.
        step: Step that failed. When the run ended without one, for instance with its process, that of the
            asset that it was to compute; empty when it was not one.
        run_id: Run that failed.
        error: Kind of the error, e.g. `FileMissingError`; empty when it is not known.
        message: The error as the run's page shows it.
        path: The file that it is about, if there is one.
        hint: Suggested fix, if the error has one.
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

    @property
    def rule_kind(self) -> str:
        """The kind in alert rules."""
        return "failure"

    @property
    def severity_name(self) -> str:
        """`error` or `warning`."""
        return "error"

    @property
    def cause(self) -> str:
        """The cause, which identifies an incident of a dataset."""
        return _joined(_work_of(self), self.partition, self.error)

    @property
    def title(self) -> str:
        """The alert in one line."""
        error = f" ({self.error})" if self.error else ""
        if self.recovered:
            return f"{self.job} on {self.dataset} succeeded after the failure of run {self.run_id}{error}"
        return f"run {self.run_id} of {self.job} on {self.dataset} failed{error}: {self.message}{_over(self)}"

    def __str__(self) -> str:
        return _text(self)


@dataclass(frozen=True, slots=True)
class CheckAlert(Occasion):
    """A check on a dataset failed, or passes again.

    Attributes:
        dataset: Name of the dataset.
        uri: URI of the dataset.
        check: Name of the check.
        passed: True if it passes again.
        severity: `ERROR` or `WARN`.
        message: Reason.
        version: Checked version; None if none could be read.
        metadata: Measured numbers of the verdict.
        hint: Suggested fix of damage.
        blocked: Why maintenance cannot repair it; empty if it can.
        gone: True if the dataset no longer exists.
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
    blocked: str = ""
    gone: bool = False

    @property
    def rule_kind(self) -> str:
        """The kind in alert rules."""
        if self.blocked:
            return "blocked"
        if self.severity == "WARN" and self.check != "manifest_readable":
            return "overdue"
        return "gone" if self.gone else "damaged"

    @property
    def severity_name(self) -> str:
        """`error` or `warning`; a block of maintenance is an error."""
        return "warning" if self.rule_kind == "overdue" else "error"

    @property
    def cause(self) -> str:
        """The cause of an incident of a dataset: the reason without its numbers."""
        words = " ".join(re.findall(r"[^\W\d]+", self.blocked))
        return f"{self.check}#{hashlib.sha256(words.encode()).hexdigest()[:12]}" if words else self.check

    @property
    def title(self) -> str:
        """The alert in one line."""
        at = "" if self.version is None else f" at version {self.version}"
        verdict = "passes again" if self.passed else f"failed ({self.severity})"
        return f"check {self.check} on {self.dataset}{at} {verdict}: {self.message}{_over(self)}"

    def __str__(self) -> str:
        return _text(self)


Alert = ConflictAlert | FailureAlert | CheckAlert
"""Alert passed to a notifier."""

_KINDS: Mapping[str, type[Any]] = {kind.kind: kind for kind in (ConflictAlert, FailureAlert, CheckAlert)}


def is_end(alert: Alert) -> bool:
    """Return whether an alert is a recovery."""
    return alert.recovered or (isinstance(alert, CheckAlert) and alert.passed)


def incident_of(alert: Alert) -> str:
    """Return the key of an alert's incident: the same for its end, independent of run and version."""
    # The reason of a block may change while the check fails: that is one incident.
    cause = alert.check if isinstance(alert, CheckAlert) else alert.cause
    key = f"lance:{alert.kind}:{alert.dataset}:{cause}"
    if len(key) <= _LONGEST_KEY:
        return key
    return f"{key[: _LONGEST_KEY - 17]}:{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def what_to_do(alert: Alert) -> str:
    """Return the advice for an alert in one line."""
    found = _remedy(alert)
    return f"{found}; to repeat it: {alert.restart}" if alert.restart else found


def _remedy(alert: Alert) -> str:
    if alert.hint:
        return alert.hint
    if alert.rule_kind == "overdue" and isinstance(alert, CheckAlert):
        job = MAINTAINED_BY.get(alert.check, "lance_compact")
        return f"start {job} on it, or check why its schedule does not"
    if alert.rule_kind == "failure":
        return "read the error; the next successful run of the job resolves this alert"
    return RUNBOOK[alert.rule_kind].replace("URI", alert.uri)


def alert_to_dict(alert: Alert) -> dict[str, object]:
    """Return all fields as JSON values, with `kind`, texts, the key of the incident and derived values."""
    return {
        "kind": alert.kind,
        "title": alert.title,
        "text": str(alert),
        "incident": incident_of(alert),
        "what_to_do": "" if is_end(alert) else what_to_do(alert),
        "severity": alert.severity_name,
        **asdict(alert),
        "owners": list(alert.owners),
    }


def alert_from_dict(content: object) -> Alert | None:
    """Return the alert of `alert_to_dict`; None for other values."""
    if not isinstance(content, dict):
        return None
    kind = _KINDS.get(str(content.get("kind")))
    known = () if kind is None else tuple(item.name for item in fields(kind))
    values = {str(name): value for name, value in content.items() if name in known}
    owners = values.get("owners")
    values["owners"] = tuple(map(str, owners)) if isinstance(owners, list | tuple) else ()
    try:
        alert: Alert | None = None if kind is None else kind(**values)
    except TypeError:
        return None
    return alert


_LONGEST_KEY = 255


_ASSETS = "__ASSET_JOB"


def _work_of(alert: ConflictAlert | FailureAlert) -> str:
    """Return the job; Dagster has one for all assets, which fail and recover separately."""
    return _joined(alert.job, alert.step) if alert.job.startswith(_ASSETS) else alert.job


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _over(alert: Occasion) -> str:
    """Return a note that an alert ended before it was sent."""
    return f"; over since {time_text(alert.until)}" if alert.until and not alert.recovered else ""


def _text(alert: Alert) -> str:
    lines = [alert.title]
    times = [f"since {time_text(alert.at)}"] if alert.at else []
    if alert.until:
        times.append(f"until {time_text(alert.until)}")
    lines.append(", ".join([*times, f"severity {alert.severity_name}"]))
    if alert.owners:
        lines.append(f"owner: {', '.join(alert.owners)}")
    if not is_end(alert):
        lines.append(f"advice: {what_to_do(alert)}")
    lines += [f"{name}: {url}" for name, url in (("run", alert.run_url), ("asset", alert.asset_url)) if url]
    return "\n".join(lines)
