"""Alert sensor for checks that start to fail or pass again.

It reads the evaluations in the order of the event log: a check that fails and passes between two ticks, or
while no alert can be delivered, is sent as well.
"""

import time
from collections.abc import Sequence

import dagster as dg

from lance_ops.alerts.incidents import Incidents
from lance_ops.dagster.alerts.check_news import CheckNews, CheckState
from lance_ops.dagster.alerts.delivery import finish_tick
from lance_ops.dagster.alerts.memory import AlertMemory
from lance_ops.dagster.alerts.options import AlertOptions, Notifiers, Recipients
from lance_ops.dagster.checks.records import latest_records
from lance_ops.dagster.dataset_ref import LanceDatasetRef, index_refs
from lance_ops.dagster.ingest.spec import LanceIngest
from lance_ops.maintenance.text import count_text


def build_check_alert_sensor(
    refs: Sequence[LanceDatasetRef],
    notifier: Notifiers | None = None,
    *,
    alerts: AlertOptions | None = None,
    ingests: Sequence[LanceIngest] = (),
    name: str = "lance_check_alert_sensor",
    minimum_interval_seconds: int = 60,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """Build a sensor that sends an alert once when a check starts to fail, and when it passes again.

    Warnings, such as more small fragments than the policy allows, are the normal state between two
    compactions: they are alerts when they last for `AlertOptions.due_after`, or when maintenance cannot
    repair them. While an alert cannot be delivered, ticks fail.

    Args:
        refs: The datasets.
        notifier: Receives the alerts; the log by default.
        alerts: Routing and timing of alerts.
        ingests: Ingests into some of them: missing partitions are alerts as well.
        name: Name of the sensor.
        minimum_interval_seconds: Seconds between ticks.
        default_status: Initial status.

    Raises:
        InvalidArgumentError: Ambiguous datasets, or an invalid notifier.
    """
    by_name = index_refs(refs)
    options = alerts or AlertOptions()
    recipients = Recipients.of(notifier, options)
    loading = [item for item in ingests if item.partitions is not None and item.ref.name in by_name]

    @dg.sensor(
        name=name,
        description="Sends an alert when a check on a dataset starts to fail, and when it passes again.",
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
    )
    def check_alert_sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        now = time.time()
        memory = AlertMemory.recall(context.instance, f"{context.repository_name}\n{name}", context.cursor)
        state = CheckState.of(memory.content)
        incidents = Incidents.from_dict(memory.content.get("incidents"), recipients.rules)
        incidents.forget(by_name.__contains__)
        news = CheckNews(context.instance, by_name, loading, options, latest_records)
        news.take_former(memory.former, incidents, now)
        news.read(state, incidents, now)
        failing = len(state.failing)
        said = f"{count_text(failing, 'check')} {'fails' if failing == 1 else 'fail'}"
        return finish_tick(context, memory, incidents, recipients, state.to_dict(), lambda: said, now)

    return check_alert_sensor
