"""Estimates: what each operation that is due takes and brings, corrected by what earlier ones took."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lance_ops.fleet.ledger.rows import OperationRow

_LEAST_SAMPLES = 3
_MOST_SAMPLES = 200
_WIDEST = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationEstimate:
    """One operation.

    Attributes:
        operation: `ttl`, `compact`, `index` or `cleanup`.
        seconds: That it takes.
        bytes: That it reads and writes; of a cleanup, that it frees.
        requests: That it makes.
        scan_seconds_saved: What each full scan is faster by afterwards.
        bytes_saved: Stored bytes that go, at once or with the next cleanup.
    """

    operation: str
    seconds: float = 0.0
    bytes: int = 0
    requests: int = 0
    scan_seconds_saved: float = 0.0
    bytes_saved: int = 0

    @property
    def moved(self) -> int:
        """Bytes read and written, which budgets count; those that a cleanup frees are neither."""
        return 0 if self.operation == "cleanup" else self.bytes


@dataclass(frozen=True, slots=True)
class Corrections:
    """By how much operations of a store miss their raw estimates, as a rule.

    The median of what recent ones took over what the model said; it learns what the model cannot know, such
    as a busy machine. Known for an operation of a store after three of them.

    Attributes:
        seconds: Factors by store and operation.
        bytes: So, of bytes.
    """

    seconds: Mapping[tuple[str, str], float] = field(default_factory=dict)
    bytes: Mapping[tuple[str, str], float] = field(default_factory=dict)

    @classmethod
    def learn(cls, rows: Iterable[OperationRow]) -> "Corrections":
        """Learn from operations, of which the newest count.

        Args:
            rows: Oldest first.
        """
        times: dict[tuple[str, str], list[float]] = defaultdict(list)
        sizes: dict[tuple[str, str], list[float]] = defaultdict(list)
        for row in rows:
            if row.outcome != "done":
                continue
            key = (row.store, row.operation)
            if row.seconds_raw and row.seconds > 0:
                times[key].append(row.seconds / row.seconds_raw)
            if row.bytes_raw and row.bytes_done > 0:
                sizes[key].append(row.bytes_done / row.bytes_raw)
        return cls(_factors(times), _factors(sizes))

    def apply(self, store: str, estimate: OperationEstimate) -> OperationEstimate:
        """An estimate with the factors of its store and operation."""
        key = (store, estimate.operation)
        return OperationEstimate(
            operation=estimate.operation,
            seconds=estimate.seconds * self.seconds.get(key, 1.0),
            bytes=round(estimate.bytes * self.bytes.get(key, 1.0)),
            requests=estimate.requests,
            scan_seconds_saved=estimate.scan_seconds_saved,
            bytes_saved=round(
                estimate.bytes_saved * (self.bytes.get(key, 1.0) if estimate.operation == "cleanup" else 1.0)
            ),
        )


def _factors(found: Mapping[tuple[str, str], list[float]]) -> dict[tuple[str, str], float]:
    factors: dict[tuple[str, str], float] = {}
    for key, ratios in found.items():
        if len(ratios) >= _LEAST_SAMPLES:
            # The median of ratios is that of their logarithms: twice and half as long weigh the same.
            middle = math.exp(statistics.median(map(math.log, ratios[-_MOST_SAMPLES:])))
            factors[key] = min(max(middle, 1 / _WIDEST), _WIDEST)
    return factors
