"""Cursor of the manifest sensor, as JSON that a person can read and edit in the UI.

It does not grow with the number of datasets: it names the stored state with an entry for each of them, and
contains only entries changed by the last tick whose events and runs Dagster still has to store.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_SCHEMA = 2
_WHOLE = 1
"""Form of releases whose cursor had the entries of all datasets."""
_MOST_OF_A_NAME = 64


@dataclass(frozen=True, slots=True)
class DatasetCursor:
    """State of the sensor for one dataset.

    Attributes:
        version: Newest processed version; None before the first.
        data_version: Data version that downstream jobs have to read.
        problem: Problem found by the last tick, so that it is reported once; None without one.
        checked: Time of the last full checks, in seconds since 1970; None if never.
        mark: Mark of the manifest of `version`, which differs if the dataset was recreated.
        since: First version with that data version; None in entries of earlier releases.
        known_at: Time at which the sensor saw it, in seconds since 1970; None in entries of earlier releases.
        recreated: The dataset was recreated with it.
        done: Downstream jobs that have read it, by name.
        given_up: Downstream jobs that failed too often for it, by name.
        policy: Hash of the policy of the last checks; None in entries of earlier releases.
        failed: When checks were last evaluated and some failed, in seconds since 1970; None when all passed.
    """

    version: int | None = None
    data_version: str | None = None
    problem: str | None = None
    checked: int | None = None
    mark: str | None = None
    since: int | None = None
    known_at: float | None = None
    recreated: bool = False
    done: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()
    policy: str | None = None
    failed: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values without defaults."""
        pairs = (
            ("version", self.version),
            ("data", self.data_version),
            ("problem", self.problem),
            ("checked", self.checked),
            ("mark", self.mark),
            ("since", self.since),
            ("known_at", self.known_at),
            ("anew", self.recreated or None),
            ("done", list(self.done) or None),
            ("given_up", list(self.given_up) or None),
            ("policy", self.policy),
            ("failed", self.failed),
        )
        return {key: value for key, value in pairs if value is not None}


@dataclass(frozen=True, slots=True)
class SensorCursor:
    """State of the sensor.

    Attributes:
        memory: Name of the stored state of all datasets; "" before it has one.
        datasets: Entries that are newer than those in the memory, by name.
        offset: Dataset with which the next tick starts, so that ticks with too little time starve no dataset.
        asked: Dataset from which the next tick reads the newest events of some unchanged datasets.
    """

    memory: str = ""
    datasets: Mapping[str, DatasetCursor] = field(default_factory=dict)
    offset: int = 0
    asked: int = 0

    def serialize(self) -> str:
        """Return the cursor as text."""
        entries = entries_to_json(self.datasets)
        about = {"schema": _SCHEMA, "memory": self.memory, "offset": self.offset}
        # Small fleets need no offsets.
        return json.dumps(about | ({"asked": self.asked} if self.asked else {}) | {"datasets": entries})


def entries_to_json(datasets: Mapping[str, DatasetCursor]) -> dict[str, dict[str, Any]]:
    """Return entries by name as JSON values."""
    return {name: item.to_dict() for name, item in sorted(datasets.items())}


def entries_from_json(content: object) -> dict[str, DatasetCursor]:
    """Read entries by name; skips invalid ones."""
    pairs = content.items() if isinstance(content, dict) else ()
    return {str(name): _parse_dataset(entry) for name, entry in pairs if isinstance(entry, dict)}


def parse_cursor(text: str | None) -> SensorCursor:
    """Parse a cursor, also of earlier releases. Invalid parts are ignored.

    Losing the cursor is harmless: the event log has the published versions, and run keys keep a downstream
    job from running twice for one state of the data.
    """
    try:
        content = json.loads(text) if text else None
    except ValueError:
        content = None
    if not isinstance(content, dict) or content.get("schema") not in (_WHOLE, _SCHEMA):
        return SensorCursor()
    memory = content.get("memory")
    known = isinstance(memory, str) and len(memory) <= _MOST_OF_A_NAME
    return SensorCursor(
        str(memory) if known else "",
        entries_from_json(content.get("datasets")),
        _count(content.get("offset")) or 0,
        _count(content.get("asked")) or 0,
    )


def _parse_dataset(entry: Mapping[str, Any]) -> DatasetCursor:
    data, problem = entry.get("data"), entry.get("problem")
    return DatasetCursor(
        _count(entry.get("version")),
        data if isinstance(data, str) else None,
        problem if isinstance(problem, str) else None,
        _count(entry.get("checked")),
        _short(entry.get("mark")),
        _count(entry.get("since")),
        _seconds(entry.get("known_at")),
        entry.get("anew") is True,
        _texts(entry.get("done")),
        _texts(entry.get("given_up")),
        _short(entry.get("policy")),
        _count(entry.get("failed")),
    )


def _short(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) <= _MOST_OF_A_NAME else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _seconds(value: object) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if fits else None  # type: ignore[arg-type]


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
