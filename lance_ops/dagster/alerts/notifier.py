"""Who is told about alerts: the log, a webhook, or anything with one method."""

import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPMessage
from typing import IO, Protocol
from urllib.parse import urljoin, urlsplit

import dagster as dg

from lance_ops.dagster.alerts.values import Alert, CheckAlert, alert_to_dict
from lance_ops.errors import AlertNotDeliveredError, InvalidArgumentError

_ATTEMPTS = 3
_REQUEST_TIMEOUT_STATUS = 408
_TOO_MANY_REQUESTS_STATUS = 429
_SERVER_ERRORS = 500
_REDIRECTS = (301, 302, 303, 307, 308)


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

    A redirect is not followed: headers with secrets would go wherever a server says, and the alert would not,
    since what follows a redirect has no body.

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
        reason, hint = "", None
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._sleep(self._pause * 2 ** (attempt - 1))
            try:
                self._post(url, body, headers)
            except urllib.error.HTTPError as error:
                error.close()
                reason = f"status {error.code}"
                if error.code in _REDIRECTS:
                    reason, hint = (
                        f"it redirects (status {error.code})",
                        _redirect_hint(url, error.headers.get("Location", "")),
                    )
                    break
                if not _is_passing(error.code):
                    break
            except OSError as error:
                reason = str(getattr(error, "reason", error)) or type(error).__name__
            else:
                return
        raise AlertNotDeliveredError(f"the webhook at {host} did not take the alert: {reason}", hint=hint)

    def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        request = urllib.request.Request(url, body, dict(headers), method="POST")  # noqa: S310 - scheme is checked
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=self._timeout) as response:
            response.read()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Leaves redirects to the handler of errors, whatever the place to which they lead."""

    def http_error_302(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage
    ) -> None:
        """See `urllib.request.HTTPRedirectHandler.http_error_302`."""

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _redirect_hint(url: str, location: str) -> str:
    """What to do about a redirect; of the place to which it leads no more is told than of the webhook."""
    try:
        host = _host(urljoin(url, location))
    except ValueError:
        host = None
    where = "that it leads to" if host is None else f"at {host} that it leads to"
    return f"give the URL {where}: redirects are not followed, since the headers would go along"


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
