"""Removed row ids: indices of tables with stable row ids that contain rows removed by a compaction.

Such an index needs no remap, so a compaction does not rewrite it. Release 14.0.2 of pylance counts the
removed rows in results of full-text and vector indices, and returns fewer rows than requested, until the
segments are rewritten (`optimize_indices`).
"""

import numpy as np

from lance_ops.errors import UnreadableIndexError
from lance_ops.index.coverage import IndexCoverage, effective_fragments
from lance_ops.index.kind import IndexKind
from lance_ops.index.reading import reading
from lance_ops.index.registry import kind_of
from lance_ops.index.row_ids import absent_row_ids
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexMetadata

SAMPLE_NAMES = 1 << 18
"""Sample size: all rows of smaller segments are read, and so many of larger ones, spread over them."""


def minds_gone_row_ids(dataset: Dataset, segment: IndexMetadata, kind: IndexKind) -> bool:
    """Return whether removed row ids affect readers of a segment, and it can be rewritten without them."""
    return (
        dataset.manifest.uses_stable_row_ids
        and kind.can_build
        and kind.counts_gone_row_ids
        and not kind.holds_addresses(segment, stable_row_ids=True)
        and bool(effective_fragments(dataset.manifest, segment))
    )


def names_gone_row_ids(dataset: Dataset, item: IndexCoverage) -> bool:
    """Return whether pylance returns too few rows from an index, by a bounded sample of what it names.

    Args:
        dataset: The version.
        item: One of its indices; one that cannot be read says nothing.

    Raises:
        StorageError: The store fails.
    """
    for segment in item.segments:
        kind = kind_of(segment)
        if kind is None or not minds_gone_row_ids(dataset, segment, kind):
            continue
        try:
            names, _ = kind.sample(dataset, segment, SAMPLE_NAMES)
            with reading(segment):
                if absent_row_ids(dataset, np.ascontiguousarray(names)).any():
                    return True
        except UnreadableIndexError:
            # `fsck` reports its damage.
            continue
    return False
