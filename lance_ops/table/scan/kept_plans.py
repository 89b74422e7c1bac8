"""Plan cache: plans of the most recent scans of a dataset, for repeated queries."""

from collections import OrderedDict
from collections.abc import Callable

from lance_ops.storage.fork_safe import new_lock
from lance_ops.table.scan.plan import ScanPlan

_MOST = 16
_MOST_ROWS = 1 << 16
"""Maximum candidates of a cached plan, of four bytes each."""
_MOST_FRAGMENTS = 1 << 10
"""Maximum fragments of a cached plan, each of some hundred bytes."""


class KeptPlans:
    """Cache of plans of one version, by identity of their inputs: columns, a filter, answers of indices."""

    def __init__(self) -> None:
        self._plans: OrderedDict[tuple[int, ...], tuple[tuple[object, ...], ScanPlan]] = OrderedDict()
        self._lock = new_lock()

    def get(self, asked: tuple[object, ...], make: Callable[[], ScanPlan]) -> ScanPlan:
        """Return the plan of a query, computed if it is not cached.

        Args:
            asked: All inputs of the plan besides the version; immutable.
            make: Computes the plan.
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
                # The inputs are cached too, because an identity is unique only while its object lives.
                self._plans[key] = asked, plan
                while len(self._plans) > _MOST:
                    self._plans.popitem(last=False)
        return plan
