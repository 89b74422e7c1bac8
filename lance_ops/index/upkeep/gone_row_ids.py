"""Gone row ids: indices of tables with stable row ids that name rows which a compaction has removed.

Nothing has to move in such an index, so a compaction leaves it as it is. Release 14.0.2 of the peer finds
the rows that are gone in full-text and vector indices, counts them, and returns as many rows fewer than asked
for, until the segments are written without them (`optimize_indices`).
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
"""All names of smaller segments are looked at, and so many of larger ones, spread over them."""


def minds_gone_row_ids(dataset: Dataset, segment: IndexMetadata, kind: IndexKind) -> bool:
    """Whether readers of a segment mind row ids that no fragment has, and it can be written without them."""
    return (
        dataset.manifest.uses_stable_row_ids
        and kind.can_build
        and kind.counts_gone_row_ids
        and not kind.holds_addresses(segment, stable_row_ids=True)
        and bool(effective_fragments(dataset.manifest, segment))
    )


def names_gone_row_ids(dataset: Dataset, item: IndexCoverage) -> bool:
    """Whether the peer returns too few rows from an index, by a bounded sample of what it names.

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
            # `fsck` says what is wrong with it.
            continue
    return False
