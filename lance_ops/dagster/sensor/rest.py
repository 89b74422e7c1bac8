"""Unchanged datasets: the newest manifest of each is the one that the sensor has processed.

Reading the event log is expensive: Dagster reads the whole newest event of each dataset, with all of its
metadata. A tick reads it only for some of many unchanged datasets, round robin: wiped or misordered events
are noticed a few ticks later.
"""

from collections.abc import Mapping, Sequence

from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.sensor.cursor import DatasetCursor
from lance_ops.dagster.sensor.survey import Survey, has_other_bytes, is_judged, look_at_all
from lance_ops.table.manifest.listing import latest, mark_of

_ASKED = 200
"""Minimum number of unchanged datasets whose newest events a tick reads."""
_TICKS = 20
"""Ticks in which all of them are read."""


def asked_in_turn(refs: Sequence[LanceDatasetRef], start: int) -> tuple[list[LanceDatasetRef], int]:
    """Return the datasets whose newest events a tick reads in any case, and the next offset.

    Args:
        refs: All datasets, in a fixed order.
        start: Where this tick starts.
    """
    count = max(_ASKED, -(-len(refs) // _TICKS))
    if count >= len(refs):
        return list(refs), 0
    first = start % len(refs)
    turn = [*refs[first:], *refs[:first]]
    return turn[:count], (first + count) % len(refs)


def find_at_rest(
    refs: Sequence[LanceDatasetRef],
    cursors: Mapping[str, DatasetCursor],
    store: LanceStoreResource,
    *,
    deadline: float,
) -> dict[str, Survey]:
    """Return the unchanged datasets, with what was found.

    Args:
        refs: The datasets.
        cursors: Their entries, by name.
        store: Opens the datasets.
        deadline: `time.monotonic()` at which to stop; datasets without an answer by then are read again.
    """

    def look(ref: LanceDatasetRef) -> Survey | None:
        cursor = cursors.get(ref.name, DatasetCursor())
        if cursor.version is None or cursor.problem is not None or not is_judged(cursor, ref):
            return None
        try:
            opened = store.open_store(ref)
            location = latest(opened)
            mark = mark_of(opened, location)
        except Exception:  # noqa: BLE001 - who looks at it in full says what is wrong
            return None
        at_rest = location.version == cursor.version and not has_other_bytes(cursor, location.version, mark)
        return Survey(location.version, mark=mark) if at_rest else None

    return look_at_all(refs, look, deadline) if refs else {}
