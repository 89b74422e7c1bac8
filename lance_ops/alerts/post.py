"""JSON over HTTP POST, with retries after server errors and rate limits, without redirects.

A redirect would send headers with secrets to another server, and drop the body. The path of such a URL is
often its secret, so messages contain the host alone.
"""

import re
from collections.abc import Mapping
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import HTTPError, LocationParseError
from urllib3.exceptions import TimeoutError as NoAnswerError

from lance_ops.alerts.in_time import InTime, OutOfTimeError
from lance_ops.errors import AlertNotDeliveredError
from lance_ops.storage.retry import retry

_REQUEST_TIMEOUT_STATUS = 408
_TOO_MANY_REQUESTS_STATUS = 429
_GOOD = range(200, 300)
_REDIRECTS = (301, 302, 303, 307, 308)
_SERVER_ERRORS = 500
_NO_URL = re.compile(r"[^\x21-\x7e]")
_CALLS: dict[str, InTime] = {}


def post_json(
    url: str,
    content: object,
    *,
    headers: Mapping[str, str] | None = None,
    timeout: float = 5.0,
    pause: float = 0.5,
    what: str = "webhook",
    hint: str | None = None,
) -> None:
    """Post a value as JSON.

    Args:
        url: `http` or `https`.
        content: The value.
        headers: Headers of the request.
        timeout: Seconds for each attempt in total, even if the server sends data in between.
        pause: Seconds before the second attempt; doubled before the third.
        what: Name of the receiver, for messages.
        hint: Source of the URL, for messages.

    Raises:
        AlertNotDeliveredError: The server did not accept it, or the URL has another scheme.
    """
    host = host_of(url)
    if host is None:
        raise AlertNotDeliveredError(f"the {what} requires an http or https URL", hint=hint)
    malformed = AlertNotDeliveredError(
        f"the {what}'s URL for {host} is malformed",
        hint=hint or "percent-encode spaces and special characters; user and password belong in a header",
    )
    if _is_malformed(url):
        raise malformed
    sent = {"Content-Type": "application/json", **(headers or {})}
    calls = _CALLS.setdefault(f"{what} {host}", InTime(f"the {what} at {host}"))

    def attempt() -> None:
        try:
            status, location = calls.call(lambda: _post(url, content, sent, timeout), timeout)
        except (OutOfTimeError, NoAnswerError):
            raise _UndeliveredError(f"no answer within {timeout:g} s") from None
        except (LocationParseError, UnicodeError):
            raise malformed from None
        except (HTTPError, OSError) as error:
            raise _UndeliveredError(_reason(error)) from None
        if status in _REDIRECTS:
            redirect = f"it redirects (status {status})"
            raise _UndeliveredError(redirect, _redirect_hint(url, location), may_pass=False)
        if status not in _GOOD:
            raise _UndeliveredError(f"status {status}", may_pass=_is_passing(status))

    try:
        retry(attempt, (pause, 2 * pause), on=_UndeliveredError, when=lambda error: error.may_pass)
    except _UndeliveredError as error:
        raise AlertNotDeliveredError(
            f"the {what} at {host} did not take the alert: {error.reason}", hint=error.hint or hint
        ) from None


class _UndeliveredError(Exception):
    """One attempt failed."""

    def __init__(self, reason: str, hint: str | None = None, *, may_pass: bool = True) -> None:
        self.reason, self.hint, self.may_pass = reason, hint, may_pass


def host_of(url: str) -> str | None:
    """Return the host of an http or https URL; None for other strings."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts.hostname if parts.scheme in ("http", "https") else None


def _is_malformed(url: str) -> bool:
    parts = urlsplit(url)
    try:
        _ = parts.port
    except ValueError:
        return True
    return _NO_URL.search(url) is not None or parts.username is not None


def _post(url: str, content: object, headers: Mapping[str, str], timeout: float) -> tuple[int, str]:
    """Make one attempt; returns the status and the target of a redirect."""
    with _pool(url) as pool:
        # The status decides: the body of the response is not read.
        response = pool.request(
            "POST",
            url,
            json=content,
            headers=dict(headers),
            timeout=timeout,
            retries=False,
            redirect=False,
            preload_content=False,
        )
        response.close()
        return response.status, response.headers.get("Location", "")


def _pool(url: str) -> urllib3.PoolManager:
    """Return connections through the proxy of the environment, if it sets one for the host."""
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    if proxy is None or proxy_bypass(parts.netloc):
        return urllib3.PoolManager()
    user = urlsplit(proxy)
    headers = None
    if user.username is not None:
        credentials = f"{unquote(user.username)}:{unquote(user.password or '')}"
        headers = urllib3.make_headers(proxy_basic_auth=credentials)
    return urllib3.ProxyManager(proxy, proxy_headers=headers)


def _reason(error: BaseException) -> str:
    """Return the root cause: the messages of the library name its own objects."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error) or type(error).__name__


def _redirect_hint(url: str, location: str) -> str:
    """Return a hint about a redirect; its target is shortened to the host, like the webhook."""
    try:
        host = host_of(urljoin(url, location))
    except ValueError:
        host = None
    where = "of its target" if host is None else f"of its target at {host}"
    return f"use the URL {where}: redirects are not followed, since they would receive the headers"


def _is_passing(status: int) -> bool:
    return status >= _SERVER_ERRORS or status in (_REQUEST_TIMEOUT_STATUS, _TOO_MANY_REQUESTS_STATUS)
