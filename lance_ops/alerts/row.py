"""AlertRow: delivery state of one alert for one rule."""

from dataclasses import dataclass
from datetime import datetime

RULE = "rule"
"""Kind of the row that records the creation of a rule."""

UNTOLD = ("waiting", "passed", "mended")
"""States with something left to send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    """Delivery state of one alert for one rule.

    Attributes: key: Rule, kind, dataset, cause and time. rule: Digest of the rule, see
    `AlertRule.digest_key`. at: Time of the alert. dataset: Its name; empty for the row that records the
    creation of the rule. kind: Of `ALERT_KINDS` but `recovered`; `rule` for that row. cause: Alerts with an
    equal cause are one message. state: `waiting`: to be sent; `passed`: to be sent, already resolved; `open`:
    sent; `mended`: resolved, the recovery is to be sent; `seen`: reference for comparisons; `over`. owner:
    Recipient; None without one. uri: URI of the dataset. text: Reason. closed_at: Time of the recovery.
    told_at: Time of the last delivery. message: Id of its message; empty before there is one. tries: Failed
    attempts. error: Of the last attempt.
    """

    key: str
    rule: str
    at: datetime
    dataset: str
    kind: str
    cause: str = ""
    state: str = "waiting"
    owner: str | None = None
    uri: str = ""
    text: str = ""
    closed_at: datetime | None = None
    told_at: datetime | None = None
    message: str = ""
    tries: int = 0
    error: str = ""
