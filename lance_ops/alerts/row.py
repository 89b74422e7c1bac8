"""AlertRow: one alert of one rule, from when it came up until nothing of it is to be sent any more."""

from dataclasses import dataclass
from datetime import datetime

RULE = "rule"
"""Kind of the row that says since when there is a rule."""

UNTOLD = ("waiting", "passed", "mended")
"""States in which something has still to be sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    """What people are told by one rule, from when it came up until nobody need be told any more.

    Attributes:
        key: Rule, kind, dataset, cause and time.
        rule: Digest of the rule, see `AlertRule.digest_key`.
        at: When it came up.
        dataset: Its name; empty for the row that says since when there is the rule.
        kind: Of `ALERT_KINDS` but `recovered`; `rule` for that row.
        cause: What the same is for alerts that are one message.
        state: `waiting` to be told; `passed`: waiting, and mended by now; `open`: told; `mended`: that it is
            well again waits to be told; `seen`: what is compared with; `over`.
        owner: Who is told; None for nobody in particular.
        uri: Where the dataset is.
        text: Why.
        closed_at: When it was mended.
        told_at: When it was last told.
        message: Id of the message that it is told with; empty before that is put together.
        tries: Attempts that did not arrive.
        error: Of the last one.
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
