"""Many Roaring bitmaps of 64-bit rows at once.

There is no reference: where `available` says no, callers read and write them one by one. A set is a count of
bitmaps of 32 bits, and before each the upper half of its rows. In the portable form, counts have eight bytes;
framed sets are those of a table's format, where counts have four, and each bitmap is preceded by its length.
"""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Words64
from lance_ops.encoding.kernels import load


def available() -> bool:
    """Return whether there is a kernel."""
    return load("index.roaring") is not None


def read_sets(*, data: Bytes, offsets: Integers, framed: bool) -> tuple[Words64, Integers] | None:
    """Return the rows of sets.

    Args:
        data: The bytes of all sets.
        offsets: Shape (sets + 1,): where each begins in `data`, never falling, and where the last ends; none
            beyond the end of `data`.
        framed: Their form.

    Returns:
        (rows, sizes): the rows of all sets, in sequence, and how many each has. Those of a sound set
        ascend. None if one is damaged, or has no bytes for a bitmap (that is, all rows of a fragment):
        the caller then looks at each.
    """
    kernel = load("index.roaring")
    assert kernel is not None
    sizes = np.empty(len(offsets) - 1, np.int64)
    rows = np.empty(int(kernel.count_rows(data, offsets, framed, sizes)), np.uint64)
    if (sizes < 0).any() or kernel.read_rows(data, offsets, framed, sizes, rows) < 0:
        return None
    return rows, sizes


def count_rows(*, data: Bytes, offsets: Integers, framed: bool) -> Integers:
    """Return how many rows each set has; -1 for those that `read_sets` would not read. See there."""
    kernel = load("index.roaring")
    assert kernel is not None
    sizes = np.empty(len(offsets) - 1, np.int64)
    kernel.count_rows(data, offsets, framed, sizes)
    return sizes


def write_sets(*, rows: Words64, sizes: Integers, framed: bool) -> tuple[Bytes, Integers]:
    """Sets of rows.

    Args:
        rows: Of all sets, one set behind the other.
        sizes: Shape (sets,): how many each has.
        framed: Their form.

    Returns:
        (data, offsets): the bytes, and where each set begins and the last ends.
    """
    kernel = load("index.roaring")
    assert kernel is not None
    stops = np.cumsum(sizes)
    lengths, with_runs = np.empty(len(sizes), np.int64), np.empty(len(sizes), np.bool_)
    total = int(kernel.measure(rows, stops, framed, lengths, with_runs))
    if total < 0:
        rows, sizes = _in_order(rows, sizes)
        stops = np.cumsum(sizes)
        total = int(kernel.measure(rows, stops, framed, lengths, with_runs))
    data = np.empty(total, np.uint8)
    kernel.write_rows(rows, stops, framed, with_runs, data)
    return data, np.concatenate(([0], np.cumsum(lengths)))


def _in_order(rows: Words64, sizes: Integers) -> tuple[Words64, Integers]:
    """Return the rows of each set, ascending and once."""
    sets = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((rows, sets))
    rows, sets = rows[order], sets[order]
    first = np.ones(len(rows), np.bool_)
    first[1:] = (rows[1:] != rows[:-1]) | (sets[1:] != sets[:-1])
    return rows[first], np.bincount(sets[first], minlength=len(sizes)).astype(np.int64)
