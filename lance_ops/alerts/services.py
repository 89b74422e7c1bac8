"""Slack and PagerDuty through Dagster's own libraries, with existing Dagster resources.

The libraries are extras of their own (`lance-ops[slack]`, `lance-ops[pagerduty]`); callers pass their
resources, so nothing of them is imported here. They have no total time limit, so this module sets one: an
alert to a server that hangs fails after ten seconds, and is sent again later.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from lance_ops.alerts.channels import pagerduty_actions
from lance_ops.alerts.in_time import SECONDS, InTime
from lance_ops.alerts.message import Message, said_of
from lance_ops.alerts.texts import severity_of
from lance_ops.alerts.values import Alert, alert_to_dict, incident_of, is_end
from lance_ops.errors import AlertNotDeliveredError, InvalidArgumentError


class _Slack(Protocol):
    def get_client(self) -> Any: ...


class _PagerDuty(Protocol):
    def EventV2_create(self, **values: Any) -> Any: ...  # noqa: N802 - the library's name


class SlackNotifier:
    """Posts alerts to a channel.

    Args:
        slack: `dagster_slack.SlackResource`; its token may be a `dg.EnvVar`.
        channel: Name or id, or a mapping from owners to channels, with None for all other owners.
        seconds: Time limit of an attempt. The alert may have arrived: then the retry is a duplicate.
    """

    def __init__(
        self, slack: _Slack, channel: str | Mapping[str | None, str], *, seconds: float = SECONDS
    ) -> None:
        if not hasattr(slack, "get_client"):
            raise InvalidArgumentError(
                f"SlackNotifier needs a SlackResource, got {_named(slack)}",
                field="slack",
                hint='SlackNotifier(SlackResource(token=dg.EnvVar("SLACK_TOKEN")), "#channel")',
            )
        if not channel or not (isinstance(channel, str) or all(channel.values())):
            raise InvalidArgumentError(
                "SlackNotifier requires a channel", field="channel", hint='e.g. "#data"'
            )
        self._slack = slack
        self._channel = channel
        self._in_time = InTime("Slack", seconds)

    def notify(self, alert: Alert | Message) -> None:
        """See `Notifier.notify`."""
        owners = (alert.owner,) if isinstance(alert, Message) else alert.owners
        channel = self._channel if isinstance(self._channel, str) else self._of(self._channel, owners)
        text = str(alert).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

        def post() -> None:
            # Slack would fetch the URLs in a text to preview them.
            _resolved(self._slack).get_client().chat_postMessage(
                channel=channel, text=text, unfurl_links=False, unfurl_media=False
            )

        try:
            self._in_time.call(post)
        except AlertNotDeliveredError:
            raise
        except Exception as error:  # the library's exceptions are not imported here
            raise AlertNotDeliveredError(f"Slack did not accept the alert: {type(error).__name__}") from error

    @staticmethod
    def _of(channels: Mapping[str | None, str], owners: Sequence[str | None]) -> str:
        found = next((channels[owner] for owner in owners if owner in channels), channels.get(None))
        if found is None:
            named = ", ".join(filter(None, owners)) or "datasets without owner"
            raise AlertNotDeliveredError(f"no Slack channel for {named}")
        return found


class PagerDutyNotifier:
    """Triggers an incident for each dataset and cause, and resolves it.

    Args:
        pagerduty: `dagster_pagerduty.PagerDutyService`; its routing key may be a `dg.EnvVar`.
        seconds: Time limit of an attempt; PagerDuty recognizes a duplicate by its key.
    """

    def __init__(self, pagerduty: _PagerDuty, *, seconds: float = SECONDS) -> None:
        if not hasattr(pagerduty, "EventV2_create"):
            raise InvalidArgumentError(
                f"PagerDutyNotifier needs a PagerDutyService, got {_named(pagerduty)}",
                field="pagerduty",
                hint='PagerDutyNotifier(PagerDutyService(routing_key=dg.EnvVar("PAGERDUTY_KEY")))',
            )
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
        except Exception as error:  # the library's exceptions are not imported here
            raise AlertNotDeliveredError(
                f"PagerDuty did not accept the alert: {type(error).__name__}"
            ) from error


def _named(value: object) -> str:
    # A text may be a token.
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def _resolved(resource: Any) -> Any:
    """Return a resource with its `dg.EnvVar` values read."""
    process = getattr(resource, "process_config_and_initialize", None)
    return resource if process is None else process()


def _events(alert: Alert | Message) -> list[dict[str, Any]]:
    if isinstance(alert, Message):
        return [
            {
                "summary": f"{row.dataset} {said_of(row)}: {row.text}"[:1024],
                "source": row.uri or row.dataset,
                "severity": severity_of(row.kind),
                "event_action": action,
                "dedup_key": alert.incident_of(row),
                "component": row.dataset,
                "custom_details": {
                    "what_to_do": alert.advice_for(row),
                    "links": " ".join(alert.links_of(row)),
                },
            }
            for row in alert.rows
            for action in pagerduty_actions(row)
        ]
    # An alert that ended before it was sent is triggered and resolved: no later event would resolve it.
    actions = ("resolve",) if is_end(alert) else ("trigger", "resolve") if alert.until else ("trigger",)
    return [
        {
            "summary": alert.title[:1024],
            "source": alert.uri,
            "severity": severity_of(alert.rule_kind),
            "event_action": action,
            "dedup_key": incident_of(alert),
            "component": alert.dataset,
            "custom_details": {name: str(value) for name, value in alert_to_dict(alert).items()},
        }
        for action in actions
    ]
