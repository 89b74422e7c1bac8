"""A graph of near rows (HNSW), made from the distances of all pairs."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Floats, Integers
from lance_ops.encoding.kernels.loops import inner, loop, types

_MATRIX = types.Array(types.float32, 2, "C", readonly=True)
_LEVELS = types.Array(types.int64, 1, "C", readonly=True)


@inner(types.boolean(types.float32, types.int32, types.float32, types.int32))
def _is_beyond(far, row, other_far, other):
    """Return whether a row comes behind another one: it is farther, or as far and the later one."""
    return far > other_far or (far == other_far and row > other)


@inner(types.void(types.float32[::1], types.int32[::1], types.int64, types.float32, types.int32))
def _sink(far, rows, count, distance, row):
    """Put an entry in the place of the farthest one of a heap, and restore its order."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        if child + 1 < count and _is_beyond(far[child + 1], rows[child + 1], far[child], rows[child]):
            child += 1
        if not _is_beyond(far[child], rows[child], distance, row):
            break
        far[place], rows[place] = far[child], rows[child]
        place = child
    far[place], rows[place] = distance, row


@inner(
    types.int64(
        types.Array(types.float32, 1, "A", readonly=True),
        types.int32[::1],
        types.int64,
        types.float32[::1],
        types.int32[::1],
    )
)
def _nearest(distances, members, count, far, rows):
    """The nearest of some rows, ascending; how many there are."""
    width = min(count, len(far))
    for place in range(width):
        # A heap with the farthest at its top, made by rising entries.
        distance, row = distances[members[place]], members[place]
        at = place
        while at > 0 and _is_beyond(distance, row, far[(at - 1) // 2], rows[(at - 1) // 2]):
            far[at], rows[at] = far[(at - 1) // 2], rows[(at - 1) // 2]
            at = (at - 1) // 2
        far[at], rows[at] = distance, row
    for place in range(width, count):
        distance = distances[members[place]]
        # One that is as far as the last is later than it.
        if distance < far[0]:
            _sink(far, rows, width, distance, members[place])
    for last in range(width - 1, 0, -1):
        distance, row = far[last], rows[last]
        far[last], rows[last] = far[0], rows[0]
        _sink(far, rows, last, distance, row)
    return width


@inner(
    types.int64(
        _MATRIX,
        types.float32[::1],
        types.int32[::1],
        types.int64,
        types.int64,
        types.int32[::1],
        types.float32[::1],
        types.boolean[::1],
    )
)
def _choose(distances, far, rows, count, width, chosen, lengths, apart):
    """Of rows in their order those that are nearer to the middle than to one another, then the nearest.

    How many are chosen; `chosen`, `lengths` and `apart` are filled with them in their order, how far they
    are, and whether they were chosen for being apart.
    """
    state = np.zeros(count, np.int8)
    found = 0
    for place in range(count):
        if found == width:
            break
        row = rows[place]
        alone = True
        for other in range(found):
            if distances[row, chosen[other]] < far[place]:
                alone = False
                break
        if alone:
            chosen[found] = row
            state[place] = 2
            found += 1
    free = width - found
    for place in range(count):
        if free == 0:
            break
        if state[place] == 0:
            state[place] = 1
            free -= 1
    found = 0
    for place in range(count):
        if state[place] > 0:
            chosen[found] = rows[place]
            lengths[found] = far[place]
            apart[found] = state[place] == 2
            found += 1
    return found


@inner(
    types.int64(
        _MATRIX,
        types.int32[::1],
        types.float32[::1],
        types.boolean[::1],
        types.int64,
        types.int64,
        types.int32,
        types.float32,
    )
)
def _add(distances, held, lengths, apart, count, width, row, far):
    """Add a neighbour to those that a row has, which are in order; of too many, one goes.

    That is the farthest one that is nearer to another one than to the row, or else the farthest. How many
    there are then.
    """
    place = count
    while place > 0 and _is_beyond(lengths[place - 1], held[place - 1], far, row):
        held[place], lengths[place], apart[place] = held[place - 1], lengths[place - 1], apart[place - 1]
        place -= 1
    alone = True
    for other in range(place):
        if apart[other] and distances[row, held[other]] < far:
            alone = False
            break
    held[place], lengths[place], apart[place] = row, far, alone
    count += 1
    if alone:
        for other in range(place + 1, count):
            if apart[other] and distances[row, held[other]] < lengths[other]:
                apart[other] = False
    if count <= width:
        return count
    lost = count - 1
    while lost >= 0 and apart[lost]:
        lost -= 1
    if lost < 0:
        lost = count - 1
    for other in range(lost, count - 1):
        held[other], lengths[other], apart[other] = held[other + 1], lengths[other + 1], apart[other + 1]
    held[count - 1], lengths[count - 1] = -1, 0
    return count - 1


@loop(
    types.void(
        _MATRIX,
        _LEVELS,
        types.int64,
        types.int64,
        types.int64,
        types.int64,
        types.int32[:, ::1],
        types.float32[:, ::1],
    )
)
def _connect(distances, levels, level, fresh, width, candidates, neighbours, lengths):
    rows = distances.shape[0]
    members = np.empty(rows, np.int32)
    counts = np.zeros(rows, np.int64)
    apart = np.zeros((rows, width + 1), np.bool_)
    far = np.empty(candidates, np.float32)
    near = np.empty(candidates, np.int32)
    count = 0
    for row in range(rows):
        if levels[row] < level:
            continue
        found = _nearest(distances[row], members, count, far, near)
        found = _choose(distances, far, near, found, fresh, neighbours[row], lengths[row], apart[row])
        counts[row] = found
        for place in range(found):
            other = neighbours[row, place]
            counts[other] = _add(
                distances,
                neighbours[other],
                lengths[other],
                apart[other],
                counts[other],
                width,
                np.int32(row),
                lengths[row, place],
            )
        members[count] = row
        count += 1


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
    """Connect the rows of a level, in sequence, with those before them.

    A row that comes gets the nearest before it, those first that are nearer to it than to one another, and
    each of these gets it; one that has too many then loses the farthest that is nearer to another of them.

    Args:
        distances: Shape (rows, rows), float32: of all pairs, the same both ways.
        levels: Shape (rows,), int64: the highest level of each row.
        level: Which one is made; rows of lower ones have no place in it.
        fresh: Neighbours that a row is given when it comes, at most `width`.
        width: Neighbours that a row has at most.
        candidates: How many before it are looked at, the nearest; at least one.
        neighbours: Shape (rows, width + 1), int32, all -1: filled from the left, the nearest first.
        lengths: Shape (rows, width + 1), float32: filled with how far these are.
    """
    _connect(distances, levels, level, fresh, width, candidates, neighbours, lengths)
