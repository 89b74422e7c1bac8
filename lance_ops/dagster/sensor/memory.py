"""State of the manifest sensor for each dataset, stored in Dagster's key-value storage beside the cursor.

An entry is stored here only when nothing is pending for it, so that no events are lost. An entry that is
changed by a tick with events or runs stays in the cursor. Dagster stores a cursor after the events and along
with the runs, so the tick that finds an entry in its cursor knows that these are stored, and moves it here. A
killed tick leaves the cursor unchanged, and is repeated.

An outdated entry only costs another read: the event log is read before anything is published, and the keys of
runs are the same again. So two concurrent ticks, a cursor that was set back, and a storage that lost entries
do no harm.
"""

import json
import secrets
import zlib
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

import dagster as dg

from lance_ops.dagster.sensor.cursor import DatasetCursor, SensorCursor, entries_from_json, entries_to_json

SHELVES = 64
"""Number of values that hold the entries: a tick with few changes writes few of them."""


@dataclass(slots=True)
class SensorMemory:
    """Entries of datasets, by name.

    Attributes:
        instance: With the storage.
        owner: The sensor: two sensors never share a state, even with a copied cursor.
        name: Name of the state; a reset cursor starts another one.
        is_new: The name is in no cursor yet, so nothing is written: it might never be found again.
        datasets: The entries.
    """

    instance: dg.DagsterInstance
    owner: str
    name: str
    is_new: bool
    datasets: dict[str, DatasetCursor] = field(default_factory=dict)

    @classmethod
    def recall(
        cls, instance: dg.DagsterInstance, owner: str, cursor: SensorCursor, known: Collection[str]
    ) -> "SensorMemory":
        """Read the state named by a cursor, and add the entries of the cursor.

        Args:
            instance: Has the storage.
            owner: Owner of the state.
            cursor: Stored by Dagster.
            known: Present datasets; others are dropped over time.
        """
        if not cursor.memory:
            carried = {name: item for name, item in cursor.datasets.items() if name in known}
            return cls(instance, owner, secrets.token_hex(8), is_new=True, datasets=carried)
        memory = cls(instance, owner, cursor.memory, is_new=False)
        shelves = instance.daemon_cursor_storage.get_cursor_values(
            {memory.key(number) for number in range(SHELVES)}
        )
        for text in shelves.values():
            memory.datasets |= _parse(text)
        memory.put({name: item for name, item in cursor.datasets.items() if name in known}, known)
        return memory

    def of(self, name: str) -> DatasetCursor:
        """Return the entry of one dataset; an empty one at first."""
        return self.datasets.get(name, DatasetCursor())

    def put(self, entries: Mapping[str, DatasetCursor], known: Collection[str]) -> None:
        """Store entries without pending events or runs.

        Args:
            entries: By name.
            known: Present datasets.
        """
        changed = {name: item for name, item in entries.items() if self.datasets.get(name) != item}
        if self.is_new or not changed:
            return
        self.datasets |= changed
        shelves: dict[int, dict[str, DatasetCursor]] = defaultdict(dict)
        for name, item in self.datasets.items():
            if name in known:
                shelves[_shelf(name)][name] = item
        for number in sorted({_shelf(name) for name in changed}):
            text = json.dumps(entries_to_json(shelves[number]))
            # One at a time: Dagster stores several incompletely if some exist already.
            self.instance.daemon_cursor_storage.set_cursor_values({self.key(number): text})

    def key(self, shelf: int) -> str:
        """Return the storage key of a part of the entries."""
        whose = blake2b(f"{self.owner}\n{self.name}".encode(), digest_size=12).hexdigest()
        return f"lance_ops/manifest_sensor/{whose}/{shelf}"


def _shelf(name: str) -> int:
    return zlib.crc32(name.encode()) % SHELVES


def _parse(text: str) -> dict[str, DatasetCursor]:
    """Parse the entries of a value; an unreadable one counts as lost."""
    try:
        return entries_from_json(json.loads(text))
    except ValueError:
        return {}
