"""Put-if-absent probe: whether a store rejects the second of two writers of a version."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lance_ops.errors import StorageError, UnsupportedError
from lance_ops.maintenance.target import Target, store_of
from lance_ops.storage import conditional_put
from lance_ops.table.commit.committer import committer_for


class RaceState(StrEnum):
    """Result of the probe of concurrent writers."""

    OWN = "decided by the store itself"
    HONOURED = "put-if-absent honoured"
    REFUSED = "put-if-absent not honoured"
    UNKNOWN = "put-if-absent could not be tried"


@dataclass(frozen=True, slots=True)
class RaceProbe:
    """Result of a probe.

    Attributes:
        uri: The dataset.
        state: Its value is shown in results.
        message: Problem and fix; empty if concurrent writers are safe.
    """

    uri: str
    state: RaceState
    message: str = ""

    @property
    def is_safe(self) -> bool:
        """True if writers need no lock."""
        return self.state in (RaceState.OWN, RaceState.HONOURED)

    def __str__(self) -> str:
        return f"{self.state.value}: {self.message}" if self.message else self.state.value


def probe_races(target: Target, storage_options: Mapping[str, str] | None = None) -> RaceProbe:
    """Test put-if-absent like the first commit of a process: a small object is put twice, and deleted.

    A server that passed is tested once per process; nothing is written to stores with a known result, such as
    local files.

    Args:
        target: The dataset, which may not exist yet.
        storage_options: Options of the store.
    """
    store = store_of(target, storage_options)
    try:
        committer_for(store)
    except UnsupportedError as error:
        return RaceProbe(store.uri, RaceState.REFUSED, f"{error.message}; {error.hint}")
    except StorageError as error:
        return RaceProbe(store.uri, RaceState.UNKNOWN, error.message)
    own = not conditional_put.trusts_server(store)
    return RaceProbe(store.uri, RaceState.OWN if own else RaceState.HONOURED)
