"""What a tick of the manifest sensor will return, as it comes together."""

from dataclasses import dataclass, field

import dagster as dg

from lance_ops.dagster.sensor.cursor import SensorCursor
from lance_ops.maintenance.text import count_text

AssetEvent = dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation


@dataclass(slots=True)
class Tick:
    """What a tick will return."""

    cursor: SensorCursor
    events: list[AssetEvent] = field(default_factory=list)
    requests: list[dg.RunRequest] = field(default_factory=list)
    versions: int = 0
    datasets: int = 0
    notes: list[str] = field(default_factory=list)

    def summary(self, looked_at: int) -> str:
        """One line for the tick's page."""
        if self.versions:
            what = (
                f"published {count_text(self.versions, 'version')} of {count_text(self.datasets, 'dataset')}"
            )
        else:
            what = f"nothing new in {count_text(looked_at, 'dataset')}"
        return "; ".join([what, *self.notes])
