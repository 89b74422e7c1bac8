"""Estimates: what each operation that is due takes and brings, corrected by what earlier ones took."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt

from lance_ops.fleet.ledger.rows import Look, OperationRow

_LEAST_SAMPLES = 3
_MOST_SAMPLES = 200
_LEAST_FOR_A_LINE = 8
_LEAST_GAP = 0.05
_WIDEST = 50.0

# Benefit over cost: freed space counts as work at this rate, and a tiny operation as this long.
_BYTES_A_SECOND = 64 << 20
_LEAST_SECONDS = 0.01
_DAY = 86400.0


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
class Line:
    """What a number comes to by what a model says of it.

    Attributes:
        base: What there is of it in any case.
        slope: What each one of the model adds.
    """

    base: float = 0.0
    slope: float = 1.0

    def of(self, raw: float) -> float:
        """What it comes to."""
        return self.base + self.slope * raw


@dataclass(frozen=True, slots=True)
class Corrections:
    """By how much operations of a store miss their raw estimates, as a rule.

    What recent ones took by what the model said: a factor, or a line where that errs less; it learns what the
    model cannot know, such as a busy machine. Known for an operation of a store after three of them.

    Attributes:
        seconds: By store and operation.
        bytes: So, of bytes.
    """

    seconds: Mapping[tuple[str, str], Line] = field(default_factory=dict)
    bytes: Mapping[tuple[str, str], Line] = field(default_factory=dict)

    @classmethod
    def learn(cls, rows: Iterable[OperationRow]) -> "Corrections":
        """Learn from operations, of which the newest count.

        Args:
            rows: Oldest first.
        """
        times: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        sizes: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        for row in rows:
            if row.outcome != "done":
                continue
            key = (row.store, row.operation)
            if row.seconds_raw and row.seconds > 0:
                times[key].append((row.seconds_raw, row.seconds))
            if row.bytes_raw and row.bytes_done > 0:
                sizes[key].append((row.bytes_raw, row.bytes_done))
        return cls(_lines(times), _lines(sizes))

    def apply(self, store: str, estimate: OperationEstimate) -> OperationEstimate:
        """An estimate as operations of its store and kind have taught."""
        key = (store, estimate.operation)
        return OperationEstimate(
            operation=estimate.operation,
            seconds=self.seconds.get(key, _AS_IT_IS).of(estimate.seconds),
            # Where the model says nothing there is nothing.
            bytes=round(self.bytes.get(key, _AS_IT_IS).of(estimate.bytes)) if estimate.bytes else 0,
            requests=estimate.requests,
            scan_seconds_saved=estimate.scan_seconds_saved,
            bytes_saved=estimate.bytes_saved,
        )


_AS_IT_IS = Line()


def _lines(found: Mapping[tuple[str, str], Sequence[tuple[float, float]]]) -> dict[tuple[str, str], Line]:
    return {key: fit(pairs[-_MOST_SAMPLES:]) for key, pairs in found.items() if len(pairs) >= _LEAST_SAMPLES}


def fit(pairs: Sequence[tuple[float, float]]) -> Line:
    """The line that tells best what became of some estimates: by the median of relative errors.

    Candidates are one factor, and, where there are enough estimates that differ, the line by the median of
    all slopes (Theil and Sen), which a third of wild ones does not move.

    Args:
        pairs: What a model said, above 0, and what it was, above 0.
    """
    raw, done = np.array(pairs, np.float64).T
    # The median of ratios is that of their logarithms: twice and half as long weigh the same.
    factor = math.exp(float(np.median(np.log(done / raw))))
    best = Line(0.0, min(max(factor, 1 / _WIDEST), _WIDEST))
    if len(pairs) < _LEAST_FOR_A_LINE:
        return best
    first, second = np.triu_indices(len(raw), 1)
    gaps = raw[second] - raw[first]
    differ = np.abs(gaps) > _LEAST_GAP * np.minimum(raw[first], raw[second])
    if not differ.any():
        return best
    slopes = (done[second] - done[first])[differ] / gaps[differ]
    slope = min(max(0.0, float(np.median(slopes))), _WIDEST)
    line = Line(max(0.0, float(np.median(done - slope * raw))), slope)
    return min(best, line, key=lambda item: _error(item, raw, done))


def _error(line: Line, raw: npt.NDArray[np.float64], done: npt.NDArray[np.float64]) -> float:
    planned = line.base + line.slope * raw
    return float(np.median(np.abs(done - planned) / np.maximum(planned, 1e-12)))


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
