"""What the manifest sensor remembers between ticks, as JSON that a person can read and edit in the UI."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class DatasetCursor:
    """How far the sensor came with one dataset.

    Attributes:
        version: Newest version that it has dealt with; None before the first.
        data_version: Data version for which downstream jobs were last started.
        problem: What was wrong at the last look, so that it is reported once; None when nothing was.
        checked: When all checks were last made, in seconds since 1970; None if never.
    """

    version: int | None = None
    data_version: str | None = None
    problem: str | None = None
    checked: int | None = None


@dataclass(frozen=True, slots=True)
class SensorCursor:
    """How far the sensor came.

    Attributes:
        datasets: By name.
        offset: Dataset with which the next tick begins, so that a tick that runs out of time starves nobody.
    """

    datasets: Mapping[str, DatasetCursor] = field(default_factory=dict)
    offset: int = 0

    def of(self, name: str) -> DatasetCursor:
        """The part of one dataset; an empty one at first."""
        return self.datasets.get(name, DatasetCursor())

    def with_dataset(self, name: str, cursor: DatasetCursor) -> "SensorCursor":
        """A copy with the part of one dataset changed."""
        return replace(self, datasets={**self.datasets, name: cursor})

    def serialize(self) -> str:
        """As text; entries that say nothing are left out."""
        datasets = {
            name: {
                key: value
                for key, value in (
                    ("version", item.version),
                    ("data", item.data_version),
                    ("problem", item.problem),
                    ("checked", item.checked),
                )
                if value is not None
            }
            for name, item in sorted(self.datasets.items())
        }
        return json.dumps({"schema": _SCHEMA, "offset": self.offset, "datasets": datasets})


def parse_cursor(text: str | None) -> SensorCursor:
    """Read a cursor. What cannot be understood counts as not remembered.

    Losing the cursor is harmless: the event log says which versions are published, and run keys keep a
    downstream job from running twice for one state of the data.
    """
    try:
        content = json.loads(text) if text else None
    except ValueError:
        content = None
    if not isinstance(content, dict) or content.get("schema") != _SCHEMA:
        return SensorCursor()
    entries = content.get("datasets")
    datasets = {
        str(name): _parse_dataset(entry)
        for name, entry in (entries.items() if isinstance(entries, dict) else ())
        if isinstance(entry, dict)
    }
    return SensorCursor(datasets, _count(content.get("offset")) or 0)


def _parse_dataset(entry: Mapping[str, Any]) -> DatasetCursor:
    data, problem = entry.get("data"), entry.get("problem")
    return DatasetCursor(
        _count(entry.get("version")),
        data if isinstance(data, str) else None,
        problem if isinstance(problem, str) else None,
        _count(entry.get("checked")),
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
