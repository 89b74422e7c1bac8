"""Address map: row addresses after a rewrite."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Integers, Words64

_OFFSET_BITS = np.uint64(32)
_OFFSET_MASK = np.uint64(0xFFFF_FFFF)


def follow(
    *,
    addresses: Words64,
    old_ids: Words64,
    old_rows: Integers,
    first_rank: Integers,
    deleted: Words64,
    new_start: Integers,
    new_ids: Words64,
    mapped: Words64,
    kept: npt.NDArray[np.bool_],
) -> int:
    """Map row addresses; see the front."""
    mapped[:], kept[:] = addresses, True
    if not len(addresses) or not len(old_ids):
        return -1
    owners = addresses >> _OFFSET_BITS
    position = np.searchsorted(old_ids, owners)
    position[position == len(old_ids)] = 0
    moved = np.flatnonzero(old_ids[position] == owners)
    position, source = position[moved], addresses[moved]
    offset = (source & _OFFSET_MASK).astype(np.int64)
    outside = np.flatnonzero(offset >= old_rows[position])
    if len(outside):
        return int(moved[outside[0]])
    gone = np.searchsorted(deleted, source)
    begins = np.searchsorted(deleted, old_ids << _OFFSET_BITS)[position]
    if len(deleted):
        kept[moved] = deleted[np.minimum(gone, len(deleted) - 1)] != source
    stays = kept[moved]
    rank = (first_rank[position] + offset - (gone - begins))[stays]
    target = np.searchsorted(new_start, rank, side="right") - 1
    mapped[moved[stays]] = (new_ids[target] << _OFFSET_BITS) | (rank - new_start[target]).astype(np.uint64)
    return -1


def find_outside(*, addresses: Words64, limits: Integers) -> int:
    """Return the first address that no row can have; see the front."""
    owners = addresses >> _OFFSET_BITS
    known = owners < np.uint64(len(limits))
    rows = np.zeros(len(addresses), np.int64)
    rows[known] = limits[owners[known].astype(np.int64)]
    rows[owners == _OFFSET_MASK] = 1 << 32
    outside = np.flatnonzero((addresses & _OFFSET_MASK).astype(np.int64) >= rows)
    return int(outside[0]) if len(outside) else -1
