"""Index refresh: what it writes and how many rows go into it, foreseen from the manifest alone. Pure.

Which segments are merged with new rows is decided as the refresh itself does. How large the new one gets is
told by those that are there: each file of a segment has a part that does not grow with its rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lance_ops.index.coverage import IndexCoverage, coverage, effective_fragments
from lance_ops.maintenance.index.merging import segments_to_merge
from lance_ops.table.dataset import Dataset

_FILE_BYTES = 700
"""Of a file that holds next to nothing: descriptions of its columns, and its end."""
_FILES, _ROW_BYTES = 2, 12
"""Of a segment of which nothing is recorded, nor of others of its index."""
_ADDRESS_BYTES = 2
"""That a row takes more in a segment over several fragments than in one over a single one, whose addresses
have more in common."""
_SPREAD = 2
"""Segments whose rows differ so many times tell by themselves what grows."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """What refreshing all indices of a dataset takes.

    Attributes:
        segments: That are written.
        rows: That go into them.
        bytes: Their size.
    """

    segments: int = 0
    rows: int = 0
    bytes: int = 0


def foresee_refresh(dataset: Dataset, most_segments: int) -> Refresh:
    """Foresee a refresh.

    Args:
        dataset: The newest version.
        most_segments: That an index may have afterwards.
    """
    found = coverage(dataset)
    live = {fragment.id: fragment.num_rows for fragment in dataset.fragments}
    behind = [item for item in found if item.uncovered or len(item.segments) > most_segments]
    written: list[tuple[int, int]] = []
    # Where none is behind, what is due is due to wear, and all of it is read again.
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
    """Size of a new segment of an index.

    Args:
        item: The index.
        rows: Live rows that each of its segments covers.
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
    # What is large is nearly all rows: the head of its files is lost in it.
    count, size, files = known[int(counts.argmax())]
    head = min(files * _FILE_BYTES, size)
    return round(head + (size - head) / count * into)
