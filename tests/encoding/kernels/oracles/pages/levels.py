"""Levels into offsets and validity, and the chunks that levels are cut into."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Integers, Levels


def find_starts(*, rep: Levels, lowest: int, offsets: npt.NDArray[np.int32]) -> int:
    """Entries at which lists begin where each entry is an item; how many they are."""
    starts = np.flatnonzero(rep >= lowest)
    offsets[: len(starts)] = starts
    offsets[len(starts)] = len(rep)
    return len(starts)


def count_starts(*, rep: Levels, lowest: int, offsets: npt.NDArray[np.int32]) -> int:
    """Compute list offsets if nothing is null or empty; return the number of items."""
    return _count(rep >= lowest, rep >= lowest - 1, offsets)


def count_items(
    *,
    rep: Levels,
    definition: Levels,
    lowest: int,
    below: int,
    hidden: int,
    offsets: npt.NDArray[np.int32],
) -> int:
    """Compute list offsets; return the number of items."""
    lists = (rep >= lowest) & (definition < below)
    return _count(lists, (rep >= lowest - 1) & (definition < hidden), offsets)


def _count(lists: npt.NDArray[np.bool_], items: npt.NDArray[np.bool_], offsets: npt.NDArray[np.int32]) -> int:
    counts = np.zeros(len(items) + 1, dtype=np.int64)
    np.cumsum(items, out=counts[1:])
    starts = counts[:-1][lists]
    offsets[: len(starts)] = starts
    offsets[len(starts)] = counts[-1]
    return int(counts[-1])


def count_and_pick(
    *,
    rep: Levels,
    definition: Levels,
    lowest: int,
    below: int,
    hidden: int,
    codes: Bytes,
    offsets: npt.NDArray[np.int32],
    found: Bytes,
) -> int:
    """Compute list offsets, and a code for each list; return the number of items."""
    pick_codes(rep=rep, definition=definition, lowest=lowest, below=below, codes=codes, found=found)
    return count_items(
        rep=rep, definition=definition, lowest=lowest, below=below, hidden=hidden, offsets=offsets
    )


def pick_visible_codes(*, definition: Levels, below: int, codes: Bytes, found: Bytes) -> int:
    """Return a code for each slot of the innermost layers; how many they are."""
    picked = codes[definition[definition < below]]
    found[: len(picked)] = picked
    return len(picked)


def pick_codes(
    *, rep: Levels, definition: Levels, lowest: int, below: int, codes: Bytes, found: Bytes
) -> int:
    """Return a code for each slot of a layer; how many they are."""
    picked = codes[definition[(rep >= lowest) & (definition < below)]]
    found[: len(picked)] = picked
    return len(picked)


def cut(*, definition: Levels, below: int, values: Integers, cuts: Integers) -> None:
    """Entries at which chunks end that end with a value."""
    cuts[:] = np.flatnonzero(definition < below)[values - 1] + 1


def find_rows(*, rep: Levels, highest: int, ends: Integers, begun: Integers, lasts: Integers) -> None:
    """Rows that begin in each chunk, and the entry at which the last row so far begins."""
    rows = np.flatnonzero(rep == highest)
    before = np.searchsorted(rows, ends)
    begun[:] = np.diff(before, prepend=0)
    lasts[:] = rows[before - 1]
