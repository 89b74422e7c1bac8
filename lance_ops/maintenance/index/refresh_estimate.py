"""Estimate of an index refresh: bytes written and rows merged, from the manifest alone. Pure.

The segments to merge are chosen as by the refresh itself. The size of the new one is estimated from existing
ones: each file of a segment has a constant part.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lance_ops.index.coverage import IndexCoverage, coverage, effective_fragments
from lance_ops.maintenance.index.merging import segments_to_merge
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragments.totals import live_rows_by_id

_FILE_BYTES = 700
"""Size of an almost empty file: column metadata and footer."""
_FILES, _ROW_BYTES = 2, 12
"""Defaults for a segment without recorded sizes in its index."""
_ADDRESS_BYTES = 2
"""Additional bytes of a row in a segment over several fragments, whose addresses compress less than within a
single one."""
_SECONDS, _ROW_SECONDS = 0.05, 2e-6
_SPREAD = 2
"""Segments whose row counts differ by this factor show which part grows."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """Estimate of refreshing all indices of a dataset.

    Attributes:
        segments: Number of segments written.
        rows: Rows in them.
        bytes: Their size.
    """

    segments: int = 0
    rows: int = 0
    bytes: int = 0

    @property
    def seconds(self) -> float:
        """Duration."""
        return _SECONDS * max(1, self.segments) + self.rows * _ROW_SECONDS


def foresee_refresh(dataset: Dataset, most_segments: int) -> Refresh:
    """Estimate a refresh.

    Args:
        dataset: The newest version.
        most_segments: Maximum segments of an index afterwards.
    """
    found = coverage(dataset)
    live = live_rows_by_id(dataset.fragments)
    behind = [item for item in found if item.uncovered or len(item.segments) > most_segments]
    written: list[tuple[int, int]] = []
    # If no index is behind, due ones are degraded, and are rebuilt.
    for item in behind or found:
        rows = [
            sum(live[number] for number in effective_fragments(dataset.manifest, segment))
            for segment in item.segments
        ]
        new = item.unindexed_rows if item.uncovered else None
        merged = segments_to_merge(rows, new, most_segments)[0] if behind else len(rows)
        into = (new or 0) + sum(rows[len(rows) - merged :])
        if new is not None or merged:
            size = segment_bytes(item, rows, into)
            kept = item.segments[len(rows) - merged :]
            if max((len(segment.fragment_ids or ()) for segment in kept), default=2) == 1:
                size += _ADDRESS_BYTES * into
            written.append((into, size))
    return Refresh(len(written), sum(rows for rows, _ in written), sum(size for _, size in written))


def segment_bytes(item: IndexCoverage, rows: Sequence[int], into: int) -> int:
    """Return the size of a new segment of an index.

    Args:
        item: The index.
        rows: Live rows covered by each of its segments.
        into: Rows of the new one.
    """
    known = [
        (count, segment.size_bytes, len(segment.files))
        for count, segment in zip(rows, item.segments, strict=True)
        if count and segment.size_bytes
    ]
    if not known:
        return _FILES * _FILE_BYTES + into * _ROW_BYTES
    counts = np.array([count for count, _, _ in known], np.float64)
    sizes = np.array([size for _, size, _ in known], np.float64)
    if counts.max() >= _SPREAD * counts.min():
        slope = (sizes[counts.argmax()] - sizes[counts.argmin()]) / (counts.max() - counts.min())
        head = sizes[counts.argmin()] - slope * counts.min()
        if slope >= 0 and head >= 0:
            return round(float(head + slope * into))
    # A large segment is nearly all rows: its constant part is negligible.
    count, size, files = known[int(counts.argmax())]
    head = min(files * _FILE_BYTES, size)
    return round(head + (size - head) / count * into)
