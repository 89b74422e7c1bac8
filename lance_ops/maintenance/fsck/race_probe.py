"""Race probe: whether a store keeps writers apart that race for one version, asked before the first does."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lance_ops.errors import StorageError, UnsupportedError
from lance_ops.maintenance.target import Target, store_of
from lance_ops.storage import conditional_put
from lance_ops.table.commit.committer import committer_for


class RaceState(StrEnum):
    """Who keeps racing writers apart."""

    OWN = "decided by the store itself"
    HONOURED = "put-if-absent honoured"
    REFUSED = "put-if-absent not honoured"
    UNKNOWN = "put-if-absent could not be tried"


@dataclass(frozen=True, slots=True)
class RaceProbe:
    """What came of a probe.

    Attributes:
        uri: The dataset.
        state: By its value, what readers of the result see.
        message: Why not, and what to do; empty where writers are kept apart.
    """

    uri: str
    state: RaceState
    message: str = ""

    @property
    def is_safe(self) -> bool:
        """Whether writers need no lock."""
        return self.state in (RaceState.OWN, RaceState.HONOURED)

    def __str__(self) -> str:
        return f"{self.state.value}: {self.message}" if self.message else self.state.value


def probe_races(target: Target, storage_options: Mapping[str, str] | None = None) -> RaceProbe:
    """Try put-if-absent as the first commit of a process does: a small object is put twice, and deleted.

    A server that honoured it is asked once in the life of the process; nothing is written to stores that
    decide by themselves, such as local files.

    Args:
        target: The dataset; there need not be one yet.
        storage_options: For opening the store.
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
