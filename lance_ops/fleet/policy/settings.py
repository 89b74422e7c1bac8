"""Settings of a class: every key that a class of datasets may set, its type, default and meaning."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from lance_ops.fleet.policy.quantities import duration_text, parse_bytes, parse_duration, parse_ratio
from lance_ops.fleet.policy.ttl import RowTTL
from lance_ops.maintenance.health.policy import MaintenancePolicy

Mode = Literal["observe", "propose", "auto"]
OPERATIONS = ("ttl", "compact", "index", "cleanup")
"""In the order in which they are done."""

# The types of values in the file. Units are parsed before, so that `null` is none of a value that has one.
Bytes = Annotated[int, BeforeValidator(parse_bytes)]
Count = Annotated[int, Field(ge=0)]
Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Number = Annotated[float, Field(ge=-1e18, le=1e18)]
Ratio = Annotated[float, Field(ge=-1e18, le=1e18), BeforeValidator(parse_ratio)]
Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Setting:
    """One key that a class may set.

    Attributes:
        type: Of its value in the file, as pydantic validates it.
        default: When no class sets it.
        means: Its meaning, for the reference.
    """

    type: Any
    default: object
    means: str


def _ttl(value: object) -> object:
    return None if value is None else RowTTL.parse(str(value))


_BY_TYPE: Mapping[Any, Any] = {int: Count, float: Ratio, timedelta: Duration, int | None: Count | None}


def _thresholds() -> dict[str, Setting]:
    """The fields of `MaintenancePolicy`, whose docstring explains them."""
    means = _attributes(MaintenancePolicy)
    types = {item.name: _BY_TYPE[item.type] for item in fields(MaintenancePolicy)}
    types["target_bytes"] = Bytes | None
    return {
        item.name: Setting(types[item.name], item.default, means[item.name])
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
    "compact": Setting(bool, True, "Whether the fleet compacts; `off` leaves it to others."),
    "index": Setting(bool, True, "Whether the fleet refreshes indices."),
    "cleanup": Setting(bool, True, "Whether the fleet removes old versions."),
    "ttl": Setting(
        Annotated[RowTTL | None, BeforeValidator(_ttl)],
        None,
        "Rows that stay, `keep where ts > now - 90d`; others go.",
    ),
    "ttl_every": Setting(Duration, timedelta(days=1), "How often rows are looked for that are too old."),
    "ttl_max_fraction": Setting(
        Ratio, 0.5, "Share of rows above which the rule for rows is taken for a mistake, 0 to 1."
    ),
    "mode": Setting(Mode, None, "`observe`, `propose` or `auto`; that of the fleet unless set."),
    "owner": Setting(Text | None, None, "Who is told; an assignment may say it, too."),
    "priority": Setting(Number, 1.0, "How many times as much a second saved here counts."),
    "reads_per_day": Setting(Number, 24.0, "Full scans a day that a better layout speeds up, a guess."),
    "overdue_after": Setting(Duration, timedelta(days=7), "What is due for longer is overdue."),
    "large_bytes": Setting(
        Bytes, 10**9, "A dataset of more bytes is maintained on its own, not in a shared task."
    ),
    "max_source_bytes": Setting(
        Bytes | None, None, "A compaction rewrites at most so many bytes at once; the rest waits."
    ),
    "commit_every": Setting(Count | None, None, "Compactions commit after so many groups."),
    "max_conflicts": Setting(Count, 5, "So many runs lost to others in a row, then it is blocked."),
    "silent_after": Setting(Duration | None, None, "No new version for so long is worth an alert."),
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
