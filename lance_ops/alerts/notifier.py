"""Notifiers: log, webhook, or any object with a method `notify`."""

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
        """Deliver one alert, or several with one cause as a message: `str(alert)` is the text of both.

        Raises:
            AlertNotDeliveredError: No recipient got it.
        """
        ...


def check_notifier(value: object, field: str = "notifier") -> None:
    """Check that an object is a notifier, at load time and not at the first incident.

    Args:
        value: The object.
        field: Name of the argument, for the message.

    Raises:
        InvalidArgumentError: It is not a notifier.
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
        raise InvalidArgumentError(f"{shown} is not a notifier", field=field, hint=hint)
    try:
        inspect.signature(value.notify).bind(None)  # type: ignore[attr-defined]  # seen above
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"`notify` of {type(value).__name__} must accept one alert",
            field=field,
            hint="def notify(self, alert): ...",
        ) from None


class LogNotifier:
    """Writes alerts to a logger, as text with the fields as `extra`.

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
    """Posts alerts as JSON (see `alert_to_dict`); retries after server errors and rate limits.

    A redirect is not followed: it would send headers with secrets to another server, and drop the body.

    Args:
        url: `http` or `https`; a `dagster.EnvVar` is read when an alert is sent.
        headers: Headers of the request, e.g. for authorization; values may be `dagster.EnvVar` as well.
        timeout: Seconds for each attempt.
        pause: Seconds before the second attempt; doubled before the third.

    Raises:
        InvalidArgumentError: The URL has another scheme.
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
            raise InvalidArgumentError("a webhook requires an http or https URL", field="url")
        self._url = url
        self._headers = dict(headers or {})
        self._timeout = timeout
        self._pause = pause

    def __repr__(self) -> str:
        # The path of such a URL is often its secret, so messages contain the host alone.
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
    """Return an id that is the same for all attempts of an alert."""
    if isinstance(alert, Message):
        return alert.id
    text = f"{incident_of(alert)}\n{alert.at}\n{is_end(alert)}\n{alert.until}"
    return f"alert-{blake2b(text.encode(), digest_size=12).hexdigest()}"


def is_variable(value: str) -> bool:
    """Return whether a string is Dagster's `EnvVar`, the name of an environment variable."""
    return hasattr(value, "env_var_name")


def _resolved(value: str, what: str) -> str:
    """Return the value, or that of the environment variable."""
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
