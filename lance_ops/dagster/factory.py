"""Everything for a set of datasets in one call."""

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
    """Assets, checks, jobs, schedules, sensors and the resource for some datasets, to merge with one's own.

    Args:
        refs: The datasets.
        store: How to reach them, and who runs tasks; local files and threads by default.
        ingests: How rows come into some of them.
        assets: Assets that write some of the datasets through `LanceIOManager`: they have the keys of these.
            Other assets of theirs come along.
        downstream: Jobs to start when data change; they have to be in the merged definitions too.
        notifier: Who gets alerts about failed runs and failed checks; the log by default. A mapping gives
            several by name.
        alerts: Which alerts are sent, to whom and when, and where Dagster's webserver is.
        translator: Says how a dataset looks as an asset.
        times: When schedules look for due maintenance.
        sensor_options: Limits of the manifest sensor's tick.
        sensor_interval_seconds: Pause between ticks of the sensors.
        running: Sensors run from the start.
        schedules_running: Schedules, which maintain what is due and load ingests with a `cron_schedule` on
            their own account, run from the start.
        hooks: Run after each step of the maintenance jobs; ingests have `hooks` of their own.
        op_retry_policy: How often and when a step of these jobs is tried again whose error may pass.
        maintained_by: What maintains the datasets, as "Automation details" of their pages name it; the
            schedules of this call by default.
        prefix: Before the names of jobs, schedules, sensors and resource, so that the definitions of several
            calls can be merged, each with a store of its own: `eu_lance_compact`, `eu_lance_store`. Names of
            datasets stay as they are.

    Raises:
        InvalidArgumentError: Datasets that cannot be told apart, a prefix that Dagster would not take, or a
            notifier that cannot take alerts.
    """
    if prefix != slugify(prefix):
        raise InvalidArgumentError(
            f"{prefix!r} is no prefix", field="prefix", hint="letters, digits and underscores"
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
    """The sensor of ingests with a condition; Dagster's own, which would evaluate them, starts stopped."""
    return [build_automation_sensor(conditional, name=name, **common)] if conditional else []


def _sources_of_ingests(ingests: Sequence[LanceIngest]) -> dict[str, ColumnSources]:
    """What ingests declare of the columns of each dataset; they write columns under their names."""
    found: dict[str, dict[str, list[tuple[dg.AssetKey | str, str]]]] = {}
    for ingest in ingests:
        for column in ingest.columns_from:
            columns = found.setdefault(ingest.ref.name, {})
            columns.setdefault(column, []).append((ingest.key, column))
    return dict(found)


def _declared(
    ingest: LanceIngest, refs: Mapping[str, LanceDatasetRef], sources: Mapping[str, ColumnSources]
) -> LanceDatasetRef:
    """The dataset of an ingest as the code location declares it, with policy, options and owners.

    Raises:
        InvalidArgumentError: It is declared elsewhere.
    """
    known = refs.get(ingest.ref.name)
    if known is None:
        return _fed_by(ingest.ref, sources)
    if place_of(known.uri) != place_of(ingest.ref.uri):
        raise InvalidArgumentError(
            f"{ingest.asset_name} writes dataset {known.name!r} at {ingest.ref.uri}, which is declared at "
            f"{known.uri}",
            field="ref",
            hint="give the ingest the same LanceDatasetRef",
        )
    return known


def _fed_by(ref: LanceDatasetRef, sources: Mapping[str, ColumnSources]) -> LanceDatasetRef:
    """A dataset with what its ingests declare of its columns; its own words first."""
    found = sources.get(ref.name)
    return ref if found is None else replace(ref, columns_from={**found, **ref.columns_from})
