"""Choice of segments to merge with uncovered rows, by cost and benefit.

Every segment costs each query a search, and a merge costs as many writes as the merged segments have rows. So
a segment is merged if it is small, or not much larger than the rows written anyway: the number of rewrites of
a row and the number of segments then grow with the logarithm of the rows.
"""

from collections.abc import Sequence

from lance_ops.maintenance.text import count_text

SMALL_ROWS = 1 << 20
"""Segments up to this many rows are always merged: that takes a second or two."""
FACTOR = 4
"""Larger ones are merged unless they have more than this many times the rows written anyway."""
MOST_SEGMENTS = 8
"""Default maximum of segments of an index afterwards."""


def segments_to_merge(
    rows: Sequence[int], new_rows: int | None, most_segments: int = MOST_SEGMENTS
) -> tuple[int, str]:
    """Return how many of the newest segments to merge, and why.

    Args:
        rows: Live rows that each segment covers, oldest first.
        new_rows: Live rows without coverage; None if there is nothing to add.
        most_segments: Maximum segments afterwards.

    Returns:
        0 if the new rows get a separate segment, or nothing is to do.
    """
    written = new_rows or 0
    merged = 0
    for covered in reversed(rows):
        left = len(rows) - merged + (new_rows is not None or merged > 0)
        small = new_rows is not None and covered <= max(SMALL_ROWS, FACTOR * written)
        if not small and left <= most_segments:
            break
        merged += 1
        written += covered
    if new_rows is None:
        if merged < 2:
            return 0, ""
        return merged, f"{count_text(len(rows), 'segment')} are more than {most_segments}"
    new = f"{count_text(new_rows, 'row')} not covered"
    if not rows:
        return 0, new
    if not merged:
        return 0, f"{new}, the newest segment has {rows[-1] / max(1, new_rows):,.0f} times as many"
    return merged, f"{new}, merged with {count_text(written - new_rows, 'row')}"
