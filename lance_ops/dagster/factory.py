"""Builder of all definitions for a set of datasets."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, cast

import dagster as dg

from lance_ops.dagster import keys
from lance_ops.dagster.alerts.check_sensor import build_check_alert_sensor
from lance_ops.dagster.alerts.failure_sensor import build_failure_alert_sensor
from lance_ops.dagster.alerts.options import AlertOptions, Notifiers
from lance_ops.dagster.checks.definitions import build_asset_checks
from lance_ops.dagster.conditions import build_automation_sensor
from lance_ops.dagster.dataset_ref import LanceDatasetRef, index_refs, place_of, slugify
from lance_ops.dagster.downstream import LanceDownstream
from lance_ops.dagster.ingest.job import build_ingest_job, build_ingest_schedule
from lance_ops.dagster.ingest.loaded import build_loaded_check
from lance_ops.dagster.ingest.spec import LanceIngest
from lance_ops.dagster.jobs.operations import build_jobs
from lance_ops.dagster.jobs.schedules import MaintenanceTimes, build_maintenance_schedules
from lance_ops.dagster.lineage import ColumnSources
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.retry_sensor import build_retry_sensor
from lance_ops.dagster.sensor.manifest_sensor import SensorOptions, build_manifest_sensor
from lance_ops.dagster.spec import LanceDatasetTranslator, build_lance_assets
from lance_ops.errors import InvalidArgumentError


def build_lance_definitions(
    refs: Sequence[LanceDatasetRef],
    *,
    store: LanceStoreResource | None = None,
    ingests: Sequence[LanceIngest] = (),
    assets: Sequence[dg.AssetsDefinition] = (),
    downstream: Sequence[LanceDownstream] = (),
    notifier: Notifiers | None = None,
    alerts: AlertOptions | None = None,
    translator: LanceDatasetTranslator | None = None,
    times: MaintenanceTimes | None = None,
    sensor_options: SensorOptions | None = None,
    sensor_interval_seconds: int = 30,
    running: bool = False,
    schedules_running: bool = False,
    hooks: AbstractSet[dg.HookDefinition] | None = None,
    op_retry_policy: dg.RetryPolicy | None = None,
    maintained_by: str = "",
    prefix: str = "",
) -> dg.Definitions:
    """Build assets, checks, jobs, schedules, sensors and the resource for some datasets.

    Args:
        refs: The datasets.
        store: Opens them and runs tasks; local files and threads by default.
        ingests: Ingests into some of them.
        assets: Assets that write some of the datasets through `LanceIOManager`: they have the keys of these.
            Other assets of the same definitions are included.
        downstream: Jobs to start when data change; they must be in the merged definitions, too.
        notifier: Receives alerts about failed runs and failed checks; the log by default. A mapping has
            several by name.
        alerts: Routing and timing of alerts, and the URL of Dagster's webserver.
        translator: Translates datasets to asset specs.
        times: Times of the maintenance schedules.
        sensor_options: Limits of a tick of the manifest sensor.
        sensor_interval_seconds: Seconds between ticks of the sensors.
        running: Sensors run from the start.
        schedules_running: Schedules, which run due maintenance and ingests with a `cron_schedule`, run from
            the start.
        hooks: Hooks of the maintenance jobs; ingests have `hooks` of their own.
        op_retry_policy: Retry policy of these jobs for transient errors.
        maintained_by: Name of the maintenance in "Automation details" of their pages; the schedules of this
            call by default.
        prefix: Prefix of the names of jobs, schedules, sensors and resource, so that the definitions of
            several calls can be merged, each with its own store: `eu_lance_compact`, `eu_lance_store`. Names
            of datasets are not changed.

    Raises:
        InvalidArgumentError: Ambiguous datasets, an invalid prefix, or an invalid notifier.
    """
    if prefix != slugify(prefix):
        raise InvalidArgumentError(
            f"{prefix!r} is not a valid prefix", field="prefix", hint="use letters, digits and underscores"
        )
    sources = _sources_of_ingests(ingests)
    refs = [_fed_by(ref, sources) for ref in refs]
    by_name = index_refs(refs)
    ingests = [replace(ingest, ref=_declared(ingest, by_name, sources)) for ingest in ingests]
    jobs = build_jobs(refs, prefix=prefix, hooks=hooks, op_retry_policy=op_retry_policy)
    schedule_status = (
        dg.DefaultScheduleStatus.RUNNING if schedules_running else dg.DefaultScheduleStatus.STOPPED
    )
    conditional = [ingest.key for ingest in ingests if ingest.automation_condition is not None]
    status = dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED
    common: dict[str, Any] = {
        "minimum_interval_seconds": sensor_interval_seconds,
        "default_status": status,
    }
    retry = build_retry_sensor(
        refs,
        ingests=ingests,
        assets=assets,
        name=keys.prefixed(prefix, "lance_retry_sensor"),
        **common,
    )
    return dg.Definitions(
        assets=build_lance_assets(
            refs,
            ingests=ingests,
            assets=assets,
            translator=translator,
            maintained_by=maintained_by or f"schedules {keys.prefixed(prefix, 'lance_*_when_due')}",
            prefix=prefix,
        ),
        asset_checks=[
            *build_asset_checks(
                refs, downstream={name for item in downstream for name in item.datasets}, prefix=prefix
            ),
            *(build_loaded_check(ingest, prefix=prefix) for ingest in ingests if ingest.partitions),
        ],
        jobs=[*jobs, *(cast("Any", build_ingest_job(ingest)) for ingest in ingests)],
        schedules=[
            *build_maintenance_schedules(
                refs, jobs, times=times, prefix=prefix, default_status=schedule_status
            ),
            *(
                build_ingest_schedule(ingest, default_status=schedule_status)
                for ingest in ingests
                if ingest.cron_schedule is not None
            ),
        ],
        sensors=[
            build_manifest_sensor(
                refs,
                downstream=downstream,
                options=sensor_options,
                name=keys.prefixed(prefix, "lance_manifest_sensor"),
                prefix=prefix,
                **common,
            ),
            build_failure_alert_sensor(
                refs,
                notifier,
                alerts=alerts,
                ingests=ingests,
                assets=assets,
                downstream=downstream,
                name=keys.prefixed(prefix, "lance_failure_alert_sensor"),
                **common,
            ),
            retry,
            build_check_alert_sensor(
                refs,
                notifier,
                alerts=alerts,
                ingests=ingests,
                name=keys.prefixed(prefix, "lance_check_alert_sensor"),
                **common,
            ),
            *_automation(conditional, keys.prefixed(prefix, "lance_ingest_automation_sensor"), common),
        ],
        resources={keys.prefixed(prefix, keys.STORE_RESOURCE): store or LanceStoreResource()},
    )


def _automation(
    conditional: Sequence[dg.AssetKey], name: str, common: Mapping[str, Any]
) -> list[dg.SensorDefinition]:
    """Return the sensor of ingests with a condition; Dagster's default sensor for them starts stopped."""
    return [build_automation_sensor(conditional, name=name, **common)] if conditional else []


def _sources_of_ingests(ingests: Sequence[LanceIngest]) -> dict[str, ColumnSources]:
    """Return the column lineage that ingests declare for each dataset; they write under column names."""
    found: dict[str, dict[str, list[tuple[dg.AssetKey | str, str]]]] = {}
    for ingest in ingests:
        for column in ingest.columns_from:
            columns = found.setdefault(ingest.ref.name, {})
            columns.setdefault(column, []).append((ingest.key, column))
    return dict(found)


def _declared(
    ingest: LanceIngest, refs: Mapping[str, LanceDatasetRef], sources: Mapping[str, ColumnSources]
) -> LanceDatasetRef:
    """Return the declared dataset of an ingest, with policy, options and owners.

    Raises:
        InvalidArgumentError: It is declared with another URI.
    """
    known = refs.get(ingest.ref.name)
    if known is None:
        return _fed_by(ingest.ref, sources)
    if place_of(known.uri) != place_of(ingest.ref.uri):
        raise InvalidArgumentError(
            f"{ingest.asset_name} writes dataset {known.name!r} at {ingest.ref.uri}, which is declared at "
            f"{known.uri}",
            field="ref",
            hint="use the same LanceDatasetRef in the ingest",
        )
    return known


def _fed_by(ref: LanceDatasetRef, sources: Mapping[str, ColumnSources]) -> LanceDatasetRef:
    """Return a dataset with the lineage declared by its ingests; its own declaration takes precedence."""
    found = sources.get(ref.name)
    return ref if found is None else replace(ref, columns_from={**found, **ref.columns_from})
