"""Datasets at rest: the newest manifest of each is the one that the sensor has dealt with.

What the event log has of a dataset is dear to ask: Dagster reads the whole newest event of each, with all
of its metadata. Of many datasets at rest a tick asks only for some, in turns: events that somebody wiped, or
told out of order, are noticed a few ticks later.
"""

from collections.abc import Mapping, Sequence

from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.sensor.cursor import DatasetCursor
from lance_ops.dagster.sensor.survey import Survey, has_other_bytes, is_judged, look_at_all
from lance_ops.table.manifest.listing import latest, mark_of

_ASKED = 200
"""Datasets at rest whose newest events a tick asks for: so few are asked for in every tick."""
_TICKS = 20
"""Ticks in which all of them are."""


def asked_in_turn(refs: Sequence[LanceDatasetRef], start: int) -> tuple[list[LanceDatasetRef], int]:
    """The datasets whose newest events a tick asks for in any case, and where the next tick goes on.

    Args:
        refs: All datasets, in an order that stays.
        start: Where this tick begins.
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
    """Which datasets are at rest, with what a look at them has found.

    Args:
        refs: The datasets.
        cursors: What is known of them, by name.
        store: For opening them.
        deadline: `time.monotonic()` at which to stop; who does not answer before is to be looked at again.
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
