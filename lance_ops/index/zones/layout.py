"""Zone layout: the rows of each zone of a segment, and a check that they cover all its fragments."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from lance_ops.errors import CorruptFileError
from lance_ops.table.manifest.fragments.totals import live_rows_by_id
from lance_ops.table.manifest.row_set import Addresses, RowSet
from lance_ops.table.snapshot import Snapshot

ZONE_FIELDS = (
    pa.field("fragment_id", pa.uint64(), nullable=False),
    pa.field("zone_start", pa.uint64(), nullable=False),
    pa.field("zone_length", pa.uint64(), nullable=False),
)
"""Columns that every file of zones has: rows from `zone_start` on, deleted ones included."""

_OFFSET_BITS = np.uint64(32)
_MOST_OFFSET = 1 << 32
_PART_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class ZoneLayout:
    """The rows of zones, one entry a zone.

    Attributes:
        owners: Fragment ids, uint64.
        starts: Offset of the first row, uint64.
        lengths: Rows from there on, uint64.
        path: The file they are from, for errors.
        counts_live_rows: True if the writer may have counted live rows only and placed zones as if there were
            no others, as pylance before 1.0 did: zones that end before their fragment are not where they say.
    """

    owners: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint64]
    path: str
    counts_live_rows: bool = False

    @classmethod
    def of(cls, zones: pa.Table, path: str, *, counts_live_rows: bool = False) -> "ZoneLayout":
        """Read the columns of `ZONE_FIELDS` from a table; see the attributes for the rest.

        Raises:
            CorruptFileError: The position of a zone is out of range or missing.
        """
        for field in ZONE_FIELDS:
            if zones[field.name].null_count:
                raise CorruptFileError("a zone without a place", path=path, field=field.name)
        columns = [np.asarray(zones[field.name].to_numpy(), dtype=np.uint64) for field in ZONE_FIELDS]
        owners, starts, lengths = columns
        if (
            any((column >= _MOST_OFFSET).any() for column in columns)
            or (starts + lengths > _MOST_OFFSET).any()
        ):
            raise CorruptFileError("zone start is out of range", path=path, field="zone_start")
        return cls(owners, starts, lengths, path, counts_live_rows)

    @property
    def fragment_ids(self) -> frozenset[int]:
        """Fragments that zones are of."""
        return frozenset(np.unique(self.owners).tolist())

    def rows(self, chosen: npt.NDArray[np.bool_]) -> RowSet:
        """Return all rows of some zones."""
        return RowSet.of_ranges(
            zip(
                self.owners[chosen].tolist(),
                self.starts[chosen].tolist(),
                (self.starts + self.lengths)[chosen].tolist(),
                strict=True,
            )
        )

    def addresses(self, dataset: Snapshot) -> Iterator[Addresses]:
        """Yield all rows of the zones of fragments that exist, or whose rows compactions have moved."""
        known = _physical_rows(dataset)
        for owner, start, length in zip(
            self.owners.tolist(), self.starts.tolist(), self.lengths.tolist(), strict=True
        ):
            if owner not in known:
                continue
            self._check_end(owner, start + length, known[owner])
            first = owner << int(_OFFSET_BITS)
            for at in range(start, start + length, _PART_ROWS):
                yield np.arange(first + at, first + min(at + _PART_ROWS, start + length), dtype=np.uint64)

    def check(self, dataset: Snapshot, covered: frozenset[int]) -> None:
        """Check that each live row of the covered fragments is in a zone, at its current or former position.

        Raises:
            CorruptFileError: One does not, or a zone exceeds the last row of its fragment: using the zones
                could lose rows.
        """
        gaps = self._gaps(dataset, covered | self.fragment_ids)
        own = self.fragment_ids
        for fragment in dataset.fragments:
            if fragment.id not in covered or fragment.id not in own:
                continue
            deleted = dataset.deletion_vector(fragment)
            offsets = deleted.offsets() if deleted is not None else np.zeros(0, np.uint32)
            for start, stop in gaps.get(fragment.id, ()):
                if np.searchsorted(offsets, stop) - np.searchsorted(offsets, start) < stop - start:
                    raise self._uncovered(fragment.id)
        self._check_moved(dataset, covered - own, gaps)

    def _check_moved(
        self, dataset: Snapshot, wanted: frozenset[int], gaps: dict[int, list[tuple[int, int]]]
    ) -> None:
        """Check fragments without zones by the zones of the fragments that they replaced."""
        own = self.fragment_ids
        reuse = dataset.fragment_reuse
        for generation in reversed(reuse.generations if reuse is not None else ()):
            for group in generation.groups:
                if group.new_ids.isdisjoint(wanted):
                    continue
                survived = {
                    owner
                    for owner in group.old_ids - own
                    if group.survivors.range_cardinality(owner << 32, (owner + 1) << 32)
                }
                wanted = (wanted - group.new_ids) | survived
                missing = BitMap64()
                for owner in group.old_ids & own:
                    for start, stop in gaps.get(owner, ()):
                        missing.add_range((owner << 32) + start, (owner << 32) + stop)
                if group.survivors.intersect(missing):
                    raise self._uncovered(min(group.new_ids))
        rows = live_rows_by_id(dataset.fragments)
        for owner in sorted(wanted):
            if rows.get(owner, 1):
                raise self._uncovered(owner)

    def _gaps(self, dataset: Snapshot, fragments: frozenset[int]) -> dict[int, list[tuple[int, int]]]:
        """Return rows of some fragments that are in no zone, as (first, behind the last), by fragment."""
        known = _physical_rows(dataset)
        order = np.lexsort((self.starts, self.owners))
        owners, starts = self.owners[order], self.starts[order]
        ends = np.maximum.accumulate((owners << _OFFSET_BITS) + starts + self.lengths[order])
        firsts = np.flatnonzero(np.diff(owners, prepend=~owners[:1]))
        lasts = np.append(firsts[1:], len(owners)) - 1 if len(owners) else firsts
        gaps: dict[int, list[tuple[int, int]]] = {}
        begins = (owners << _OFFSET_BITS) + starts
        before = np.concatenate([owners[:1] << _OFFSET_BITS, ends[:-1]])
        before[firsts] = owners[firsts] << _OFFSET_BITS
        for at in np.flatnonzero(begins > before).tolist():
            owner = int(owners[at])
            base = owner << 32
            gaps.setdefault(owner, []).append((int(before[at]) - base, int(begins[at]) - base))
        for at in lasts.tolist():
            owner = int(owners[at])
            end = int(ends[at]) - (owner << 32)
            if owner in fragments and owner in known:
                self._check_end(owner, end, known[owner])
                if end < known[owner]:
                    if self.counts_live_rows:
                        raise self._uncovered(owner)
                    gaps.setdefault(owner, []).append((end, known[owner]))
        return gaps

    def _check_end(self, owner: int, end: int, physical_rows: int) -> None:
        if end > physical_rows:
            raise CorruptFileError(
                f"a zone ends behind the last of the {physical_rows:,} rows of fragment {owner}",
                path=self.path,
                field="zone_length",
            )

    def _uncovered(self, owner: int) -> CorruptFileError:
        return CorruptFileError(
            f"zones are missing for some rows of covered fragment {owner}",
            path=self.path,
            field="zone_start",
        )


def _physical_rows(dataset: Snapshot) -> dict[int, int]:
    """Return rows of the fragments that there are, and of those whose rows compactions have moved."""
    known: dict[int, int] = {}
    reuse = dataset.fragment_reuse
    for generation in reuse.generations if reuse is not None else ():
        for group in generation.groups:
            for old in (*group.old_fragments, *group.new_fragments):
                known[old.id] = old.physical_rows
    known.update((fragment.id, fragment.physical_rows) for fragment in dataset.fragments)
    return known


def rows_of(dataset: Snapshot, fragment_id: int) -> int:
    """Return the physical rows of a fragment; 0 for an unknown one."""
    return _physical_rows(dataset).get(fragment_id, 0)
