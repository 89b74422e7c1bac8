"""Coverage: the fragments that an index covers, and the rows left to a scan."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lance_ops.cache import IdentityCache
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import fragments_at, ids_of, numbers_of
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class IndexCoverage:
    """Coverage of one index, all its segments together.

    Attributes:
        name: Index name.
        kind: Last part of the type URL in lower case; None when the writer did not record it.
        fields: Ids of the indexed fields.
        segments: Its segments, oldest first.
        covered: Ids of the covered fragments that still exist.
        uncovered: Fragments that a query has to scan.
        rows: Live rows of the dataset.
        unindexed_rows: Live rows in uncovered fragments.
    """

    name: str
    kind: str | None
    fields: tuple[int, ...]
    segments: tuple[IndexMetadata, ...]
    covered: frozenset[int]
    uncovered: Sequence[Fragment]
    rows: int
    unindexed_rows: int

    @property
    def ratio(self) -> float:
        """Return the share of live rows that the index covers; 1 for an empty dataset."""
        return 1.0 if self.rows == 0 else 1.0 - self.unindexed_rows / self.rows


def coverage(dataset: Snapshot) -> tuple[IndexCoverage, ...]:
    """Coverage of every ordinary index, by name. System indices have none."""
    return _coverage(dataset.manifest, dataset.indices)


def listed_coverage(dataset: Snapshot) -> tuple[IndexCoverage, ...]:
    """Coverage of every ordinary index in the order of the manifest.

    Of several text or vector indices on a column, pylance uses the first one.
    """
    names = list(dict.fromkeys(segment.name for segment in dataset.indices))
    return tuple(sorted(coverage(dataset), key=lambda item: names.index(item.name)))


def coverage_by(manifest: Manifest, indices: Iterable[IndexMetadata]) -> tuple[IndexCoverage, ...]:
    """Coverage of every ordinary index by segments, with the fragments that they cover now."""
    by_name: dict[str, list[IndexMetadata]] = {}
    for segment in indices:
        if not segment.is_system:
            by_name.setdefault(segment.name, []).append(segment)
    return tuple(_coverage_of(manifest, by_name[name]) for name in sorted(by_name))


_coverage: IdentityCache[[Manifest, tuple[IndexMetadata, ...]], tuple[IndexCoverage, ...]] = IdentityCache(
    "index coverage", coverage_by, 4
)


def _coverage_of(manifest: Manifest, segments: Sequence[IndexMetadata]) -> IndexCoverage:
    covered = frozenset().union(*(effective_fragments(manifest, segment) for segment in segments))
    numbers = numbers_of(manifest.fragments)
    rows = numbers.live_rows
    places = np.flatnonzero(~np.isin(numbers.ids, np.fromiter(covered, np.int64, len(covered))))
    return IndexCoverage(
        name=segments[0].name,
        kind=segments[0].kind,
        fields=segments[0].fields,
        segments=tuple(segments),
        covered=covered,
        uncovered=fragments_at(manifest.fragments, places.tolist()),
        rows=int(rows.sum()),
        unindexed_rows=int(rows[places].sum()),
    )


def effective_fragments(manifest: Manifest, segment: IndexMetadata) -> frozenset[int]:
    """Return ids of the fragments that a segment of `Dataset.indices` covers and that still exist.

    A segment without a bitmap (very old writers) covers nothing that one could rely on.
    """
    return _effective(manifest, segment)


def _find_effective(manifest: Manifest, segment: IndexMetadata) -> frozenset[int]:
    existing = frozenset(ids_of(manifest.fragments))
    return existing & (segment.fragment_ids or frozenset())


_effective = IdentityCache("covered fragments", _find_effective, 16)
