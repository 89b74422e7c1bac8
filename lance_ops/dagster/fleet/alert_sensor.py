"""Fleet alert sensor: sends the alerts of the policy's rules, independent of who surveyed."""

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
    """Build the sensor `lance_fleet_alert_sensor`.

    Sent alerts are in the ledger, so a killed tick, a reset cursor and another code location on the same
    policy neither repeat nor lose any.

    Args:
        policy: Has `alerts`.
        notifiers: Custom notifiers by the names in `to` of its rules; they take precedence over built-in
            ones.
        prefix: Prefix of its name.
        minimum_interval_seconds: Seconds between ticks.
        default_status: Initial status.

    Raises:
        InvalidArgumentError: A notifier is invalid.
    """
    for name, item in (notifiers or {}).items():
        check_notifier(item, f"notifiers[{name!r}]")

    @dg.sensor(
        name=keys.prefixed(prefix, "lance_fleet_alert_sensor"),
        description="Sends the alerts of the policy's rules to owners: damage, failures, blocked and "
        "overdue datasets.",
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
    )
    def fleet_alert_sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        told = tell_alerts(policy, notifiers=notifiers)
        for remark in told.refused:
            context.log.warning("some recipients refused a message: %s", remark)
        if told.errors:
            # The ledger has the sent alerts; a failed tick is visible.
            raise AlertNotDeliveredError(
                f"{told}: {'; '.join(told.errors)}",
                hint="the next tick retries; all other recipients have their alerts",
            )
        return dg.SkipReason(str(told))

    return fleet_alert_sensor
