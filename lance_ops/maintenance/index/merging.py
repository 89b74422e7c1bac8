"""Which segments of an index are merged with rows that it does not cover yet: what that costs, what it saves.

Every segment costs each query a search, and a merge costs as many writes as the merged segments have rows. So
a segment is merged when it is small, or not much larger than what is written anyway: rows are then written
again a number of times that grows with the logarithm of their number, and so does the number of segments.
"""

from collections.abc import Sequence

from lance_ops.maintenance.text import count_text

SMALL_ROWS = 1 << 20
"""Segments of so many rows are always merged: that takes a second or two."""
FACTOR = 4
"""Larger ones are merged unless they have more than so many times the rows that are written anyway."""
MOST_SEGMENTS = 8
"""An index has at most so many segments afterwards, unless told otherwise."""


def segments_to_merge(
    rows: Sequence[int], new_rows: int | None, most_segments: int = MOST_SEGMENTS
) -> tuple[int, str]:
    """How many of the newest segments go into a new one, and why.

    Args:
        rows: Live rows that each segment covers, oldest first.
        new_rows: Live rows that no segment covers; None when there is nothing to be added.
        most_segments: Segments that there may be afterwards.

    Returns:
        0 when the new rows get a segment of their own, or when nothing is to be done.
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
