"""The manifest sensor's cursor, as JSON that a person can read and edit in the UI.

It does not grow with the number of datasets: it names the memory that has an entry for each of them, and
carries only those that the last tick changed and that wait for what it returned to be stored.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_SCHEMA = 2
_WHOLE = 1
"""Of releases whose cursor had the entries of all datasets."""
_MOST_OF_A_NAME = 64


@dataclass(frozen=True, slots=True)
class DatasetCursor:
    """How far the sensor came with one dataset.

    Attributes:
        version: Newest version that it has dealt with; None before the first.
        data_version: Data version for which downstream jobs were last started.
        problem: What was wrong at the last look, so that it is reported once; None when nothing was.
        checked: When all checks were last made, in seconds since 1970; None if never.
        mark: Of the manifest of `version`: another one lies there when somebody made the dataset anew.
    """

    version: int | None = None
    data_version: str | None = None
    problem: str | None = None
    checked: int | None = None
    mark: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values; what says nothing is left out."""
        pairs = (
            ("version", self.version),
            ("data", self.data_version),
            ("problem", self.problem),
            ("checked", self.checked),
            ("mark", self.mark),
        )
        return {key: value for key, value in pairs if value is not None}


@dataclass(frozen=True, slots=True)
class SensorCursor:
    """How far the sensor came.

    Attributes:
        memory: Name of what is remembered of all datasets; "" as long as that has none.
        datasets: Entries that are newer than those in the memory, by name.
        offset: Dataset with which the next tick begins, so that a tick that runs out of time starves nobody.
        asked: Dataset from which on the next tick asks for the newest events of some that are at rest.
    """

    memory: str = ""
    datasets: Mapping[str, DatasetCursor] = field(default_factory=dict)
    offset: int = 0
    asked: int = 0

    def serialize(self) -> str:
        """As text."""
        entries = entries_to_json(self.datasets)
        about = {"schema": _SCHEMA, "memory": self.memory, "offset": self.offset}
        # Small fleets have no turns.
        return json.dumps(about | ({"asked": self.asked} if self.asked else {}) | {"datasets": entries})


def entries_to_json(datasets: Mapping[str, DatasetCursor]) -> dict[str, dict[str, Any]]:
    """Entries by name, as JSON values."""
    return {name: item.to_dict() for name, item in sorted(datasets.items())}


def entries_from_json(content: object) -> dict[str, DatasetCursor]:
    """Entries by name; what cannot be understood is left out."""
    pairs = content.items() if isinstance(content, dict) else ()
    return {str(name): _parse_dataset(entry) for name, entry in pairs if isinstance(entry, dict)}


def parse_cursor(text: str | None) -> SensorCursor:
    """Read a cursor, of an earlier release, too. What cannot be understood counts as not remembered.

    Losing the cursor is harmless: the event log says which versions are published, and run keys keep a
    downstream job from running twice for one state of the data.
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
    data, problem, mark = entry.get("data"), entry.get("problem"), entry.get("mark")
    return DatasetCursor(
        _count(entry.get("version")),
        data if isinstance(data, str) else None,
        problem if isinstance(problem, str) else None,
        _count(entry.get("checked")),
        mark if isinstance(mark, str) and len(mark) <= _MOST_OF_A_NAME else None,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
