"""Validity and offsets into levels."""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Integers, Levels, Offsets

_HIDDEN = np.uint16(0x8000)


def mark_nulls(*, states: Levels, valid: Bytes, level: int) -> int:
    """Give the entries that are null at a layer its number; how many get it."""
    null = np.zeros(len(states), dtype=np.bool_)
    null[states < _HIDDEN] = valid[:-1] == 0
    null &= states == 0
    states[null] = level
    return int(np.count_nonzero(null))


def _lengths(states: Levels, offsets: Offsets) -> Integers:
    """Items of each entry that has a place."""
    own = states[states < _HIDDEN]
    lengths: Integers = np.where(own == 0, np.diff(offsets[:-1]), 0).astype(np.int64)
    return lengths


def count_entries(*, states: Levels, offsets: Offsets) -> tuple[int, int]:
    """Return the number of entries below lists, and of those that are items."""
    lengths = _lengths(states, offsets)
    hidden = len(states) - len(lengths)
    return hidden + int(np.maximum(lengths, 1).sum()), int(lengths.sum())


def expand(
    *, states: Levels, rep: Levels, offsets: Offsets, empty: int, new_states: Levels, new_rep: Levels
) -> int:
    """Go from lists to their items; the number of empty lists."""
    shown = states < _HIDDEN
    own = states[shown]
    lengths = _lengths(states, offsets)
    is_empty = (own == 0) & (lengths == 0)
    own = np.where(is_empty, np.uint16(empty), own)
    marked = states.copy()
    marked[shown] = np.where(lengths > 0, own, own | _HIDDEN)
    repeats = np.ones(len(states), dtype=np.int64)
    repeats[shown] = np.maximum(lengths, 1)
    ends = np.cumsum(repeats)
    new_rep[ends - repeats] = rep
    new_states[:] = np.repeat(marked, repeats)
    return int(np.count_nonzero(is_empty))


def finish(*, states: Levels, levels: Levels, definition: Levels, null: Bytes) -> int:
    """Definition levels of entries, and which places hold no value; how many these are."""
    definition[:] = levels[states & ~_HIDDEN]
    own = states[states < _HIDDEN]
    null[: len(own)] = own != 0
    return len(own)
