"""Probes: number of partitions that a search reads before it checks whether it has enough rows.

Pylance's figures, as its plans show them (`partitions_searched`): partitions whose centroids are almost as
near as the nearest one, within bounds by metric and `k`.
"""

from bisect import bisect_left
from dataclasses import dataclass

from lance_ops.index.vector.metric import Distances


@dataclass(frozen=True, slots=True)
class _Budget:
    """Partitions to search.

    Attributes:
        margin: Maximum relative distance of a centroid beyond the nearest one.
        least: Minimum partitions.
        most: Maximum; None for all.
    """

    margin: float
    least: int
    most: int | None

    def of(self, distances: Distances) -> int:
        nearest = float(distances[0])
        near = int((distances <= nearest + self.margin * abs(nearest)).sum())
        return max(self.least, near if self.most is None else min(near, self.most))


def _always(partitions: int) -> _Budget:
    return _Budget(0.0, partitions, partitions)


_UP_TO = (1, 10, 100, 200, 500, 1000)
"""Values of `k` for all but the last of the budgets of a metric."""
_BUDGETS = {
    "l2": (
        _Budget(0.2175, 5, 19),
        _Budget(0.265, 6, 24),
        _Budget(0.33, 11, 38),
        _Budget(0.375, 15, 56),
        _Budget(0.3725, 22, 81),
        _Budget(0.4175, 29, 93),
        _Budget(0.57, 98, 238),
    ),
    "cosine": (
        _Budget(0.235, 3, 50),
        _Budget(0.2875, 8, 77),
        _Budget(0.38, 7, 106),
        _Budget(0.415, 18, 156),
        _Budget(0.45, 28, 192),
        _Budget(0.47, 34, 248),
        _Budget(0.6475, 104, 447),
    ),
    "dot": tuple(_always(partitions) for partitions in (56, 144, 200, 211, 244, 279, 517)),
    "hamming": (_Budget(-0.4, 1, None), _Budget(6.0, 1, None), *(_Budget(80.0, 1, None),) * 5),
}


def first_probes(metric: str, distances: Distances, k: int, least: int, most: int | None) -> int:
    """Return the number of partitions to search first.

    Args:
        metric: Of the index.
        distances: Of all centroids from the query, nearest first; of cosine the squared ones between vectors
            of length one.
        k: Rows to find.
        least: Minimum given by the user.
        most: Maximum given by the user; None for no limit.
    """
    wanted = len(distances) and max(least, _BUDGETS[metric][bisect_left(_UP_TO, k)].of(distances))
    return min(wanted, len(distances) if most is None else most)
