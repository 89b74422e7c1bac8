"""Rank: benefit over cost, so that a budget goes where it helps most; what waits gains weight.

The benefit is time that readers do not lose any more, in seconds a day, and space that is freed, at the price
of a second of work for each 64 MiB. The cost is the time that the work takes. Both are estimates; what waits
weighs more from day to day, and what is overdue comes before everything else, the longest wait first, so that
no dataset starves however small its worth.
"""

from collections.abc import Sequence
from datetime import datetime

from lance_ops.fleet.judge.estimate import OperationEstimate
from lance_ops.fleet.ledger.rows import Look

_BYTES_A_SECOND = 64 << 20
_LEAST_SECONDS = 0.01
_DAY = 86400.0


def benefit_over_cost(
    estimates: Sequence[OperationEstimate], *, reads_per_day: float, priority: float
) -> float:
    """What operations are worth for each second of work.

    Args:
        estimates: Of all that are due on one dataset.
        reads_per_day: Full scans that profit.
        priority: Weight of the dataset.
    """
    saved = sum(item.scan_seconds_saved for item in estimates) * reads_per_day
    freed = sum(item.bytes_saved for item in estimates) / _BYTES_A_SECOND
    # An index that covers little, or too many versions, cost readers what no scan tells.
    other = 0.01 * sum(1 for item in estimates if item.operation in ("index", "cleanup", "ttl"))
    return priority * (saved + freed + other) / max(_LEAST_SECONDS, sum(item.seconds for item in estimates))


def order(looks: Sequence[Look], now: datetime) -> list[Look]:
    """Datasets in the order in which to maintain them.

    Args:
        looks: Of those that are due.
        now: Aware.
    """

    def key(look: Look) -> tuple[bool, float, str]:
        waits = 0.0 if look.due_since is None else (now - look.due_since).total_seconds() / _DAY
        if look.verdict == "overdue":
            return (False, -waits, look.dataset)
        return (True, -look.rank * (1 + max(0.0, waits)), look.dataset)

    return sorted(looks, key=key)
