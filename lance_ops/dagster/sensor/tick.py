"""Result of a tick of the manifest sensor, under construction."""

import json
from dataclasses import dataclass, field

import dagster as dg

from lance_ops.dagster.sensor.cursor import DatasetCursor
from lance_ops.dagster.sensor.memory import SensorMemory
from lance_ops.maintenance.text import count_text

AssetEvent = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation

MOST_CARRIED = 18_000
"""Maximum characters of entries in a cursor, which is hardly longer."""
MOST_TEXT = 32 << 20
"""Maximum characters of events, approximately: a code server rejects responses above 100 MB, and the tick
would be retried for ever."""
_MOST_NOTES = 20


@dataclass(slots=True)
class Tick:
    """Result of a tick.

    Attributes:
        memory: State of each dataset.
        max_events: Maximum events; the rest is left to the next tick.
        events: To store.
        requests: Runs to start.
        carried: Entries with pending events or runs until the cursor is stored.
        settled: Entries without.
        versions: Number of published versions.
        datasets: Number of datasets with published versions.
        notes: For people.
    """

    memory: SensorMemory
    max_events: int
    events: list[AssetEvent] = field(default_factory=list)
    requests: list[dg.RunRequest] = field(default_factory=list)
    carried: dict[str, DatasetCursor] = field(default_factory=dict)
    settled: dict[str, DatasetCursor] = field(default_factory=dict)
    versions: int = 0
    datasets: int = 0
    notes: list[str] = field(default_factory=list)
    _size: int = 0
    _text: int = 0
    _measured: int = 0

    @property
    def is_full(self) -> bool:
        """True if the other datasets must wait for the next tick."""
        return (
            len(self.events) >= self.max_events
            or self._size >= MOST_CARRIED
            or self._text_of_events() >= MOST_TEXT
        )

    def _text_of_events(self) -> int:
        """Return the characters of all events, measured once each: wide tables repeat their columns."""
        self._text += sum(len(str(event)) for event in self.events[self._measured :])
        self._measured = len(self.events)
        return self._text

    @property
    def owed(self) -> int:
        """Number of events and runs so far."""
        return len(self.events) + len(self.requests)

    def keep(self, name: str, entry: DatasetCursor, *, owes: bool) -> None:
        """Store the new state of a dataset.

        Args:
            name: Of the dataset.
            entry: The new state.
            owes: True if this tick has events or runs for it.
        """
        if entry == self.memory.of(name):
            return
        if owes or self.memory.is_new:
            self.carried[name] = entry
            self._size += len(json.dumps({name: entry.to_dict()}))
        else:
            self.settled[name] = entry

    def summary(self, looked_at: int) -> str:
        """Return one line for the tick's page."""
        if self.versions:
            what = (
                f"published {count_text(self.versions, 'version')} of {count_text(self.datasets, 'dataset')}"
            )
        else:
            what = f"nothing new in {count_text(looked_at, 'dataset')}"
        notes = list(dict.fromkeys(self.notes))
        more = len(notes) - _MOST_NOTES
        return "; ".join([what, *notes[:_MOST_NOTES], *([f"and {more:,} more"] if more > 0 else [])])
