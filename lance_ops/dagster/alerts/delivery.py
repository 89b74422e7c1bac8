"""Handing alerts to a notifier within the time of a tick; what nobody took waits for a later one."""

import logging
import time
from collections.abc import Callable, Sequence

from lance_ops.alerts.notifier import Notifier
from lance_ops.alerts.values import Alert
from lance_ops.errors import AlertNotDeliveredError

_BUDGET_SECONDS = 20.0
_FAILURES_IN_A_ROW = 3


def deliver(
    alerts: Sequence[Alert],
    notifier: Notifier,
    log: logging.Logger,
    *,
    budget_seconds: float = _BUDGET_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> list[Alert]:
    """Hand over alerts, in order, until the time is up or nobody seems to listen.

    Args:
        alerts: What to tell.
        notifier: Whom.
        log: Where it is said what has to wait.
        budget_seconds: No alert is begun with after this; a tick that takes too long loses its cursor.
        clock: Replaces `time.monotonic` in tests.

    Returns:
        What was not delivered, in the order for the next time: what was refused comes last.
    """
    end = clock() + budget_seconds
    refused: list[Alert] = []
    in_a_row = 0
    for position, alert in enumerate(alerts):
        if in_a_row >= _FAILURES_IN_A_ROW or clock() >= end:
            waiting = list(alerts[position:])
            log.warning("%d more alerts are left to a later tick", len(waiting))
            return waiting + refused
        try:
            notifier.notify(alert)
        except AlertNotDeliveredError as error:
            log.warning("an alert has to wait: %s: %s", error, alert)
        except Exception:  # anybody may write a notifier, and one alert must not keep back the others
            log.exception("an alert has to wait: %s", alert)
        else:
            in_a_row = 0
            continue
        refused.append(alert)
        in_a_row += 1
    return refused
