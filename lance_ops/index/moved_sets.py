"""Remap of columns of Roaring bitmaps, many at once by compiled loops."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.kernels.index import roaring
from lance_ops.table.manifest.row_set import Addresses

Move = Callable[[Addresses], tuple[Addresses, npt.NDArray[np.bool_]]]
"""Function from row addresses to current addresses and a mask of existing rows."""

_AT_ONCE = 1 << 20
"""Maximum rows expanded at once."""


def move_sets(
    column: pa.BinaryArray, move: Move, *, framed: bool
) -> Iterator[tuple[slice, tuple[npt.NDArray[np.bool_], pa.BinaryArray] | None]]:
    """Yield sets with mapped rows, in parts of about a million rows.

    Args:
        column: Sets, none of them null.
        move: Called with the rows of a part, those of each set in turn, ascending.
        framed: Their form; see `lance_ops.encoding.kernels.index.roaring`.

    Yields:
        Each part of the column; which of its sets have rows that are left, and these sets as a column. None
        instead where they have to be looked at one by one: where one is damaged, or when it alone has more
        than a million rows.
    """
    data, offsets = _bytes_of(column)
    sizes = roaring.count_rows(data=data, offsets=offsets, framed=framed)
    alone = (sizes < 0) | (sizes > _AT_ONCE)
    parts = np.cumsum(np.where(alone, 0, sizes)) // _AT_ONCE
    breaks = np.flatnonzero((np.diff(parts) != 0) | (np.diff(alone.astype(np.int8)) != 0)) + 1
    for start, stop in pairwise([0, *breaks.tolist(), len(column)]):
        found = None
        if stop > start and not alone[start]:
            found = roaring.read_sets(data=data, offsets=offsets[start : stop + 1], framed=framed)
        yield slice(start, stop), None if found is None else _moved(*found, move, framed=framed)


def _moved(
    rows: Addresses, sizes: npt.NDArray[np.int64], move: Move, *, framed: bool
) -> tuple[npt.NDArray[np.bool_], pa.BinaryArray]:
    rows, kept = move(rows)
    if not kept.all():
        before = np.concatenate(([0], np.cumsum(kept)))
        stops = np.cumsum(sizes)
        rows, sizes = rows[kept], before[stops] - before[stops - sizes]
    filled = sizes > 0
    written, offsets = roaring.write_sets(rows=rows, sizes=sizes[filled], framed=framed)
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(written)]
    return filled, pa.Array.from_buffers(pa.binary(), int(filled.sum()), buffers)


def _bytes_of(column: pa.BinaryArray) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    _, offsets, data = column.buffers()
    stop = column.offset + len(column) + 1
    places = np.frombuffer(offsets, np.int32)[column.offset : stop].astype(np.int64)
    return np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8), places
