"""Alerts as values, and who is told: the log, a webhook, or anything with one method."""

import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import ClassVar, Protocol
from urllib.parse import urlsplit

from lance_ops.errors import AlertNotDeliveredError, InvalidArgumentError

_ATTEMPTS = 3
_REQUEST_TIMEOUT_STATUS = 408
_TOO_MANY_REQUESTS_STATUS = 429
_SERVER_ERRORS = 500


@dataclass(frozen=True, slots=True)
class ConflictAlert:
    """A run lost against another writer.

    Attributes:
        dataset: Name of the dataset.
        uri: Where it lies.
        job: Job of the run.
        step: Step that failed.
        run_id: Run that failed.
        conflict: `retryable` (tried as often as allowed), `incompatible`, or `conflict`.
        ours: Our transaction, in one line.
        theirs: The committed transaction that it collides with, in one line.
        version: Version of the other transaction; None when that is not known.
        message: The error as the run's page shows it.
    """

    kind: ClassVar[str] = "conflict"

    dataset: str
    uri: str
    job: str
    step: str
    run_id: str
    conflict: str
    ours: str
    theirs: str
    version: int | None
    message: str

    def __str__(self) -> str:
        return (
            f"{self.conflict} conflict on {self.dataset} in run {self.run_id} of {self.job}: "
            f"ours: {self.ours}; theirs: {self.theirs}"
        )


@dataclass(frozen=True, slots=True)
class CheckAlert:
    """A check on a dataset failed, or passes again.

    Attributes:
        dataset: Name of the dataset.
        uri: Where it lies.
        check: Name of the check.
        passed: It passes again.
        severity: `ERROR` or `WARN`.
        message: Why.
        version: Version that was checked; None when none could be read.
        metadata: Numbers that the verdict rests on.
    """

    kind: ClassVar[str] = "check"

    dataset: str
    uri: str
    check: str
    passed: bool
    severity: str
    message: str
    version: int | None = None
    metadata: Mapping[str, str | int | float | None] = field(default_factory=dict)

    def __str__(self) -> str:
        at = "" if self.version is None else f" at version {self.version}"
        verdict = "passes again" if self.passed else f"failed ({self.severity})"
        return f"check {self.check} on {self.dataset}{at} {verdict}: {self.message}"


Alert = ConflictAlert | CheckAlert


def alert_to_dict(alert: Alert) -> dict[str, object]:
    """All fields as JSON values, with `kind` and one line of `text`."""
    return {"kind": alert.kind, "text": str(alert), **asdict(alert)}


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
        url: `http` or `https`.
        headers: Sent along, e.g. for authorization.
        timeout: Seconds for each attempt.
        pause: Seconds before the second attempt; doubled before the third.
        sleep: Replaces `time.sleep` in tests.

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
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgumentError("a webhook has an http or https URL", field="url")
        # The path of such a URL is often its secret, so messages name the host alone.
        self._host = parts.hostname
        self._url = url
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._timeout = timeout
        self._pause = pause
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"WebhookNotifier({self._host!r})"

    def notify(self, alert: Alert) -> None:
        """See `Notifier.notify`."""
        body = json.dumps(alert_to_dict(alert), default=str).encode()
        reason = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._sleep(self._pause * 2 ** (attempt - 1))
            try:
                self._post(body)
            except urllib.error.HTTPError as error:
                error.close()
                reason = f"status {error.code}"
                if not _is_passing(error.code):
                    break
            except OSError as error:
                reason = str(getattr(error, "reason", error)) or type(error).__name__
            else:
                return
        raise AlertNotDeliveredError(f"the webhook at {self._host} did not take the alert: {reason}")

    def _post(self, body: bytes) -> None:
        request = urllib.request.Request(self._url, body, self._headers, method="POST")  # noqa: S310 - scheme is checked
        with urllib.request.urlopen(request, timeout=self._timeout) as response:  # noqa: S310 - scheme is checked
            response.read()


def _is_passing(status: int) -> bool:
    return status >= _SERVER_ERRORS or status in (_REQUEST_TIMEOUT_STATUS, _TOO_MANY_REQUESTS_STATUS)
