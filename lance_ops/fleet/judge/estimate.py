"""Estimates of due operations, corrected by the cost of earlier ones."""

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

# Benefit over cost: freed space counts as work at this rate, and this is the minimum time of an operation.
_BYTES_A_SECOND = 64 << 20
_LEAST_SECONDS = 0.01
_DAY = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationEstimate:
    """Estimate of one operation.

    Attributes:
        operation: `ttl`, `compact`, `index` or `cleanup`.
        seconds: Duration.
        bytes: Bytes read and written; for a cleanup, bytes freed.
        requests: Number of requests.
        scan_seconds_saved: Seconds saved by each later full scan.
        bytes_saved: Stored bytes that are freed, at once or with the next cleanup.
    """

    operation: str
    seconds: float = 0.0
    bytes: int = 0
    requests: int = 0
    scan_seconds_saved: float = 0.0
    bytes_saved: int = 0

    @property
    def moved(self) -> int:
        """Bytes read and written, which count against budgets; bytes freed by a cleanup do not."""
        return 0 if self.operation == "cleanup" else self.bytes


@dataclass(frozen=True, slots=True)
class Line:
    """Linear correction of a model's estimate.

    Attributes:
        base: Constant part.
        slope: Factor of the estimate.
    """

    base: float = 0.0
    slope: float = 1.0

    def of(self, raw: float) -> float:
        """Return the corrected value."""
        return self.base + self.slope * raw


@dataclass(frozen=True, slots=True)
class Corrections:
    """Learned corrections of raw estimates, by store and operation.

    Ratio of actual to estimated values: a factor, or a line if its error is smaller; this includes effects
    outside of the model, such as a busy machine. Available after three operations of a store.

    Attributes:
        seconds: Corrections of durations, by store and operation.
        bytes: The same for bytes.
    """

    seconds: Mapping[tuple[str, str], Line] = field(default_factory=dict)
    bytes: Mapping[tuple[str, str], Line] = field(default_factory=dict)

    @classmethod
    def learn(cls, rows: Iterable[OperationRow]) -> "Corrections":
        """Learn from the newest operations.

        Args:
            rows: Operations, oldest first.
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
        """Correct an estimate by earlier operations of the same store and kind."""
        key = (store, estimate.operation)
        return OperationEstimate(
            operation=estimate.operation,
            seconds=self.seconds.get(key, _AS_IT_IS).of(estimate.seconds),
            # A zero estimate stays zero.
            bytes=round(self.bytes.get(key, _AS_IT_IS).of(estimate.bytes)) if estimate.bytes else 0,
            requests=estimate.requests,
            scan_seconds_saved=estimate.scan_seconds_saved,
            bytes_saved=estimate.bytes_saved,
        )


_AS_IT_IS = Line()


def _lines(found: Mapping[tuple[str, str], Sequence[tuple[float, float]]]) -> dict[tuple[str, str], Line]:
    return {key: fit(pairs[-_MOST_SAMPLES:]) for key, pairs in found.items() if len(pairs) >= _LEAST_SAMPLES}


def fit(pairs: Sequence[tuple[float, float]]) -> Line:
    """Fit a line from estimates to actual values by the median of relative errors.

    Candidates are one factor, and, with enough different estimates, the line by the median of all slopes
    (Theil-Sen), which tolerates a third of outliers.

    Args:
        pairs: Estimate and actual value, both above 0.
    """
    raw, done = np.array(pairs, np.float64).T
    # The median of ratios is that of their logarithms: half and double weigh the same.
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
    """Return the benefit of operations per second of work.

    Args:
        estimates: Estimates of all due operations of one dataset.
        reads_per_day: Full scans per day.
        priority: Weight of the dataset.
    """
    saved = sum(item.scan_seconds_saved for item in estimates) * reads_per_day
    freed = sum(item.bytes_saved for item in estimates) / _BYTES_A_SECOND
    # Low index coverage, or too many versions, cost readers more than scan times show.
    other = 0.01 * sum(1 for item in estimates if item.operation in ("index", "cleanup", "ttl"))
    return priority * (saved + freed + other) / max(_LEAST_SECONDS, sum(item.seconds for item in estimates))


def order(looks: Sequence[Look], now: datetime) -> list[Look]:
    """Return datasets in the order of maintenance.

    Args:
        looks: Observations of due datasets.
        now: The time, aware.
    """

    def key(look: Look) -> tuple[bool, float, str]:
        waits = 0.0 if look.due_since is None else (now - look.due_since).total_seconds() / _DAY
        if look.verdict == "overdue":
            return (False, -waits, look.dataset)
        return (True, -look.rank * (1 + max(0.0, waits)), look.dataset)

    return sorted(looks, key=key)
