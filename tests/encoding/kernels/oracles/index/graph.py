"""A graph of near rows (HNSW), made from the distances of all pairs."""

from bisect import insort

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Floats, Integers


def connect(
    *,
    distances: Floats,
    levels: Integers,
    level: int,
    fresh: int,
    width: int,
    candidates: int,
    neighbours: npt.NDArray[np.int32],
    lengths: Floats,
) -> None:
    """Connect the rows of a level, in sequence, with those before them."""
    lists: dict[int, list[tuple[float, int]]] = {}
    alone: dict[int, set[int]] = {}
    for row in np.flatnonzero(levels >= level).tolist():
        before = np.fromiter(lists, np.int64, len(lists))
        far = distances[row, before]
        order = np.lexsort((before, far))[:candidates]
        near = list(zip(far[order].tolist(), before[order].tolist(), strict=True))
        alone[row] = _apart(distances, near, fresh)
        rest = [one for _, one in near if one not in alone[row]][: fresh - len(alone[row])]
        lists[row] = [(length, one) for length, one in near if one in alone[row] or one in rest]
        for length, other in lists[row]:
            _add(distances, lists[other], alone[other], width, row, length)
    for row, found in lists.items():
        neighbours[row, : len(found)] = [one for _, one in found]
        lengths[row, : len(found)] = [length for length, _ in found]


def _apart(distances: Floats, near: list[tuple[float, int]], most: int) -> set[int]:
    """Return those that are nearer to the middle than to one another, the nearest first."""
    found: list[int] = []
    for length, one in near:
        if len(found) < most and not any(distances[one, other] < length for other in found):
            found.append(one)
    return set(found)


def _add(
    distances: Floats, held: list[tuple[float, int]], alone: set[int], width: int, row: int, length: float
) -> None:
    """Add a neighbour to those that a row has; of too many, one goes."""
    nearer = [one for far, one in held if (far, one) < (length, row) and one in alone]
    if not any(distances[row, one] < length for one in nearer):
        alone -= {one for far, one in held if (far, one) > (length, row) and distances[row, one] < far}
        alone.add(row)
    insort(held, (length, row))
    if len(held) > width:
        crowded = [entry for entry in held if entry[1] not in alone]
        lost = crowded[-1] if crowded else held[-1]
        held.remove(lost)
        alone.discard(lost[1])
