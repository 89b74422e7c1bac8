"""Fleet alerts as a sensor: delivers what the rules of the policy want told, whoever looked or maintained."""

from collections.abc import Mapping

import dagster as dg

from lance_ops.alerts.channels import FleetNotifier
from lance_ops.alerts.notifier import check_notifier
from lance_ops.dagster import keys
from lance_ops.errors import AlertNotDeliveredError
from lance_ops.fleet.alerts.operation import tell_alerts
from lance_ops.fleet.policy.model import FleetPolicy


def build_fleet_alert_sensor(
    policy: FleetPolicy,
    *,
    notifiers: Mapping[str, FleetNotifier] | None = None,
    prefix: str = "",
    minimum_interval_seconds: int = 60,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> dg.SensorDefinition:
    """The sensor `lance_fleet_alert_sensor`.

    What was told is in the ledger, so a tick that dies, a cursor that is reset and another code location on
    the same policy tell nothing twice and lose nothing.

    Args:
        policy: With `alerts`.
        notifiers: By the names that its rules give under `to`, before those that are built in.
        prefix: Before its name.
        minimum_interval_seconds: Pause between ticks.
        default_status: Whether it runs from the start.

    Raises:
        InvalidArgumentError: A notifier cannot take alerts.
    """
    for name, item in (notifiers or {}).items():
        check_notifier(item, f"notifiers[{name!r}]")

    @dg.sensor(
        name=keys.prefixed(prefix, "lance_fleet_alert_sensor"),
        description="Tells owners what the policy's rules say: damage, failures, what is blocked or overdue.",
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
    )
    def fleet_alert_sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        told = tell_alerts(policy, notifiers=notifiers)
        for remark in told.refused:
            context.log.warning("not every recipient got it: %s", remark)
        if told.errors:
            # The ledger has what was sent; a tick that fails is seen.
            raise AlertNotDeliveredError(
                f"{told}: {'; '.join(told.errors)}",
                hint="the next tick tries again; all other recipients have their alerts",
            )
        return dg.SkipReason(str(told))

    return fleet_alert_sensor
