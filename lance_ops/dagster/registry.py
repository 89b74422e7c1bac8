"""Registry of the datasets, ingests and assets that this code location declares.

Code that Dagster calls by asset key alone (IO managers, notifiers, steps that read other runs) finds here the
same reference as sensors, jobs and checks: with policy, storage options and owner.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

import dagster as dg

from lance_ops.dagster.dataset_ref import LanceDatasetRef, place_of
from lance_ops.dagster.ingest.spec import LanceIngest
from lance_ops.storage.fork_safe import new_lock


@dataclass(slots=True)
class DatasetRegistry:
    """All declarations of this process, by name; later ones replace earlier ones."""

    refs: dict[str, LanceDatasetRef] = field(default_factory=dict)
    ingests: dict[str, LanceIngest] = field(default_factory=dict)
    assets: dict[dg.AssetKey, dg.AssetsDefinition] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=new_lock)

    def declare(
        self,
        refs: Iterable[LanceDatasetRef],
        *,
        ingests: Iterable[LanceIngest] = (),
        assets: Iterable[dg.AssetsDefinition] = (),
    ) -> None:
        """Add datasets, ingests into them and assets that write or read them."""
        with self._lock:
            self.refs |= {ref.name: ref for ref in refs}
            self.ingests |= {ingest.asset_name: ingest for ingest in ingests}
            self.assets |= {key: asset for asset in assets for key in asset.keys}

    def find(self, name: str, uri: str) -> LanceDatasetRef | None:
        """Return the declared dataset of a name, if it has the given URI."""
        ref = self.refs.get(name)
        return ref if ref is not None and place_of(ref.uri) == place_of(uri) else None

    def names_by_place(self) -> dict[str, str]:
        """Return the name of the declared dataset at each place, see `place_of`."""
        with self._lock:
            refs = list(self.refs.values())
        return {place_of(ref.uri): ref.name for ref in refs}


REGISTRY = DatasetRegistry()
"""The registry of this process: Dagster loads a code location into separate processes."""
