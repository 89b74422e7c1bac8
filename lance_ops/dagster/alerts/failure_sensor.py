"""Alert sensor for failed runs of maintenance and of ingests: commit conflicts and other failures.

Dagster's own failure sensors report a run once and have no state. This one reads the ends of runs in the
order of the event log, and saves its position, open incidents, and undelivered alerts.
"""

import time
from collections.abc import Mapping, Sequence

import dagster as dg

from lance_ops.alerts.incidents import Incidents
from lance_ops.dagster.alerts.delivery import finish_tick
from lance_ops.dagster.alerts.memory import AlertMemory
from lance_ops.dagster.alerts.options import AlertOptions, Notifiers, Recipients
from lance_ops.dagster.alerts.outcomes import FailureCursor, Outcomes, alerts_of_former
from lance_ops.dagster.dataset_ref import LanceDatasetRef, index_refs
from lance_ops.dagster.downstream import LanceDownstream
from lance_ops.dagster.ingest.spec import LanceIngest
from lance_ops.dagster.place import CodePlace
from lance_ops.dagster.run_map import RunMap, conditional_assets
from lance_ops.maintenance.text import count_text


def build_failure_alert_sensor(
    refs: Sequence[LanceDatasetRef],
    notifier: Notifiers | None = None,
    *,
    alerts: AlertOptions | None = None,
    ingests: Sequence[LanceIngest] = (),
    assets: Sequence[dg.AssetsDefinition] = (),
    downstream: Sequence[LanceDownstream] = (),
    fleets: Mapping[str, str] | None = None,
    name: str = "lance_failure_alert_sensor",
    minimum_interval_seconds: int = 30,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """Build a sensor that sends an alert for failed runs on one of the datasets, and for their recovery.

    A step that failed with a commit conflict gives a `ConflictAlert`, every other failure a `FailureAlert`.
    Failures of one job on one dataset with the same kind of error are one incident, which is sent once and
    ends with the next successful run of this job, or of any job that computes the same asset. An undelivered
    alert is sent again in later ticks; until then, ticks fail.

    Args:
        refs: The datasets.
        notifier: Receives the alerts; the log by default.
        alerts: Routing and timing of alerts.
        ingests: Ingests into some of them: runs from an asset's page name no dataset, only the asset.
        assets: Assets that write some of them through `LanceIOManager`, or read them.
        downstream: Jobs that read some of them.
        fleets: Fleet jobs of the sensor's repository, with the location of their policies: any failure in
            such a run is sent.
        name: Name of the sensor.
        minimum_interval_seconds: Seconds between ticks.
        default_status: Initial status.

    Raises:
        InvalidArgumentError: Ambiguous datasets, nothing to monitor, or an invalid notifier.
    """
    known = index_refs(refs) if refs or not fleets else {}
    options = alerts or AlertOptions()
    recipients = Recipients.of(notifier, options)

    @dg.sensor(
        name=name,
        description="Sends an alert when a run on a dataset failed, and when its job succeeds again.",
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
    )
    def failure_alert_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        now = time.time()
        memory = AlertMemory.recall(context.instance, f"{context.repository_name}\n{name}", context.cursor)
        watched = RunMap(
            known.values(),
            ingests=ingests,
            assets=assets,
            downstream=downstream,
            fleets=fleets,
            place=CodePlace.of_sensor(context),
        )
        for asset in conditional_assets(context).values():
            watched.add_readers(asset)
        cursor = FailureCursor.of(memory.content, memory.former)
        incidents = Incidents.from_dict(memory.content.get("incidents"), recipients.rules)
        for alert in alerts_of_former(memory.former):
            incidents.raise_alert(alert)
        news = Outcomes(context.instance, watched, options).read(incidents, cursor, now)
        for alert in news.raised:
            context.log.warning(alert.title)
        if known:
            incidents.forget(lambda name: name in known or name in (fleets or {}))
        said = f"{count_text(len(incidents.open_of(bool)), 'incident')} open"
        return finish_tick(context, memory, incidents, recipients, news.cursor.to_dict(), lambda: said, now)

    return failure_alert_sensor
