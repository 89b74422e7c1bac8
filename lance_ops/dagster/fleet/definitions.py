"""Builder of all definitions for a fleet: its datasets as assets, its run as a job with a schedule."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg

from lance_ops.alerts.channels import FleetNotifier
from lance_ops.dagster import keys
from lance_ops.dagster.alerts.failure_sensor import build_failure_alert_sensor
from lance_ops.dagster.alerts.options import AlertOptions, Notifiers
from lance_ops.dagster.dataset_ref import place_of
from lance_ops.dagster.factory import build_lance_definitions
from lance_ops.dagster.fleet.alert_sensor import build_fleet_alert_sensor
from lance_ops.dagster.fleet.refs import fleet_refs
from lance_ops.dagster.fleet.report_asset import REPORT_JOB, build_fleet_report
from lance_ops.dagster.fleet.run_job import FLEET_JOB, build_fleet_job
from lance_ops.dagster.jobs.operations import NamedJob
from lance_ops.dagster.registry import REGISTRY
from lance_ops.dagster.resource import LanceStoreResource
from lance_ops.dagster.retry_sensor import build_retry_sensor
from lance_ops.dagster.selection import filter_refs
from lance_ops.dagster.sensor.manifest_sensor import SensorOptions
from lance_ops.dagster.spec import LanceDatasetTranslator
from lance_ops.errors import InvalidArgumentError, LanceOpsError
from lance_ops.fleet.discover.operation import discover
from lance_ops.fleet.ledger.ledger import FleetLedger
from lance_ops.fleet.policy.load import load_policy
from lance_ops.fleet.policy.model import FleetPolicy
from lance_ops.fleet.stores.opened import FleetDataset, FleetStores

_WAITING = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED]
_LONGEST_WAIT = timedelta(days=1)
"""A run that waits longer may never start, e.g. if its launch was interrupted."""
_MOST_WAITING = 100


def build_fleet_definitions(
    policy: FleetPolicy | str | Path,
    *,
    datasets: Sequence[FleetDataset] | None = None,
    store: LanceStoreResource | None = None,
    notifier: Notifiers | None = None,
    alerts: AlertOptions | None = None,
    notifiers: Mapping[str, FleetNotifier] | None = None,
    translator: LanceDatasetTranslator | None = None,
    select: str | None = None,
    exclude: str | None = None,
    cron: str = "*/30 * * * *",
    report_cron: str = "10 * * * *",
    stale_after: timedelta = timedelta(hours=3),
    sensor_options: SensorOptions | None = None,
    running: bool = False,
    schedules_running: bool = False,
    prefix: str = "",
) -> dg.Definitions:
    """Build assets, checks, sensors and jobs for the datasets of a fleet, one job for all, and a report.

    Datasets that this code location declared before, as a `LanceDatasetRef` of another name, keep that one
    asset; the fleet maintains them, too.

    Args:
        policy: The policy, or its file.
        datasets: Of the fleet; by default they are discovered now, which lists each store every time that the
            code location is loaded. `LanceFleetComponent` stores them.
        store: Runs tasks. Options of the stores come from the policy.
        notifier: Receives alerts about failed runs and failed checks; the log by default. A mapping has
            several by name.
        alerts: Routing and timing of these alerts, and the URL of Dagster's webserver.
        notifiers: Custom notifiers by the names in `to` of policy rules; they take precedence over built-in
            ones.
        translator: Translates datasets to asset specs.
        select: Selection of the datasets that become assets, in Dagster's syntax: `tag:lance/class=gold`,
            `owner:"team:sales"`.
            The fleet's run maintains all of them.
        exclude: Which of these are not.
        cron: When the fleet is looked at, and what is due is maintained within the policy's windows.
        report_cron: When the report is refreshed.
        stale_after: Age from which the report fails its freshness policy, and a dataset that was not looked
            at for so long is `stale` in it rather than `healthy`.
        sensor_options: Limits of the manifest sensor's tick.
        running: Sensors and the schedule of the report run from the start.
        schedules_running: The fleet's schedule, which runs due maintenance, runs from the start. Those of
            single datasets stay stopped: they would repeat the same work.
        prefix: Prefix of the names of jobs, schedules, sensors and resource.

    Raises:
        PolicyError: The file is invalid; lists every problem with its line.
        InvalidArgumentError: There is no dataset.
    """
    read = policy if isinstance(policy, FleetPolicy) else load_policy(policy)
    found = list(datasets) if datasets is not None else list(discover(FleetStores(read)).datasets)
    named = fleet_refs(read, found, _verdicts(read))
    # A dataset that is already an asset of this code location gets no second name.
    declared = REGISTRY.names_by_place()
    refs = [ref for ref in named.values() if declared.get(place_of(ref.uri), ref.name) == ref.name]
    spec_of = (translator or LanceDatasetTranslator()).get_asset_spec
    if refs:
        refs = filter_refs(refs, spec_of, select=select, exclude=exclude)
    kept = {ref.name for ref in refs}
    pages = {
        name: ref.key if ref.name in kept else REGISTRY.refs[declared[place_of(ref.uri)]].key
        for name, ref in named.items()
        if ref.name in kept or declared.get(place_of(ref.uri), ref.name) != ref.name
    }
    job = build_fleet_job(read, prefix=prefix)
    report = build_fleet_report(
        read,
        assets=pages,
        stale_after=stale_after,
        prefix=prefix,
    )
    report_job = dg.define_asset_job(
        keys.prefixed(prefix, REPORT_JOB),
        dg.AssetSelection.assets(report.key),
        description="Survey the datasets of the fleet and refresh its report.",
    )
    own = dg.Definitions(
        assets=[report],
        jobs=[job, report_job],  # type: ignore[list-item]  # a job by its public type
        schedules=[
            _schedule(read, job, cron, prefix, running=schedules_running),
            dg.ScheduleDefinition(
                name=keys.prefixed(prefix, "lance_fleet_report_schedule"),
                job=report_job,
                cron_schedule=report_cron,
                description="Refreshes the report on the fleet; changes no dataset.",
                default_status=_schedule_status(running=running),
            ),
        ],
        sensors=[
            *_sensors(read, notifier, alerts, notifiers, prefix, _status(running=running)),
            build_retry_sensor(
                fleet=job,
                name=keys.prefixed(prefix, "lance_fleet_retry_sensor"),
                default_status=_status(running=running),
            ),
        ],
    )
    resource = store or LanceStoreResource()
    if not refs:
        if datasets is None and not named:
            raise InvalidArgumentError(
                "no dataset was found in any store of the policy",
                path=read.source or None,
                field="discover",
                hint="`lance-ops fleet status` lists the searched locations",
            )
        resources = {keys.prefixed(prefix, keys.STORE_RESOURCE): resource}
        return dg.Definitions.merge(own, dg.Definitions(resources=resources))
    return dg.Definitions.merge(
        build_lance_definitions(
            refs,
            store=resource,
            notifier=notifier,
            alerts=alerts,
            translator=translator,
            sensor_options=sensor_options,
            running=running,
            maintained_by=f"schedule {keys.prefixed(prefix, 'lance_fleet_when_due')}",
            prefix=prefix,
        ),
        own,
    )


def _sensors(
    policy: FleetPolicy,
    notifier: Notifiers | None,
    alerts: AlertOptions | None,
    notifiers: Mapping[str, FleetNotifier] | None,
    prefix: str,
    status: dg.DefaultSensorStatus,
) -> Iterator[dg.SensorDefinition]:
    """Build the sensors: runs that failed as a whole are not in the ledger."""
    yield build_failure_alert_sensor(
        [],
        notifier,
        alerts=alerts,
        fleets={keys.prefixed(prefix, name): _place(policy) for name in (FLEET_JOB, REPORT_JOB)},
        name=keys.prefixed(prefix, "lance_fleet_failure_sensor"),
        default_status=status,
    )
    if policy.alerts:
        yield build_fleet_alert_sensor(policy, notifiers=notifiers, prefix=prefix, default_status=status)


def _place(policy: FleetPolicy) -> str:
    return policy.source or policy.stores[0].root


def _verdicts(policy: FleetPolicy) -> dict[str, str]:
    """Return the verdicts of the newest survey at load time; empty if the ledger cannot be read."""
    try:
        return FleetLedger.of(policy).verdicts()
    except LanceOpsError:
        return {}


def _status(*, running: bool) -> dg.DefaultSensorStatus:
    return dg.DefaultSensorStatus.RUNNING if running else dg.DefaultSensorStatus.STOPPED


def _schedule_status(*, running: bool) -> dg.DefaultScheduleStatus:
    return dg.DefaultScheduleStatus.RUNNING if running else dg.DefaultScheduleStatus.STOPPED


def _schedule(
    policy: FleetPolicy, job: NamedJob, cron: str, prefix: str, *, running: bool
) -> dg.ScheduleDefinition:
    name, fleet = keys.prefixed(prefix, "lance_fleet_when_due"), _place(policy)

    @dg.schedule(
        name=name,
        cron_schedule=cron,
        job=job,  # type: ignore[arg-type]  # a job by its public type
        description="Starts a run of the fleet when its policy allows maintenance.",
        default_status=_schedule_status(running=running),
    )
    def when_due(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if not maintains_anything(policy):
            return dg.SkipReason("the policy runs no maintenance automatically: no class has the mode 'auto'")
        # A running one may be dead and unnoticed; a waiting one starts as soon as possible.
        waiting = dg.RunsFilter(
            job_name=job.name, statuses=_WAITING, created_after=datetime.now(UTC) - _LONGEST_WAIT
        )
        # Another code location may have its own fleet under the same name.
        runs = context.instance.get_runs(waiting, limit=_MOST_WAITING)
        if any(run.tags.get(keys.FLEET_TAG, fleet) == fleet for run in runs):
            return dg.SkipReason("a run of the fleet is already queued")
        at = context.scheduled_execution_time
        tags = {keys.DUE_TAG: "fleet", keys.FLEET_TAG: fleet}
        return dg.RunRequest(run_key=f"{name}|{at.isoformat()}", tags=tags)

    return when_due


def maintains_anything(policy: FleetPolicy) -> bool:
    """Return whether some class of a policy is maintained without approval."""
    if policy.mode == "auto":
        return True
    return any(item.settings.get("mode") == "auto" for item in policy.classes)
