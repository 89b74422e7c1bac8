"""Plans which rows to read together: spans around single rows, and windows of a scan."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# Reading this much in vain is cheaper than another request.
_GAP_BYTES = 64 << 10
# Each span costs a pass over the page's description, so that scattered rows end in wider spans.
_MAX_SPANS = 128


@dataclass(frozen=True, slots=True)
class RowSpan:
    """Consecutive rows that are read together because some of them are wanted.

    Attributes:
        start: First row.
        stop: End of the rows.
        first: Index of the first wanted row inside.
        last: End of the indices.
    """

    start: int
    stop: int
    first: int
    last: int


def plan_spans(rows: npt.NDArray[np.int64], row_bytes: float) -> list[RowSpan]:
    """Group wanted rows.

    Args:
        rows: Ascending row numbers.
        row_bytes: What a row costs on average, in bytes.
    """
    if len(rows) == 0:
        return []
    gaps = np.diff(rows) - 1
    widest = _GAP_BYTES / row_bytes
    if int((gaps > widest).sum()) >= _MAX_SPANS:
        # Only the widest gaps stay open.
        widest = max(widest, float(np.partition(gaps, len(gaps) - _MAX_SPANS)[len(gaps) - _MAX_SPANS]))
    cuts = np.flatnonzero(gaps > widest) + 1
    firsts = np.concatenate([[0], cuts])
    lasts = np.concatenate([cuts, [len(rows)]])
    return [
        RowSpan(int(rows[first]), int(rows[last - 1]) + 1, int(first), int(last))
        for first, last in zip(firsts, lasts, strict=True)
    ]


def plan_windows(start: int, stop: int, batch_rows: int, window_rows: int) -> Iterator[tuple[int, int]]:
    """Cut a scan into windows that are read at once.

    Args:
        start: First row.
        stop: End of the rows.
        batch_rows: Windows of more rows than this are multiples of it.
        window_rows: As many rows as fit into memory comfortably.
    """
    whole_batches = window_rows // batch_rows * batch_rows
    step = whole_batches or max(window_rows, 1)
    for first in range(start, stop, step):
        yield first, min(first + step, stop)
