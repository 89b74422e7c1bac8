"""Who is told about alerts: the log, a webhook, or anything with one method."""

import inspect
import logging
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Protocol

from lance_ops.alerts.message import Message
from lance_ops.alerts.post import host_of, post_json
from lance_ops.alerts.values import Alert, alert_to_dict, incident_of, is_end
from lance_ops.errors import AlertNotDeliveredError, InvalidArgumentError


class Notifier(Protocol):
    """A recipient of alerts."""

    def notify(self, alert: Alert | Message) -> None:
        """Pass on one alert, or several with one cause as a message: `str(alert)` is the text of both.

        Raises:
            AlertNotDeliveredError: Nobody got it.
        """
        ...


def check_notifier(value: object, field: str = "notifier") -> None:
    """See that something can take alerts, when the code is loaded and not at the first incident.

    Args:
        value: What shall take them.
        field: Name of the argument, for the message.

    Raises:
        InvalidArgumentError: It cannot.
    """
    if isinstance(value, type) or not callable(getattr(value, "notify", None)):
        shown = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
        hint = "an object with a method `notify(alert)`, e.g. WebhookNotifier(url) or LogNotifier()"
        if isinstance(value, str):
            hint = "write WebhookNotifier(url) for the URL of a webhook"
        elif isinstance(value, type):
            hint = f"create one: {value.__name__}(...)"
        elif callable(value):
            hint = "write a class with a method `notify(alert)` that calls the function"
        raise InvalidArgumentError(f"{shown} cannot take alerts", field=field, hint=hint)
    try:
        inspect.signature(value.notify).bind(None)  # type: ignore[attr-defined]  # seen above
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"`notify` of {type(value).__name__} does not take one alert",
            field=field,
            hint="def notify(self, alert): ...",
        ) from None


class LogNotifier:
    """Writes alerts to a logger, as text with the fields beside it.

    Args:
        logger: The logger; `lance_ops.alerts` by default.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("lance_ops.alerts")

    def notify(self, alert: Alert | Message) -> None:
        """See `Notifier.notify`."""
        if isinstance(alert, Message):
            good, values = alert.recovered, alert.to_dict()
        else:
            good, values = is_end(alert), alert_to_dict(alert)
        self._logger.log(logging.INFO if good else logging.WARNING, "%s", alert, extra={"alert": values})


class WebhookNotifier:
    """Posts alerts as JSON (see `alert_to_dict`); servers that fail or ask for patience are tried again.

    A redirect is not followed: headers with secrets would go wherever a server says, and the alert would not,
    since what follows a redirect has no body.

    Args:
        url: `http` or `https`; a `dagster.EnvVar` is read when there is something to tell.
        headers: Sent along, e.g. for authorization; their values may be `dagster.EnvVar` as well.
        timeout: Seconds for each attempt.
        pause: Seconds before the second attempt; doubled before the third.

    Raises:
        InvalidArgumentError: The URL is of another kind.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = 5.0,
        pause: float = 0.5,
    ) -> None:
        if not is_variable(url) and host_of(url) is None:
            raise InvalidArgumentError("a webhook has an http or https URL", field="url")
        self._url = url
        self._headers = dict(headers or {})
        self._timeout = timeout
        self._pause = pause

    def __repr__(self) -> str:
        # The path of such a URL is often its secret, so messages name the host alone.
        url = self._url
        name: str | None = getattr(url, "env_var_name", None)
        shown = repr(host_of(url)) if name is None else f"EnvVar({name!r})"
        return f"WebhookNotifier({shown})"

    def notify(self, alert: Alert | Message) -> None:
        """See `Notifier.notify`."""
        post_json(
            _resolved(self._url, "the webhook's URL"),
            alert.to_dict() if isinstance(alert, Message) else alert_to_dict(alert),
            headers={"Idempotency-Key": _id_of(alert)}
            | {name: _resolved(value, f"header {name}") for name, value in self._headers.items()},
            timeout=self._timeout,
            pause=self._pause,
            hint=repr(self) if is_variable(self._url) else None,
        )


def _id_of(alert: Alert | Message) -> str:
    """The same however often an alert is sent."""
    if isinstance(alert, Message):
        return alert.id
    text = f"{incident_of(alert)}\n{alert.at}\n{is_end(alert)}\n{alert.until}"
    return f"alert-{blake2b(text.encode(), digest_size=12).hexdigest()}"


def is_variable(value: str) -> bool:
    """Whether a text is Dagster's `EnvVar`, a name of an environment variable in the type of a text."""
    return hasattr(value, "env_var_name")


def _resolved(value: str, what: str) -> str:
    """The value, or that of the environment variable that it names."""
    if not is_variable(value):
        return value
    variable: Any = value
    found = str(variable.get_value() or "")
    if not found:
        name = variable.env_var_name
        raise AlertNotDeliveredError(
            f"{what} is in the environment variable {name}, which is not set", hint=f"set {name}"
        )
    return found
