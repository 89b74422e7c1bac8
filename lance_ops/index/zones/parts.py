"""Parts of an upkeep of zones: what a task found, what of a segment is kept, and rows by their fragment."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lance_ops.index.zones.file import ZoneFile
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.snapshot import Snapshot

# Of a row address: the fragment is above.
OFFSET_BITS, OFFSET_MASK = np.uint64(32), np.uint64(0xFFFF_FFFF)


@dataclass(frozen=True, slots=True)
class FewZones:
    """Result of a task that fits into memory.

    Attributes:
        zones: All of them.
        null_rows: Their null rows, serialized.
    """

    zones: pa.Table
    null_rows: bytes

    def nulls(self, dataset: Snapshot) -> RowSet:
        """See `ZoneFile.nulls`."""
        return RowSet.deserialize(self.null_rows, path=dataset.uri, rows_of=lambda _: 0)

    def batches(self, row_bytes: int) -> Iterator[pa.Table]:
        """See `ZoneFile.batches`."""
        del row_bytes
        yield self.zones


@dataclass(frozen=True, slots=True)
class Kept:
    """Still valid part of a segment.

    Attributes:
        segment: The segment.
        file: Its file.
        owners: Fragments whose zones are kept.
        nulls: Their null rows.
        lost: Fragments whose rows have to be read again: they have rows of others, by a compaction with
            deferred remap, or the writer stored no null rows.
    """

    segment: IndexMetadata
    file: ZoneFile
    owners: frozenset[int]
    nulls: RowSet
    lost: frozenset[int]

    def only(self, fragment_ids: frozenset[int]) -> "Kept":
        """Return the same for some fragments."""
        owners = self.owners & fragment_ids
        return replace(self, owners=owners, nulls=self.nulls.restrict(owners))


def owner_of(rows: pa.Table) -> int:
    """Return the fragment of the first of some rows."""
    return int(rows["ids"][0].as_py()) >> 32


def by_fragment(batches: Iterable[pa.Table]) -> Iterator[tuple[int, pa.Table]]:
    """Yield the same rows, those of each fragment by themselves; with its id."""
    for batch in batches:
        if not batch.num_rows:
            continue
        first, last = owner_of(batch), int(batch["ids"][-1].as_py()) >> 32
        if first == last:
            yield first, batch
            continue
        owners = np.asarray(batch["ids"].to_numpy(), dtype=np.uint64) >> OFFSET_BITS
        cuts = [0, *(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(owners)]
        for start, stop in pairwise(cuts):
            yield int(owners[start]), batch.slice(start, stop - start)
