"""Everything for a set of datasets in one call."""

from collections.abc import Sequence
from typing import Any, cast

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.alerts.check_sensor import build_check_alert_sensor
from lance_ops.dagster.alerts.failure_sensor import build_failure_alert_sensor
from lance_ops.dagster.alerts.notifier import Notifier
from lance_ops.dagster.checks import build_asset_checks
from lance_ops.dagster.dataset_ref import LanceDatasetRef
from lance_ops.dagster.ingest import LanceIngest, build_ingest_job
from lance_ops.dagster.jobs import build_jobs
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.schedules import MaintenanceTimes, build_maintenance_schedules
from lance_ops.dagster.sensor import LanceDownstream, SensorOptions, build_manifest_sensor
from lance_ops.dagster.spec import LanceDatasetTranslator, build_lance_assets


def build_lance_definitions(
    refs: Sequence[LanceDatasetRef],
    *,
    store: LanceStoreResource | None = None,
    ingests: Sequence[LanceIngest] = (),
    downstream: Sequence[LanceDownstream] = (),
    notifier: Notifier | None = None,
    translator: LanceDatasetTranslator | None = None,
    times: MaintenanceTimes | None = None,
    sensor_options: SensorOptions | None = None,
    sensor_interval_seconds: int = 30,
    running: bool = False,
) -> dg.Definitions:
    """Assets, checks, jobs, schedules, sensors and the resource for some datasets, to merge with one's own.

    Args:
        refs: The datasets.
        store: How to reach them, and who runs tasks; local files and threads by default.
        ingests: How rows come into some of them.
        downstream: Jobs to start when data change; they have to be in the merged definitions too.
        notifier: Who is told about failed runs and failed checks; the log by default.
        translator: Says how a dataset looks as an asset.
        times: When schedules look for due maintenance.
        sensor_options: Limits of the manifest sensor's tick.
        sensor_interval_seconds: Pause between ticks of the sensors.
        running: Sensors run from the start. Schedules, which act on their own account, never do.

    Raises:
        InvalidArgumentError: Datasets that cannot be told apart.
    """
    jobs = build_jobs(refs)
    status = dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED
    common: dict[str, Any] = {
        "minimum_interval_seconds": sensor_interval_seconds,
        "default_status": status,
    }
    return dg.Definitions(
        assets=build_lance_assets(refs, ingests=ingests, translator=translator),
        asset_checks=build_asset_checks(refs),
        jobs=[*jobs, *(cast("Any", build_ingest_job(ingest)) for ingest in ingests)],
        schedules=build_maintenance_schedules(refs, jobs, times=times),
        sensors=[
            build_manifest_sensor(refs, downstream=downstream, options=sensor_options, **common),
            build_failure_alert_sensor(refs, notifier, ingests=ingests, **common),
            build_check_alert_sensor(refs, notifier, **common),
        ],
        resources={keys.STORE_RESOURCE: store or LanceStoreResource()},
    )
