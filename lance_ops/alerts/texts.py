"""Texts of alerts: advice for each kind, and formatted times."""

from collections.abc import Mapping
from datetime import UTC, datetime

RUNBOOK: Mapping[str, str] = {
    "damaged": "stop writers, run `lance-ops fsck URI`; restore a complete version, or the files from a "
    "backup",
    "failure": "read the error; `lance-ops fleet run --only DATASET` retries at once",
    "conflict": "writers commit faster than maintenance: set quieter windows, a smaller "
    "`max_source_bytes` or `commit_every: 1`",
    "blocked": "maintenance cannot resolve this: follow the reason, or raise the threshold",
    "overdue": "give the fleet more hours, runs or bytes, or the dataset a higher `priority`; "
    "`lance-ops fleet forecast` shows the required budget",
    "gone": "if it was not removed or moved on purpose, restore it from a backup; or the policy no "
    "longer includes it",
    "silent": "no new version for longer than `silent_after`: check the job that loads it",
    "schema": "columns were added, dropped or changed: check that readers support this",
}
"""Advice for each kind, in one line."""

SEVERITY: Mapping[str, str] = {
    "damaged": "critical",
    "failure": "error",
    "conflict": "error",
    "blocked": "error",
    "gone": "error",
}
"""Severity of each kind, in PagerDuty's terms; the others are warnings."""

MAINTAINED_BY: Mapping[str, str] = {
    "index_coverage": "lance_index",
    "index_upkeep": "lance_index",
    "index_wear": "lance_index",
    "vector_recall": "lance_index",
    "version_backlog": "lance_cleanup",
}
"""The job whose success makes a check pass; `lance_compact` for all others."""


def severity_of(kind: str) -> str:
    """Return the PagerDuty severity of a kind of alert."""
    return SEVERITY.get(kind, "warning")


def time_text(at: str) -> str:
    """Format a time in ISO 8601 as minutes of UTC; other strings are returned unchanged."""
    try:
        return f"{datetime.fromisoformat(at).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return at


def iso_time(seconds: float) -> str:
    """Format seconds since 1970 in ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()
