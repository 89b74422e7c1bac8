"""Row windows of a scan: rows that are read together."""

from collections.abc import Iterator


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
