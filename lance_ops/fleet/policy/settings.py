"""Settings of a class: every field that a class of datasets may set, how it is written, and what it means."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Literal

from lance_ops.fleet.policy.quantities import (
    duration_text,
    parse_bytes,
    parse_count,
    parse_duration,
    parse_number,
    parse_ratio,
    parse_switch,
    parse_text,
)
from lance_ops.fleet.policy.ttl import RowTTL
from lance_ops.maintenance.health.policy import MaintenancePolicy

Mode = Literal["observe", "propose", "auto"]
MODES = ("observe", "propose", "auto")
OPERATIONS = ("ttl", "compact", "index", "cleanup")
"""In the order in which they are done."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One field that a class may set.

    Attributes:
        parse: Reads what the file says; raises ValueError.
        default: When no class sets it.
        means: What it says, for the reference.
    """

    parse: Callable[[Any], object]
    default: object
    means: str


def _mode(value: object) -> str:
    if value not in MODES:
        raise ValueError(f"{value!r} is no mode; choose observe, propose or auto")
    return str(value)


def _ttl(value: object) -> RowTTL:
    return RowTTL.parse(parse_text(value))


def _optional(parse: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda value: None if value is None else parse(value)


_BY_TYPE: Mapping[Any, Callable[[Any], object]] = {
    int: parse_count,
    float: parse_ratio,
    timedelta: parse_duration,
    int | None: _optional(parse_count),
}
_SIZES = frozenset({"target_bytes"})


def _thresholds() -> dict[str, Setting]:
    """The fields of `MaintenancePolicy`, whose docstring says what they mean."""
    means = _attributes(MaintenancePolicy)
    return {
        item.name: Setting(
            _optional(parse_bytes) if item.name in _SIZES else _BY_TYPE[item.type],
            item.default,
            means[item.name],
        )
        for item in fields(MaintenancePolicy)
    }


def _attributes(kind: type) -> dict[str, str]:
    """The `Attributes` of a docstring, by name."""
    found: dict[str, str] = {}
    name = ""
    for line in (kind.__doc__ or "").partition("Attributes:")[2].splitlines():
        text = line.strip()
        if line.startswith(" " * 8) and not line.startswith(" " * 9) and ": " in text:
            name, _, text = text.partition(": ")
            found[name] = text
        elif name and text:
            found[name] += f" {text}"
    return found


THRESHOLDS = _thresholds()

SETTINGS: Mapping[str, Setting] = THRESHOLDS | {
    "compact": Setting(parse_switch, True, "Whether the fleet compacts; `off` leaves it to others."),
    "index": Setting(parse_switch, True, "Whether the fleet refreshes indices."),
    "cleanup": Setting(parse_switch, True, "Whether the fleet removes old versions."),
    "ttl": Setting(_optional(_ttl), None, "Rows that stay, `keep where ts > now - 90d`; others go."),
    "ttl_every": Setting(
        parse_duration, timedelta(days=1), "How often rows are looked for that are too old."
    ),
    "ttl_max_fraction": Setting(
        parse_ratio, 0.5, "Share of rows above which the rule for rows is taken for a mistake, 0 to 1."
    ),
    "mode": Setting(_mode, None, "`observe`, `propose` or `auto`; that of the fleet unless set."),
    "owner": Setting(_optional(parse_text), None, "Who is told; an assignment may say it, too."),
    "priority": Setting(parse_number, 1.0, "How many times as much a second saved here counts."),
    "reads_per_day": Setting(parse_number, 24.0, "Full scans a day that a better layout speeds up, a guess."),
    "overdue_after": Setting(parse_duration, timedelta(days=7), "What is due for longer is overdue."),
    "large_bytes": Setting(
        parse_bytes, 10**9, "A dataset of more bytes is maintained on its own, not in a shared task."
    ),
    "max_source_bytes": Setting(
        _optional(parse_bytes), None, "A compaction rewrites at most so many bytes at once; the rest waits."
    ),
    "commit_every": Setting(_optional(parse_count), None, "Compactions commit after so many groups."),
    "max_conflicts": Setting(parse_count, 5, "So many runs lost to others in a row, then it is blocked."),
    "silent_after": Setting(_optional(parse_duration), None, "No new version for so long is worth an alert."),
}


def setting_text(value: object) -> str:
    """A value as the file has it."""
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return "-" if value is None else str(value)
