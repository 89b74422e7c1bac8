"""Start time noted in commits, so that a history shows durations."""

from collections.abc import Mapping
from datetime import UTC, datetime

BEGAN_PROPERTY = "lance_ops.began"


def began_now() -> dict[str, str]:
    """Return the property of a commit whose work starts now, by this machine's clock."""
    return {BEGAN_PROPERTY: datetime.now(UTC).isoformat(timespec="milliseconds")}


def seconds_until(committed: datetime, properties: Mapping[str, str]) -> float | None:
    """Return the duration of the work of a commit; None if not noted, or if clocks disagree.

    Args:
        committed: Time of its version, aware.
        properties: Properties of its transaction.
    """
    try:
        began = datetime.fromisoformat(properties[BEGAN_PROPERTY])
        seconds = (committed - began).total_seconds()
    except (KeyError, ValueError, TypeError):
        return None
    return seconds if seconds >= 0 else None
