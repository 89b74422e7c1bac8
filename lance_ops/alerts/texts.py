"""Texts of alerts: what to do about each kind, and times as people read them."""

from collections.abc import Mapping
from datetime import UTC, datetime

RUNBOOK: Mapping[str, str] = {
    "damaged": "stop writers, run `lance-ops fsck URI`; restore a version that is whole, or the files from a "
    "backup",
    "failure": "read the error; `lance-ops fleet run --only DATASET` tries again at once",
    "conflict": "writers are faster than maintenance: give it a quieter window, a smaller "
    "`max_source_bytes` or `commit_every: 1`",
    "blocked": "maintenance cannot mend this by itself: do what the reason says, or raise the threshold",
    "overdue": "give the fleet more hours, runs or bytes, or the dataset a higher `priority`; "
    "`lance-ops fleet forecast` says what suffices",
    "gone": "if nobody removed or moved it on purpose, bring it back from a backup; a policy that leaves it "
    "out is a reason, too",
    "silent": "nobody has written for longer than `silent_after`: look after the job that loads it",
    "schema": "columns were added, dropped or changed: see that readers can do with it",
}
"""What to do about each kind, in one line."""

SEVERITY: Mapping[str, str] = {
    "damaged": "critical",
    "failure": "error",
    "conflict": "error",
    "blocked": "error",
    "gone": "error",
}
"""How bad each kind is, in PagerDuty's words; the others are warnings."""

MAINTAINED_BY: Mapping[str, str] = {
    "index_coverage": "lance_index",
    "index_upkeep": "lance_index",
    "index_wear": "lance_index",
    "vector_recall": "lance_index",
    "version_backlog": "lance_cleanup",
}
"""The job that makes a check pass; `lance_compact` for all others."""


def severity_of(kind: str) -> str:
    """PagerDuty's word for how bad a kind of alert is."""
    return SEVERITY.get(kind, "warning")


def time_text(at: str) -> str:
    """A time in ISO 8601 in minutes of UTC; any other text as it is."""
    try:
        return f"{datetime.fromisoformat(at).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return at


def iso_time(seconds: float) -> str:
    """Seconds since 1970 in ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()
