"""Slack and PagerDuty through Dagster's own libraries, for those who have their resources already.

The libraries are extras of their own (`lance-ops[slack]`, `lance-ops[pagerduty]`); their resources are given,
so nothing of them is imported here. They set no end to a conversation as a whole, so it is set here: a server
that hangs costs an alert ten seconds, and it is told again later.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from lance_ops.alerts.channels import severity_of
from lance_ops.alerts.in_time import SECONDS, InTime
from lance_ops.alerts.message import RUNBOOK, Message, said_of
from lance_ops.alerts.values import Alert, CheckAlert, ConflictAlert, FailureAlert, alert_to_dict
from lance_ops.errors import AlertNotDeliveredError


class _Slack(Protocol):
    def get_client(self) -> Any: ...


class _PagerDuty(Protocol):
    def EventV2_create(self, **values: Any) -> Any: ...  # noqa: N802 - the library's name


class SlackNotifier:
    """Posts alerts to a channel.

    Args:
        slack: `dagster_slack.SlackResource`; its token may be a `dg.EnvVar`.
        channel: Name or id; one for each owner with a mapping, where None stands for all others.
        seconds: An alert is given up for this time after so long. It may have arrived: then it comes twice.
    """

    def __init__(
        self, slack: _Slack, channel: str | Mapping[str | None, str], *, seconds: float = SECONDS
    ) -> None:
        self._slack = slack
        self._channel = channel
        self._in_time = InTime("Slack", seconds)

    def notify(self, alert: Alert | Message) -> None:
        """See `Notifier.notify`."""
        owner = alert.owner if isinstance(alert, Message) else None
        channel = self._channel if isinstance(self._channel, str) else self._of(self._channel, owner)
        text = str(alert).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

        def post() -> None:
            _resolved(self._slack).get_client().chat_postMessage(channel=channel, text=text)

        try:
            self._in_time.call(post)
        except AlertNotDeliveredError:
            raise
        except Exception as error:  # the library's own errors are not imported here
            raise AlertNotDeliveredError(f"Slack did not take the alert: {type(error).__name__}") from error

    @staticmethod
    def _of(channels: Mapping[str | None, str], owner: str | None) -> str:
        found = channels.get(owner, channels.get(None))
        if found is None:
            raise AlertNotDeliveredError(f"there is no Slack channel for {owner or 'datasets without owner'}")
        return found


class PagerDutyNotifier:
    """Triggers an incident for each dataset and cause, and resolves it.

    Args:
        pagerduty: `dagster_pagerduty.PagerDutyService`; its routing key may be a `dg.EnvVar`.
        seconds: An alert is given up for this time after so long; PagerDuty knows a second one by its key.
    """

    def __init__(self, pagerduty: _PagerDuty, *, seconds: float = SECONDS) -> None:
        self._pagerduty = pagerduty
        self._in_time = InTime("PagerDuty", seconds)

    def notify(self, alert: Alert | Message) -> None:
        """See `Notifier.notify`."""

        def post() -> None:
            service = _resolved(self._pagerduty)
            for event in _events(alert):
                service.EventV2_create(**event)

        try:
            self._in_time.call(post)
        except AlertNotDeliveredError:
            raise
        except Exception as error:  # the library's own errors are not imported here
            raise AlertNotDeliveredError(f"PagerDuty did not take it: {type(error).__name__}") from error


def _resolved(resource: Any) -> Any:
    """A resource whose `dg.EnvVar` are read."""
    process = getattr(resource, "process_config_and_initialize", None)
    return resource if process is None else process()


def _events(alert: Alert | Message) -> list[dict[str, Any]]:
    if isinstance(alert, Message):
        return [
            {
                "summary": f"{row.dataset} {said_of(row)}: {row.text}"[:1024],
                "source": row.uri or row.dataset,
                "severity": severity_of(row.kind),
                "event_action": "resolve" if row.state == "mended" else "trigger",
                "dedup_key": row.key[-255:],
                "component": row.dataset,
                "custom_details": {"what_to_do": RUNBOOK[row.kind]},
            }
            for row in alert.rows
        ]
    check = f":{alert.check}" if isinstance(alert, CheckAlert) else ""
    run = alert.run_id if isinstance(alert, ConflictAlert | FailureAlert) else ""
    passed = isinstance(alert, CheckAlert) and alert.passed
    return [
        {
            "summary": str(alert)[:1024],
            "source": alert.uri,
            "severity": "warning" if isinstance(alert, CheckAlert) and alert.severity == "WARN" else "error",
            "event_action": "resolve" if passed else "trigger",
            "dedup_key": f"lance:{alert.kind}:{alert.dataset}{check}{run}"[-255:],
            "component": alert.dataset,
            "custom_details": {name: str(value) for name, value in alert_to_dict(alert).items()},
        }
    ]
