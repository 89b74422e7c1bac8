"""Posting JSON: servers that fail or ask for patience are tried again, redirects are not followed.

Headers with secrets would go wherever a server says, and the alert would not, since what follows a redirect
has no body. The path of such a URL is often its secret, so messages name the host alone.
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from functools import partial
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPMessage,
    HTTPResponse,
    HTTPSConnection,
    InvalidURL,
)
from typing import IO, Any
from urllib.parse import urljoin, urlsplit

from lance_ops.alerts.deadline import Deadline
from lance_ops.errors import AlertNotDeliveredError

_ATTEMPTS = 3
_REQUEST_TIMEOUT_STATUS = 408
_TOO_MANY_REQUESTS_STATUS = 429
_SERVER_ERRORS = 500
_REDIRECTS = (301, 302, 303, 307, 308)


def post_json(
    url: str,
    content: object,
    *,
    headers: Mapping[str, str] | None = None,
    timeout: float = 5.0,
    pause: float = 0.5,
    sleep: Callable[[float], None] = time.sleep,
    what: str = "webhook",
    hint: str | None = None,
) -> None:
    """Post a value as JSON.

    Args:
        url: `http` or `https`.
        content: The value.
        headers: Sent along.
        timeout: Seconds for each attempt, however often the server is heard of in between.
        pause: Seconds before the second attempt; doubled before the third.
        sleep: Replaces `time.sleep` in tests.
        what: Name of the receiver, for messages.
        hint: Where the URL comes from, for messages.

    Raises:
        AlertNotDeliveredError: Nobody took it.
    """
    host = host_of(url)
    if host is None:
        raise AlertNotDeliveredError(f"the {what}'s URL is no http or https URL", hint=hint)
    body = json.dumps(content, default=str).encode()
    sent = {"Content-Type": "application/json", **(headers or {})}
    reason = ""
    for attempt in range(_ATTEMPTS):
        if attempt:
            sleep(pause * 2 ** (attempt - 1))
        try:
            _post(url, body, sent, timeout)
        except urllib.error.HTTPError as error:
            error.close()
            reason = f"status {error.code}"
            if error.code in _REDIRECTS:
                reason = f"it redirects (status {error.code})"
                hint = _redirect_hint(url, error.headers.get("Location", ""))
                break
            if not _is_passing(error.code):
                break
        except (InvalidURL, ValueError):
            # What Python says of such a URL quotes it.
            raise AlertNotDeliveredError(
                f"the {what}'s URL for {host} is malformed",
                hint=hint or "percent-encode what a user, a password or a path has of / : @ or spaces",
            ) from None
        except HTTPException as error:
            reason = type(error).__name__
        except TimeoutError:
            reason = f"no answer within {timeout:g} s"
        except OSError as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
        else:
            return
    raise AlertNotDeliveredError(f"the {what} at {host} did not take the alert: {reason}", hint=hint)


def host_of(url: str) -> str | None:
    """Host of an http or https URL; None when it is something else."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts.hostname if parts.scheme in ("http", "https") else None


def _post(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> None:
    request = urllib.request.Request(url, body, dict(headers), method="POST")  # noqa: S310 - scheme is checked
    with Deadline(timeout) as deadline:
        opener = urllib.request.build_opener(_NoRedirects, _Http(deadline), _Https(deadline))
        try:
            # The status is the answer: what the server says beside it is not waited for.
            opener.open(request, timeout=timeout).close()
        except (OSError, HTTPException) as error:
            if deadline.passed and not isinstance(error, urllib.error.HTTPError):
                raise TimeoutError from error
            raise


class _Connection(HTTPConnection):
    """Is under a deadline from its connection on."""

    deadline: Deadline

    def connect(self) -> None:
        """See `http.client.HTTPConnection.connect`."""
        super().connect()
        self.deadline.watch(self.sock)


class _TLSConnection(HTTPSConnection, _Connection):
    """So with TLS, which is begun on what `_Connection` connected."""


def _under(deadline: Deadline, kind: type[_Connection], host: str, **named: Any) -> _Connection:
    connection = kind(host, **named)
    connection.deadline = deadline
    return connection


class _Http(urllib.request.HTTPHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(partial(_under, self._deadline, _Connection), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(partial(_under, self._deadline, _TLSConnection), req)


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
        host = host_of(urljoin(url, location))
    except ValueError:
        host = None
    where = "that it leads to" if host is None else f"at {host} that it leads to"
    return f"give the URL {where}: redirects are not followed, since the headers would go along"


def _is_passing(status: int) -> bool:
    return status >= _SERVER_ERRORS or status in (_REQUEST_TIMEOUT_STATUS, _TOO_MANY_REQUESTS_STATUS)
