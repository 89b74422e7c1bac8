"""Locations of the rows of a segment, and which of them a search may return."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import IndexKind
from lance_ops.index.reading import check_addresses, check_rows, current_addresses, reading
from lance_ops.index.row_ids import locate_row_ids
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import Addresses, RowSet
from lance_ops.table.scan.pruner import OFFSET_BITS
from lance_ops.table.snapshot import Snapshot

Mask = npt.NDArray[np.bool_]

_FEW_ROWS = 1 << 12


def current_rows(
    dataset: Snapshot, segment: IndexMetadata, kind: IndexKind, rows: RowSet, fragments: frozenset[int]
) -> RowSet:
    """Return the current addresses of rows of a segment.

    Deleted rows may be among them.

    Args:
        dataset: The version.
        segment: One of its `indices`.
        kind: Its kind.
        rows: Rows as stored in the segment.
        fragments: Fragments that it still covers: rows of others are dropped.

    Raises:
        CorruptFileError: the segment has impossible rows.
    """
    if not kind.holds_addresses(segment, stable_row_ids=dataset.manifest.uses_stable_row_ids):
        addresses, kept = locate_row_ids(dataset, segment, fragments, rows.addresses())
    elif dataset.fragment_reuse is None:
        check_rows(dataset.manifest, rows, segment.directory)
        return rows.restrict(fragments)
    else:
        found = rows.addresses()
        check_addresses(dataset.manifest, found, segment.directory)
        addresses, kept = current_addresses(dataset, segment, found)
    # Rows of fragments that left the segment's coverage are dead, or another segment's business.
    return RowSet.of(addresses[kept]).restrict(fragments)


@dataclass(frozen=True, slots=True)
class RowLocator:
    """A `scored.Locate`: rows that are deleted, not covered any more or not wanted do not count.

    Attributes:
        dataset: The version that is searched.
        segment: Whose rows are located.
        kind: Its kind.
        wanted: The only rows that count; all that are live when None.
    """

    dataset: Snapshot
    segment: IndexMetadata
    kind: IndexKind
    wanted: RowSet | None = None
    _counting: dict[int, Mask] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, rows: Addresses) -> tuple[Addresses, Mask]:
        """See `scored.Locate`.

        Raises:
            UnreadableIndexError: the segment names rows that cannot be.
        """
        with reading(self.segment):
            return self._locate(rows)

    def _locate(self, rows: Addresses) -> tuple[Addresses, Mask]:
        dataset, segment = self.dataset, self.segment
        covered = effective_fragments(dataset.manifest, segment)
        if self.kind.holds_addresses(segment, stable_row_ids=dataset.manifest.uses_stable_row_ids):
            check_addresses(dataset.manifest, rows, segment.directory)
            addresses, kept = current_addresses(dataset, segment, rows)
        else:
            addresses, kept = locate_row_ids(dataset, segment, covered, rows)
        owners = addresses >> np.uint64(OFFSET_BITS)
        offsets = addresses & np.uint64((1 << OFFSET_BITS) - 1)
        all_kept = bool(kept.all())
        named = np.unique(owners if all_kept else owners[kept]).tolist()
        if self.wanted is not None and len(rows) <= _FEW_ROWS:
            return addresses, self._count_wanted(self.wanted, addresses, kept, covered)
        masks = {owner: self._mask(owner) for owner in named if owner in covered}
        if all_kept and len(masks) == len(named) and all(mask is None for mask in masks.values()):
            return addresses, np.ones(len(rows), np.bool_)
        counts = np.zeros(len(rows), np.bool_)
        for owner, mask in masks.items():
            here = kept & (owners == owner)
            counts[here] = True if mask is None else mask[offsets[here]]
        return addresses, counts

    def _count_wanted(
        self, wanted: RowSet, addresses: Addresses, kept: Mask, covered: frozenset[int]
    ) -> Mask:
        """Return which of a few rows count: the rows of whole fragments need not be marked for them."""
        found = (RowSet.of(addresses[kept]) & wanted).restrict(covered)
        parts: dict[int, BitMap] = {}
        for owner, offsets in found.items():
            deleted = self.dataset.deletion_vector(self.dataset.fragments_by_id[owner])
            if deleted is not None:
                numbers = np.frombuffer(offsets.to_array(), np.uint32)
                first = int(numbers[0])
                gone = deleted.mask(first, int(numbers[-1]) + 1)[numbers - first]
                offsets = BitMap(numbers[~gone])
            parts[owner] = offsets
        return kept & np.isin(addresses, RowSet(parts).addresses())

    def _mask(self, fragment_id: int) -> Mask | None:
        """Return which rows of a fragment count; None if all do."""
        if fragment_id not in self._counting:
            fragment = self.dataset.fragments_by_id[fragment_id]
            deleted = self.dataset.deletion_vector(fragment)
            if deleted is None and self.wanted is None:
                return None
            mask = np.ones(fragment.physical_rows, np.bool_)
            if deleted is not None:
                mask = ~deleted.mask(0, fragment.physical_rows)
            if self.wanted is not None:
                named = np.frombuffer(self.wanted.offsets_in(fragment_id).to_array(), np.uint32)
                wanted = np.zeros(fragment.physical_rows, np.bool_)
                wanted[named[named < fragment.physical_rows]] = True
                mask &= wanted
            self._counting[fragment_id] = mask
        return self._counting[fragment_id]
