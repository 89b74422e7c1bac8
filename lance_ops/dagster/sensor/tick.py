"""What a tick of the manifest sensor will return, as it comes together."""

import json
from dataclasses import dataclass, field

import dagster as dg

from lance_ops.dagster.sensor.cursor import DatasetCursor
from lance_ops.dagster.sensor.memory import SensorMemory
from lance_ops.maintenance.text import count_text

AssetEvent = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation

MOST_CARRIED = 18_000
"""Characters of entries in a cursor, which is hardly longer then."""
MOST_TEXT = 32 << 20
"""Characters of events, about: a code server hands on no answer above 100 MB, and would try it for ever."""
_MOST_NOTES = 20


@dataclass(slots=True)
class Tick:
    """What a tick will return.

    Attributes:
        memory: What is known of each dataset.
        max_events: Events after which the rest is left to the next tick.
        events: To store.
        requests: Runs to start.
        carried: Entries for which events or runs are owed until the cursor is stored.
        settled: Entries for which nothing is.
        versions: That are published.
        datasets: Whose versions are.
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
        """Whether the other datasets have to wait for the next tick."""
        return (
            len(self.events) >= self.max_events
            or self._size >= MOST_CARRIED
            or self._text_of_events() >= MOST_TEXT
        )

    def _text_of_events(self) -> int:
        """Characters of all events, each measured once: columns of wide tables are told with each version."""
        self._text += sum(len(str(event)) for event in self.events[self._measured :])
        self._measured = len(self.events)
        return self._text

    @property
    def owed(self) -> int:
        """Events and runs so far."""
        return len(self.events) + len(self.requests)

    def keep(self, name: str, entry: DatasetCursor, *, owes: bool) -> None:
        """Remember how far the sensor came with a dataset.

        Args:
            name: Of the dataset.
            entry: What to remember.
            owes: This tick has events or runs for it.
        """
        if entry == self.memory.of(name):
            return
        if owes or self.memory.is_new:
            self.carried[name] = entry
            self._size += len(json.dumps({name: entry.to_dict()}))
        else:
            self.settled[name] = entry

    def summary(self, looked_at: int) -> str:
        """One line for the tick's page."""
        if self.versions:
            what = (
                f"published {count_text(self.versions, 'version')} of {count_text(self.datasets, 'dataset')}"
            )
        else:
            what = f"nothing new in {count_text(looked_at, 'dataset')}"
        notes = list(dict.fromkeys(self.notes))
        more = len(notes) - _MOST_NOTES
        return "; ".join([what, *notes[:_MOST_NOTES], *([f"and {more:,} more such"] if more > 0 else [])])
