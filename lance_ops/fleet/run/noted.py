"""Notes of a commit on the work that it ends: when that began, so that a history tells how long it took."""

from collections.abc import Mapping
from datetime import UTC, datetime

BEGAN_PROPERTY = "lance_ops.began"


def began_now() -> dict[str, str]:
    """The property of a commit whose work begins now, by this machine's clock."""
    return {BEGAN_PROPERTY: datetime.now(UTC).isoformat(timespec="milliseconds")}


def seconds_until(committed: datetime, properties: Mapping[str, str]) -> float | None:
    """How long the work of a commit took; None where nobody noted it, or where clocks disagree.

    Args:
        committed: When its version was made, aware.
        properties: Of its transaction.
    """
    try:
        began = datetime.fromisoformat(properties[BEGAN_PROPERTY])
        seconds = (committed - began).total_seconds()
    except (KeyError, ValueError, TypeError):
        return None
    return seconds if seconds >= 0 else None
