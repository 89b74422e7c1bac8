"""Settings of a class of datasets: key, type, default and meaning."""

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
"""Operations in their order."""

# The types of values in the file. Units are parsed before, so that `null` is not a value of a setting with a
# unit.
Bytes = Annotated[int, BeforeValidator(parse_bytes)]
Count = Annotated[int, Field(ge=0)]
Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
Number = Annotated[float, Field(ge=-1e18, le=1e18)]
Ratio = Annotated[float, Field(ge=-1e18, le=1e18), BeforeValidator(parse_ratio)]
Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a class.

    Attributes:
        type: Type of its value in the file, for pydantic.
        default: Value if no class sets it.
        means: Its meaning, for the reference.
    """

    type: Any
    default: object
    means: str


def _ttl(value: object) -> object:
    return None if value is None else RowTTL.parse(str(value))


_STRATEGY = Literal["tiers", "rows"] | None
_BY_TYPE: Mapping[Any, Any] = {
    int: Count,
    float: Ratio,
    timedelta: Duration,
    int | None: Count | None,
    _STRATEGY: _STRATEGY,
}


def _thresholds() -> dict[str, Setting]:
    """Return settings for the fields of `MaintenancePolicy`, whose docstring explains them."""
    means = _attributes(MaintenancePolicy)
    types = {item.name: _BY_TYPE[item.type] for item in fields(MaintenancePolicy)}
    types["target_bytes"] = Bytes | None
    return {
        item.name: Setting(types[item.name], item.default, means[item.name])
        for item in fields(MaintenancePolicy)
    }


def _attributes(kind: type) -> dict[str, str]:
    """Return the `Attributes` of a docstring, by name."""
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
    "compact": Setting(bool, True, "`on` if the fleet compacts; `off` leaves it to others."),
    "index": Setting(bool, True, "`on` if the fleet refreshes indices."),
    "cleanup": Setting(bool, True, "`on` if the fleet removes old versions."),
    "ttl": Setting(
        Annotated[RowTTL | None, BeforeValidator(_ttl)],
        None,
        "Rows to keep, `keep where ts > now - 90d`; others are deleted.",
    ),
    "ttl_every": Setting(Duration, timedelta(days=1), "Interval of the `ttl` operation."),
    "ttl_max_fraction": Setting(
        Ratio, 0.5, "Maximum share of rows that `ttl` may delete at once, 0 to 1; above, it is refused."
    ),
    "mode": Setting(Mode, None, "`observe`, `propose` or `auto`; default that of the fleet."),
    "owner": Setting(Text | None, None, "Recipient of alerts; an assignment may override it."),
    "priority": Setting(Number, 1.0, "Weight of a second saved in this class."),
    "reads_per_day": Setting(Number, 24.0, "Estimated full scans per day that profit from a better layout."),
    "overdue_after": Setting(Duration, timedelta(days=7), "Datasets due for longer are overdue."),
    "large_bytes": Setting(
        Bytes, 10**9, "Larger datasets are maintained in their own task, not in a shared one."
    ),
    "max_source_bytes": Setting(
        Bytes | None, None, "Maximum bytes that one compaction rewrites; the rest waits."
    ),
    "commit_every": Setting(Count | None, None, "Number of groups after which compactions commit."),
    "max_conflicts": Setting(
        Count, 5, "Number of consecutive runs with commit conflicts after which the dataset is blocked."
    ),
    "silent_after": Setting(
        Duration | None, None, "Time without a new version after which an alert is raised."
    ),
}


def setting_text(value: object) -> str:
    """Format a value for the file."""
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return "-" if value is None else str(value)
