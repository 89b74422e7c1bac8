"""The rows that a segment of row sets names: which there can be, where they are now, which it answers for."""

import numpy as np
import numpy.typing as npt

from lance_ops.index.bitmap.row_sets import Locate
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.reading import current_addresses
from lance_ops.index.row_ids import live_row_ids
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_address_map import AddressMap
from lance_ops.table.manifest.row_set import Addresses, RowSet
from lance_ops.table.snapshot import Snapshot


def covered_rows(dataset: Snapshot, segment: IndexMetadata, *, has_addresses: bool) -> Locate:
    """Keeps the rows of fragments that the segment covers now: others are dead, or another segment's."""
    covered = effective_fragments(dataset.manifest, segment)
    if has_addresses:
        owners = np.array(sorted(covered), np.uint64)

        def locate(addresses: Addresses) -> tuple[Addresses, npt.NDArray[np.bool_]]:
            moved, kept = current_addresses(dataset, segment, addresses)
            return moved, kept & np.isin(moved >> np.uint64(32), owners)

        return locate
    live = live_row_ids(dataset, covered)

    def find(ids: Addresses) -> tuple[Addresses, npt.NDArray[np.bool_]]:
        return ids, np.isin(ids, (RowSet.of(ids) & live).addresses())

    return find


def rewritten_rows(dataset: Snapshot, segment: IndexMetadata, moves: AddressMap) -> Locate:
    """Function that maps rows through the fragment reuse index, and through a rewrite on top of it."""

    def locate(addresses: Addresses) -> tuple[Addresses, npt.NDArray[np.bool_]]:
        current, there = current_addresses(dataset, segment, addresses)
        if there.all():
            return moves.map(current)
        moved, kept = moves.map(np.where(there, current, np.uint64(0)))
        return moved, there & kept

    return locate
