"""Probes: into how many partitions a search looks before it asks whether it found rows enough.

The peer's figures, as its plans show them (`partitions_searched`): partitions count whose centroids are
hardly farther away than the nearest one, within bounds by metric and by how many rows are wanted.
"""

from bisect import bisect_left
from dataclasses import dataclass

from lance_ops.index.vector.metric import Distances


@dataclass(frozen=True, slots=True)
class _Budget:
    """Partitions to look into.

    Attributes:
        margin: How much farther a centroid may be than the nearest one, as a part of the distance of that.
        least: Partitions at least.
        most: At most; None for all.
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
"""Rows that are wanted, for all but the last of the budgets of a metric."""
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
    """Partitions to look into at first.

    Args:
        metric: Of the index.
        distances: Of all centroids from the query, nearest first; of cosine the squared ones between vectors
            of length one.
        k: Rows that are wanted.
        least: What the user asks for at least.
        most: And at most; None for no bound.
    """
    wanted = len(distances) and max(least, _BUDGETS[metric][bisect_left(_UP_TO, k)].of(distances))
    return min(wanted, len(distances) if most is None else most)
