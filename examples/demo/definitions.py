"""The demo's code location: one dataset, its monthly ingest, and an asset that Spark computes from it."""

from pathlib import Path
from typing import Any

import dagster as dg

from examples.demo.flights import read_flights
from lance_ops.dagster import (
    IngestRequest,
    LanceDatasetRef,
    LanceDownstream,
    LanceIngest,
    LanceStoreResource,
    MaintenancePolicy,
    Notifier,
    build_lance_definitions,
    keys,
    version_metadata,
)
from lance_ops.table.dataset import Dataset

FLIGHTS = "flights"
INGEST = "flights_ingest"
DELAYS = "delay_per_carrier_and_month"
DELAYS_JOB = "delay_job"

MONTHS = dg.MonthlyPartitionsDefinition(start_date="2013-01-01", end_date="2014-01-01")

_QUERY = """
SELECT carrier, month, count(*) AS flights, avg(dep_delay) AS mean_delay, max(dep_delay) AS worst_delay
FROM {flights} WHERE dep_delay IS NOT NULL GROUP BY carrier, month ORDER BY carrier, month
"""


def build_demo_definitions(
    folder: Path,
    *,
    runner: str = "spark",
    spark_master: str = "local[*]",
    running: bool = True,
    notifier: Notifier | None = None,
) -> dg.Definitions:
    """The demo's assets, jobs and sensors.

    Args:
        folder: Where its datasets lie; nothing needs to be there yet.
        runner: Who runs tasks: "spark" or "local".
        spark_master: For Spark.
        running: Sensors run from the start.
        notifier: Who is told about conflicts and failed checks; the log by default.
    """
    ref = flights_ref(folder)
    delays = _build_delays(ref, folder)
    job = dg.define_asset_job(
        DELAYS_JOB,
        selection=dg.AssetSelection.assets(delays.key),
        description="Computes the delays anew; the manifest sensor starts it when flights came or went.",
        tags={keys.DOWNSTREAM_TAG: DELAYS_JOB},
        executor_def=dg.in_process_executor,
    )
    lance = build_lance_definitions(
        [ref],
        store=LanceStoreResource(runner=runner, spark_master=spark_master),  # type: ignore[arg-type]  # pydantic checks it
        ingests=[
            LanceIngest(
                ref,
                read_month,
                partitions=MONTHS,
                replace_where=rows_of_month,
                description="Flights by month; a launch replaces its month. Launch a backfill for the year.",
            )
        ],
        downstream=[LanceDownstream(job, [FLIGHTS])],
        notifier=notifier,
        sensor_interval_seconds=10,
        running=running,
    )
    return dg.Definitions.merge(
        lance, dg.Definitions(assets=[delays], jobs=[job], executor=dg.in_process_executor)
    )


def flights_ref(folder: Path) -> LanceDatasetRef:
    """The dataset of flights, with thresholds that a demo can pass."""
    return LanceDatasetRef(
        FLIGHTS,
        str(folder / "flights.lance"),
        description="Flights that left New York in 2013. Each event is a version, whoever made it.",
        policy=MaintenancePolicy(target_rows=1 << 17, max_small_fragments=5, max_versions=20),
    )


def delays_uri(folder: Path) -> str:
    """Where the delays lie."""
    return str(folder / "delay_per_carrier_and_month.lance")


def read_month(request: IngestRequest) -> Any:
    """The flights of a month: a Spark DataFrame, or an Arrow table when Spark has no part in this."""
    window = request.time_window
    table = read_flights() if window is None else read_flights(window.start, window.end)
    if request.store.runner == "local":
        return table
    return request.store.spark_session().createDataFrame(table)


def rows_of_month(request: IngestRequest) -> str:
    """The predicate that selects the flights of a month, which two columns tell together."""
    assert request.time_window is not None
    start = request.time_window.start
    return f"year = {start.year} AND month = {start.month}"


def _build_delays(ref: LanceDatasetRef, folder: Path) -> dg.AssetsDefinition:
    uri = delays_uri(folder)

    @dg.asset(
        name=DELAYS,
        deps=[ref.key],
        kinds={"lance", "pyspark"},
        description="Mean and worst delay of departures, per carrier and month.",
    )
    def delays(
        context: dg.AssetExecutionContext, lance_store: LanceStoreResource
    ) -> dg.MaterializeResult[Any]:
        from lance_ops.spark.writing.dataframe import append_dataframe

        flights = lance_store.open(ref)
        spark = lance_store.spark_session()
        # The version that was opened, whatever is committed meanwhile: it is also what the metadata name.
        frame = spark.read.format("lance").option("version", flights.version).load(ref.uri)
        computed = spark.sql(_QUERY, flights=frame)
        result = append_dataframe(
            computed, uri, mode="overwrite", properties={keys.RUN_ID: context.run.run_id}
        )
        dataset = Dataset.open(uri, result.version)
        return dg.MaterializeResult(
            data_version=dg.DataVersion(dataset.data_version),
            metadata={
                **version_metadata(dataset, table_name=DELAYS),
                keys.INPUT_VERSIONS: dg.MetadataValue.json({ref.name: flights.version}),
            },
        )

    return delays
