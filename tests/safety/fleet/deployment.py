"""What the campaign deploys: a fleet, a dataset that is loaded by partitions, and what is computed from it.

While a file `chaos` lies beside it, loads and computations fail at random.
"""

import json
import os
import random
import time
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pyarrow as pa

import lance_ops as lo
from lance_ops.dagster import (
    LanceDatasetRef,
    LanceDownstream,
    LanceIngest,
    SensorOptions,
    WebhookNotifier,
    attempts,
    build_automation_sensor,
    build_fleet_definitions,
    build_lance_definitions,
    lance_data_changed,
    retry_sensor,
)

ROWS_OF_A_PARTITION = 5
FOLDER = Path(__file__).parent
LONGEST_PAUSE = 3.0


def fail_at_random() -> None:
    """Fail one time of four while chaos reigns."""
    if (FOLDER / "chaos").exists() and random.random() < 0.25:
        raise dg.Failure("it failed by chance", allow_retries=False)


def compute(name: str) -> int:
    """Count the rows, take a while, and note how many there were; returns the version."""
    dataset = lo.dataset(str(FOLDER / "orders.lance"))
    rows = dataset.count_rows()
    time.sleep(random.uniform(0, LONGEST_PAUSE))
    fail_at_random()
    (FOLDER / f"{name}.json").write_text(json.dumps(rows))
    return dataset.version


def build() -> dg.Definitions:
    """The definitions of the code location."""
    factor, partitions = int(os.environ["FACTOR"]), int(os.environ["PARTITIONS"])
    attempts.PAUSES = tuple(pause / factor for pause in attempts.PAUSES)
    retry_sensor.PAUSES = attempts.PAUSES
    # A cleanup commits no version that would make the sensor evaluate failed checks again.
    sensor_options = SensorOptions(failed_check_every=timedelta(minutes=10) / factor)
    orders = LanceDatasetRef("orders", str(FOLDER / "orders.lance"))

    def rows_of(request):
        fail_at_random()
        return pa.table({"part": [request.partition_key] * ROWS_OF_A_PARTITION})

    ingest = LanceIngest(
        orders,
        rows_of,
        partitions=dg.StaticPartitionsDefinition([f"p{number:02}" for number in range(partitions)]),
        partition_column="part",
    )

    @dg.op(out=dg.Out(dg.Nothing))
    def count(context):
        noted = {"lance/input_versions": dg.MetadataValue.json({"orders": compute("totals")})}
        context.log_event(dg.AssetMaterialization("totals", metadata=noted))

    @dg.job
    def totals():
        count()

    @dg.asset(deps=[orders.key], automation_condition=lance_data_changed())
    def derived() -> None:
        compute("derived")

    executor = None if os.environ["STEPS_APART"] else dg.in_process_executor

    @dg.op(out=dg.Out(dg.Nothing))
    def wait(context):
        (FOLDER / "long.tmp").write_text(str(os.getpid()))
        (FOLDER / "long.tmp").rename(FOLDER / "long.pid")
        while not (FOLDER / "end").exists():
            time.sleep(1)

    @dg.job(executor_def=dg.in_process_executor)
    def long():
        wait()

    notifier = WebhookNotifier(dg.EnvVar("HOOK"))
    return dg.Definitions.merge(
        build_fleet_definitions(
            FOLDER / "fleet.yaml",
            notifier=notifier,
            cron="* * * * *",
            sensor_options=sensor_options,
            running=True,
            schedules_running=True,
        ),
        build_lance_definitions(
            [orders],
            ingests=[ingest],
            downstream=[LanceDownstream(totals, ["orders"])],
            notifier=notifier,
            sensor_interval_seconds=5,
            sensor_options=sensor_options,
            running=True,
            prefix="own",
        ),
        dg.Definitions(
            assets=[derived],
            jobs=[totals, long],
            sensors=[build_automation_sensor([derived.key], minimum_interval_seconds=5)],
            executor=executor,
        ),
    )


if "FACTOR" in os.environ:
    defs = build()
