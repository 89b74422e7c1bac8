"""Degradation: reasons why an index is slower or less accurate although it covers all rows.

Removed rows: a search finds and drops them. They stay in segments of row ids, which no compaction rewrites,
in segments whose remap keeps positions (full text, graphs), and in all others until the next remap. And an
outdated model, trained on other rows than those added since (`index.vector.fit`).
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from uuid import UUID

import numpy as np

from lance_ops.errors import LanceOpsError, StorageError, public
from lance_ops.index.coverage import IndexCoverage, coverage, effective_fragments
from lance_ops.index.kind import IndexKind, ModelFit
from lance_ops.index.reading import current_addresses, reading
from lance_ops.index.registry import kind_of
from lance_ops.index.row_ids import locate_row_ids
from lance_ops.table.dataset import Dataset, Target, open_dataset
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import Addresses

SAMPLE_NAMES = 1 << 15
"""Names of rows that the share of dead ones is measured on, in steps of a fraction of a percent."""
_DELETION_FILES = 64
"""Fragments whose deletions are read for that; others are taken to be like these."""
_OFFSET_BITS = np.uint64(32)
_OFFSET_MASK = np.uint64(0xFFFF_FFFF)


@dataclass(frozen=True, slots=True)
class SegmentWear:
    """State of one segment.

    Attributes:
        uuid: Of the segment.
        rows: Rows in it; if none can be removed ones, all rows of the covered fragments. 0 for a kind without
            rows.
        dead_ratio: Share of them that are not live in the fragments that it covers, 0 to 1, from a sample
            where there are many.
    """

    uuid: UUID
    rows: int
    dead_ratio: float


@dataclass(frozen=True, slots=True)
class IndexWear:
    """State of one index.

    Attributes:
        name: Of the index.
        segments: As far as they can be read, oldest first.
        fit: Of its model; None for a kind that has none, or when it cannot be read.
    """

    name: str
    segments: tuple[SegmentWear, ...] = ()
    fit: ModelFit | None = None

    @property
    def dead_ratio(self) -> float:
        """The greatest of its segments."""
        return max((segment.dead_ratio for segment in self.segments), default=0.0)

    def to_dict(self) -> dict[str, object]:
        """Numbers, names and ids as JSON values."""
        return {
            "index": self.name,
            "segments": [
                {"segment": str(item.uuid), "rows": item.rows, "dead_ratio": item.dead_ratio}
                for item in self.segments
            ],
            "fit": self.fit and asdict(self.fit),
        }

    def lines(self) -> tuple[str, ...]:
        """Return the numbers of its model in words."""
        if self.fit is None:
            return ()
        fit = self.fit
        trained = "" if fit.imbalance_trained is None else f" ({fit.imbalance_trained:.2f} when trained)"
        drift = "" if fit.drift is None else f", {fit.drift:.2f} times as far from their centroids"
        line = (
            f"{self.name}: partitions are uneven {fit.imbalance:.2f} times{trained}; "
            f"{fit.newer_rows:,} of {fit.rows:,} rows are newer than its training{drift}"
        )
        return (line,)


@public(dataset="uri_or_dataset")
def measure_wear(
    uri_or_dataset: Target,
    names: Collection[str] | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> tuple[IndexWear, ...]:
    """Measure the indices of a version, by name; what cannot be read, or is of an unknown kind, is left out.

    Reads bounded samples: of names of rows, of deletions, of vectors.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        names: Which indices; all by default.
        storage_options: For opening the dataset.

    Raises:
        StorageError: The store fails.

    Examples:
        >>> done = lo.create_index("events.lance", "id")
        >>> [(index.name, index.dead_ratio) for index in lo.measure_wear("events.lance")]
        [('id_idx', 0.0)]
    """
    dataset = open_dataset(uri_or_dataset, storage_options)
    chosen = [item for item in coverage(dataset) if names is None or item.name in names]
    return tuple(index_wear(dataset, item) for item in chosen)


def index_wear(dataset: Dataset, item: IndexCoverage) -> IndexWear:
    """State of one index, see `measure_wear`."""
    found: list[SegmentWear] = []
    fit: ModelFit | None = None
    kinds = [kind_of(segment) for segment in item.segments]
    for segment, kind in zip(item.segments, kinds, strict=True):
        if kind is None:
            continue
        try:
            found.append(_segment_wear(dataset, kind, segment))
        except StorageError:
            raise
        except LanceOpsError:
            # `fsck` reports its damage.
            continue
    first = kinds[0]
    if first is not None and all(kind is not None and kind.name == first.name for kind in kinds):
        try:
            fit = first.fit(dataset, item.segments) if len(item.fields) == 1 else None
        except StorageError:
            raise
        except LanceOpsError:
            fit = None
    return IndexWear(item.name, tuple(found), fit)


def _segment_wear(dataset: Dataset, kind: IndexKind, segment: IndexMetadata) -> SegmentWear:
    if not _may_name_gone_rows(dataset, kind, segment):
        covered = effective_fragments(dataset.manifest, segment)
        return SegmentWear(
            segment.uuid, sum(dataset.fragments_by_id[number].num_rows for number in covered), 0.0
        )
    names, rows = kind.sample(dataset, segment, SAMPLE_NAMES)
    with reading(segment):
        return SegmentWear(segment.uuid, rows, _dead_ratio(dataset, kind, segment, names))


def _may_name_gone_rows(dataset: Dataset, kind: IndexKind, segment: IndexMetadata) -> bool:
    """Return whether, according to the manifest, a segment may contain removed rows."""
    if kind.keeps_gone_rows or dataset.manifest.uses_stable_row_ids or dataset.fragment_reuse is not None:
        return True
    recorded = segment.fragment_ids or frozenset()
    covered = effective_fragments(dataset.manifest, segment)
    return recorded != covered or any(dataset.fragments_by_id[number].num_deleted_rows for number in covered)


def _dead_ratio(dataset: Dataset, kind: IndexKind, segment: IndexMetadata, names: Addresses) -> float:
    if not len(names):
        return 0.0
    covered = effective_fragments(dataset.manifest, segment)
    if not kind.holds_addresses(segment, stable_row_ids=dataset.manifest.uses_stable_row_ids):
        _, found = locate_row_ids(dataset, segment, covered, names)
        return float(1 - found.mean())
    places, kept = current_addresses(dataset, segment, names)
    owners, offsets = places >> _OFFSET_BITS, places & _OFFSET_MASK
    there = kept & np.isin(owners, np.array(sorted(covered), np.uint64))
    shortened = [item for item in dataset.fragments if item.id in covered and item.num_deleted_rows]
    doubtful = there & np.isin(owners, np.array([item.id for item in shortened], np.uint64))
    looked_at = deleted = 0
    for fragment in shortened[:: -(-len(shortened) // _DELETION_FILES) or 1]:
        here = there & (owners == np.uint64(fragment.id))
        vector = dataset.deletion_vector(fragment)
        if vector is not None and here.any():
            looked_at += int(here.sum())
            deleted += int(np.isin(offsets[here], vector.offsets()).sum())
    dead = float((~there).sum()) + (doubtful.sum() * deleted / looked_at if looked_at else 0.0)
    return float(dead / len(names))
