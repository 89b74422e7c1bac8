"""Plans of the scans of a dataset that were asked for last, for who asks the same again."""

from collections import OrderedDict
from collections.abc import Callable

from lance_ops.storage.fork_safe import new_lock
from lance_ops.table.scan.plan import ScanPlan

_MOST = 16
_MOST_ROWS = 1 << 16
"""Candidates of a plan that is kept, of four bytes each."""
_MOST_FRAGMENTS = 1 << 10
"""Fragments of one, each of some hundred bytes."""


class KeptPlans:
    """What follows from one version and from these very objects: columns, a filter, answers of indices."""

    def __init__(self) -> None:
        self._plans: OrderedDict[tuple[int, ...], tuple[tuple[object, ...], ScanPlan]] = OrderedDict()
        self._lock = new_lock()

    def get(self, asked: tuple[object, ...], make: Callable[[], ScanPlan]) -> ScanPlan:
        """The plan of a question, made if it is not kept.

        Args:
            asked: All that the plan follows from, besides the version; none of it ever changes.
            make: Makes the plan.
        """
        key = tuple(map(id, asked))
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
                return found[1]
        plan = make()
        if len(plan.fragments) <= _MOST_FRAGMENTS and plan.candidates <= _MOST_ROWS:
            with self._lock:
                # With what was asked: an identity is that of one object only while it lives.
                self._plans[key] = asked, plan
                while len(self._plans) > _MOST:
                    self._plans.popitem(last=False)
        return plan
