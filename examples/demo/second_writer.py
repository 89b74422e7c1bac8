"""Another writer of the demo's dataset, in its own process: `python -m examples.demo.second_writer URI ACT`.

It appends charter flights. In the act `cancel` it then deletes them one by one: each delete touches a
fragment that a compaction wants to rewrite, so the compaction has to plan afresh. In the act `undo` it takes
its append back by a restore, again and again: a compaction that was planned before a restore is void. It
commits some twenty times a second until its standard input ends, and says at last what it did, as JSON.
"""

import json
import sys
import threading
from dataclasses import asdict, dataclass

import pyarrow as pa

from lance_ops.maintenance.delete.operation import delete
from lance_ops.maintenance.ingest.operation import append
from lance_ops.maintenance.metadata.actions import restore
from lance_ops.maintenance.results import DeleteResult
from lance_ops.table.dataset import Dataset

CARRIER = "ZZ"
FLIGHTS = 500
_PAUSE = 0.05


@dataclass(slots=True)
class Deeds:
    """What the writer did: flights that it added for good, flights that it cancelled, and its commits."""

    appended: int = 0
    cancelled: int = 0
    commits: int = 0


def charter_flights(schema: pa.Schema, count: int) -> pa.Table:
    """Flights of a carrier of its own, numbered from 1; everything else that may be null is null."""
    columns = {field.name: pa.nulls(count, field.type) for field in schema}
    columns["carrier"] = pa.array([CARRIER] * count, schema.field("carrier").type)
    columns["flight"] = pa.array(range(1, count + 1)).cast(schema.field("flight").type)
    columns["dep_time"] = pa.array([1200] * count).cast(schema.field("dep_time").type)
    columns["month"] = pa.array([12] * count).cast(schema.field("month").type)
    return pa.table(columns, schema=schema)


def cancel(uri: str, stop: threading.Event) -> Deeds:
    """Append flights and delete them one by one; at least one stays."""
    append(uri, charter_flights(Dataset.open(uri).schema, FLIGHTS))
    deeds = Deeds(appended=FLIGHTS, commits=1)
    _ready()
    while deeds.cancelled < FLIGHTS - 1 and not stop.wait(_PAUSE):
        result = delete(uri, f"carrier = '{CARRIER}' AND flight = {deeds.cancelled + 1}")
        assert isinstance(result, DeleteResult)
        deeds.cancelled += result.rows_deleted
        deeds.commits += 1
    return deeds


def undo(uri: str, stop: threading.Event) -> Deeds:
    """Append a few flights and restore the version before, so that nothing is left of it."""
    deeds = Deeds()
    while deeds.commits < 2 or not stop.wait(_PAUSE):
        before = Dataset.open(uri)
        append(before, charter_flights(before.schema, 10))
        restore(uri, before.version)
        deeds.commits += 2
        if deeds.commits == 2:
            _ready()
    return deeds


def _ready() -> None:
    print("ready", flush=True)  # noqa: T201 - the parent waits for it


def main(uri: str, act: str) -> None:
    """Act until standard input ends."""
    stop = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    deeds = {"cancel": cancel, "undo": undo}[act](uri, stop)
    print(json.dumps(asdict(deeds)), flush=True)  # noqa: T201 - the parent reads it


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
