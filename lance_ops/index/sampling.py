"""Samples of rows in an index: from a stream of unknown length, or from windows of a file."""

from collections.abc import Callable, Iterable

import numpy as np

from lance_ops.table.manifest.row_set import Addresses

_WINDOWS = 64


def sample_of(parts: Iterable[Addresses], limit: int) -> tuple[Addresses, int]:
    """Return every n-th element of a stream, from `limit` to twice as many, and the total number.

    All of them if there are fewer.
    """
    kept = np.zeros(0, np.uint64)
    step, total = 1, 0
    for part in parts:
        kept = np.concatenate([kept, part[(-total) % step :: step]])
        total += len(part)
        while len(kept) >= 2 * limit:
            kept, step = kept[::2], 2 * step
    return kept, total


def sample_of_file(read: Callable[[int, int], Addresses], rows: int, limit: int) -> tuple[Addresses, int]:
    """About `limit` of the names in a file, in ranges that are spread over it, and how many there are.

    Args:
        read: Reads those of the rows from one to another (excluded).
        rows: Rows of the file.
        limit: All are read when there are not as many.
    """
    if rows <= limit:
        return (read(0, rows) if rows else np.zeros(0, np.uint64)), rows
    length = max(1, limit // _WINDOWS)
    starts = np.linspace(0, rows - length, -(-limit // length)).astype(int).tolist()
    return np.concatenate([read(start, start + length) for start in starts]), rows
