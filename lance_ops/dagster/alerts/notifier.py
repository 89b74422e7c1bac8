"""Who is told about alerts: the log, a webhook, or anything with one method."""

import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

import dagster as dg

from lance_ops.dagster.alerts.values import Alert, CheckAlert, alert_to_dict
from lance_ops.errors import AlertNotDeliveredError, InvalidArgumentError

_ATTEMPTS = 3
_REQUEST_TIMEOUT_STATUS = 408
_TOO_MANY_REQUESTS_STATUS = 429
_SERVER_ERRORS = 500


class Notifier(Protocol):
    """Whoever is told about alerts."""

    def notify(self, alert: Alert) -> None:
        """Pass on one alert.

        Raises:
            AlertNotDeliveredError: Nobody got it.
        """
        ...


class LogNotifier:
    """Writes alerts to a logger, as text with the fields beside it.

    Args:
        logger: The logger; `lance_ops.alerts` by default.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("lance_ops.alerts")

    def notify(self, alert: Alert) -> None:
        """See `Notifier.notify`."""
        good = isinstance(alert, CheckAlert) and alert.passed
        self._logger.log(
            logging.INFO if good else logging.WARNING, "%s", alert, extra={"alert": alert_to_dict(alert)}
        )


class WebhookNotifier:
    """Posts alerts as JSON (see `alert_to_dict`); servers that fail or ask for patience are tried again.

    Args:
        url: `http` or `https`; a `dg.EnvVar` is read when there is something to tell.
        headers: Sent along, e.g. for authorization; their values may be `dg.EnvVar` as well.
        timeout: Seconds for each attempt.
        pause: Seconds before the second attempt; doubled before the third.
        sleep: Replaces `time.sleep` in tests.

    Raises:
        InvalidArgumentError: The URL is of another kind.
    """

    def __init__(
        self,
        url: str | dg.EnvVar,
        *,
        headers: Mapping[str, str | dg.EnvVar] | None = None,
        timeout: float = 5.0,
        pause: float = 0.5,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not isinstance(url, dg.EnvVar) and _host(url) is None:
            raise InvalidArgumentError("a webhook has an http or https URL", field="url")
        self._url = url
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._timeout = timeout
        self._pause = pause
        self._sleep = sleep

    def __repr__(self) -> str:
        # The path of such a URL is often its secret, so messages name the host alone.
        url = self._url
        shown = f"EnvVar({url.env_var_name!r})" if isinstance(url, dg.EnvVar) else repr(_host(url))
        return f"WebhookNotifier({shown})"

    def notify(self, alert: Alert) -> None:
        """See `Notifier.notify`."""
        url = _resolved(self._url, "the webhook's URL")
        host = _host(url)
        if host is None:
            raise AlertNotDeliveredError("the webhook's URL is no http or https URL", hint=repr(self))
        headers = {name: _resolved(value, f"header {name}") for name, value in self._headers.items()}
        body = json.dumps(alert_to_dict(alert), default=str).encode()
        reason = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._sleep(self._pause * 2 ** (attempt - 1))
            try:
                self._post(url, body, headers)
            except urllib.error.HTTPError as error:
                error.close()
                reason = f"status {error.code}"
                if not _is_passing(error.code):
                    break
            except OSError as error:
                reason = str(getattr(error, "reason", error)) or type(error).__name__
            else:
                return
        raise AlertNotDeliveredError(f"the webhook at {host} did not take the alert: {reason}")

    def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        request = urllib.request.Request(url, body, dict(headers), method="POST")  # noqa: S310 - scheme is checked
        with urllib.request.urlopen(request, timeout=self._timeout) as response:  # noqa: S310 - scheme is checked
            response.read()


def _host(url: str) -> str | None:
    """Host of an http or https URL; None when it is something else."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts.hostname if parts.scheme in ("http", "https") else None


def _resolved(value: str | dg.EnvVar, what: str) -> str:
    """The value, or that of the environment variable that it names."""
    if not isinstance(value, dg.EnvVar):
        return value
    found = value.get_value()
    if not found:
        name = value.env_var_name
        raise AlertNotDeliveredError(
            f"{what} is in the environment variable {name}, which is not set", hint=f"set {name}"
        )
    return found


def _is_passing(status: int) -> bool:
    return status >= _SERVER_ERRORS or status in (_REQUEST_TIMEOUT_STATUS, _TOO_MANY_REQUESTS_STATUS)
