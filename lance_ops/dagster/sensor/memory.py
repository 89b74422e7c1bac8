"""What the manifest sensor remembers of each dataset, kept in Dagster's own storage beside the cursor.

The rule that keeps events from being lost: an entry gets here only when nothing is owed for it any more. What
a tick changes *and* returns events or runs for, its cursor carries. Dagster stores a cursor after the events
and along with the runs, so the tick that finds an entry in its cursor knows that these are safe, and puts it
here. A tick that dies leaves the cursor before it, and is made again.

An entry that is older than it could be costs a look and nothing else: the event log is asked before anything
is published, and the keys of runs are the same again. So two ticks at once, a cursor that somebody set back,
and a storage that lost what is here do no harm.
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
"""Values that the entries are spread over: a tick that changes few writes few of them."""


@dataclass(slots=True)
class SensorMemory:
    """Entries of datasets, by name.

    Attributes:
        instance: With the storage.
        owner: Who remembers: two sensors never share a memory, though somebody copies a cursor.
        name: Of this memory; a cursor that is reset begins another one.
        is_new: The name is in no cursor yet, so nothing is written: nobody might ever find it again.
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
        """Read the memory that a cursor names, and put there what the cursor carries.

        Args:
            instance: With the storage.
            owner: Of the memory.
            cursor: As Dagster has stored it.
            known: Datasets that there are; others are forgotten in time.
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
        """The entry of one dataset; an empty one at first."""
        return self.datasets.get(name, DatasetCursor())

    def put(self, entries: Mapping[str, DatasetCursor], known: Collection[str]) -> None:
        """Keep entries for which nothing is owed.

        Args:
            entries: By name.
            known: Datasets that there are.
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
            # One at a time: Dagster stores several of which some are there already only in part.
            self.instance.daemon_cursor_storage.set_cursor_values({self.key(number): text})

    def key(self, shelf: int) -> str:
        """Under which the storage has a part of the entries."""
        whose = blake2b(f"{self.owner}\n{self.name}".encode(), digest_size=12).hexdigest()
        return f"lance_ops/manifest_sensor/{whose}/{shelf}"


def _shelf(name: str) -> int:
    return zlib.crc32(name.encode()) % SHELVES


def _parse(text: str) -> dict[str, DatasetCursor]:
    """Entries of a shelf; one that cannot be read is as one that was lost."""
    try:
        return entries_from_json(json.loads(text))
    except ValueError:
        return {}
