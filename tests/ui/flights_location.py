"""What the browser looks at: flights of New York, their ingest, and what is computed from them.

Everything runs in threads, so that the pages are there soon.
"""

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa

from examples.demo.flights import read_flights
from lance_ops.dagster import (
    IngestRequest,
    LanceDatasetRef,
    LanceDownstream,
    LanceIngest,
    LanceStoreResource,
    LogNotifier,
    MaintenanceTimes,
    WebhookNotifier,
    build_lance_definitions,
    version_metadata,
)
from lance_ops.maintenance.delete.operation import delete
from lance_ops.maintenance.health.policy import MaintenancePolicy
from lance_ops.maintenance.ingest.operation import write_dataset
from lance_ops.maintenance.metadata.actions import restore
from lance_ops.maintenance.runner import Runner
from lance_ops.table.dataset import Dataset
from tests.ui import fleet_location

FOLDER = "FLIGHTS_FOLDER"
WEBHOOK = "FLIGHTS_WEBHOOK"
_LEAP_DAY = "0 0 29 2 *"

MONTHS = dg.MonthlyPartitionsDefinition(start_date="2013-01-01", end_date="2013-07-01")


@functools.cache
def flights() -> pa.Table:
    """The whole year."""
    return read_flights()


def flights_ref(folder: Path) -> LanceDatasetRef:
    """The dataset."""
    return LanceDatasetRef(
        "flights",
        str(folder / "flights.lance"),
        description="Flights that left New York in 2013. Every event is a version, whoever made it.",
        owners=["team:aviation"],
        # The versions before another writer comes in the way; any of that one is too many.
        policy=MaintenancePolicy(target_rows=1 << 16, max_small_fragments=5, max_versions=11),
    )


class _RivalRunner:
    """Runs the tasks, and lets another writer delete rows and bring them back before the commit.

    A compaction carries deletes; a restore makes its plan void.
    """

    def __init__(self, runner: Runner, uri: str) -> None:
        self._runner = runner
        self._uri = uri

    def map(self, function: Callable[..., Any], tasks: Sequence[Any], **options: Any) -> list[Any]:
        results = self._runner.map(function, tasks, **options)
        head = Dataset.open(self._uri)
        first = head.to_table(columns=["flight"], limit=1)["flight"][0].as_py()
        delete(head, f"flight = {first}")
        restore(self._uri, head.version)
        return results


class FlightStore(LanceStoreResource):
    """A store with a rival in it as soon as there is a file called `collide`."""

    folder: str

    def build_runner(self) -> Runner:
        runner = super().build_runner()
        folder = Path(self.folder)
        if not (folder / "collide").exists():
            return runner
        return _RivalRunner(runner, flights_ref(folder).uri)


def build(folder: Path, webhook: str | None = None) -> dg.Definitions:
    """The definitions; nothing needs to be in the folder."""
    ref = flights_ref(folder)

    def read_month(request: IngestRequest) -> pa.Table:
        month = int(str(request.partition_key)[5:7])
        return flights().filter(pa.compute.equal(flights()["month"], month))

    @dg.asset(deps=[ref.key], kinds={"lance"}, description="Mean delay of departures by carrier and month.")
    def delay_per_carrier_and_month(lance_store: LanceStoreResource) -> dg.MaterializeResult:
        table = lance_store.open(ref).to_table(columns=["carrier", "month", "dep_delay"])
        delays = table.group_by(["carrier", "month"]).aggregate([("dep_delay", "mean")])
        result = write_dataset(delays, str(folder / "delays.lance"), mode="overwrite")
        return dg.MaterializeResult(metadata=version_metadata(Dataset.open(result.uri)))

    job = dg.define_asset_job(
        "delay_job",
        dg.AssetSelection.assets(delay_per_carrier_and_month.key),
        executor_def=dg.in_process_executor,
    )
    lance = build_lance_definitions(
        [ref],
        store=FlightStore(folder=str(folder), threads=1),
        ingests=[
            LanceIngest(
                ref,
                read_month,
                partitions=MONTHS,
                description="Flights by month, each appended exactly once.",
            )
        ],
        downstream=[LanceDownstream(job, [ref.name])],
        notifier=WebhookNotifier(webhook) if webhook else LogNotifier(),
        sensor_interval_seconds=5,
        # What is on the pages follows from what the tests do, and not from the time of the day.
        times=MaintenanceTimes(compact=_LEAP_DAY, index=_LEAP_DAY, cleanup=_LEAP_DAY),
        running=True,
    )
    own = dg.Definitions(assets=[delay_per_carrier_and_month], jobs=[job])
    return dg.Definitions.merge(lance, own, fleet_location.build(folder))


@dg.definitions
def defs() -> dg.Definitions:
    """What `dagster dev` loads."""
    return build(Path(os.environ[FOLDER]), os.environ.get(WEBHOOK))
