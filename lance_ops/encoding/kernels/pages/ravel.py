"""Validity and offsets into levels.

An entry has a state: 0 while nothing hides its value, else the number of the layer that is null or empty,
below 2**15. Its highest bit is set once it has no place in the layers below.

An entry has a state: 0 while nothing hides its value, else the number of the layer that is null or empty. The
highest bit is set once there is no place for it below. Like the loops of `levels`, these write at every entry
and have no branches.
"""

import numpy as np

from lance_ops.encoding.arrays import Bytes, Levels, Offsets
from lance_ops.encoding.kernels.loops import loop, types

_STATES = types.Array(types.uint16, 1, "C", readonly=True)
_MASK = types.Array(types.uint8, 1, "C", readonly=True)
_HIDDEN = np.uint16(0x8000)


@loop(types.int64(types.uint16[::1], _MASK, types.uint16))
def _mark_nulls(states, valid, level):
    place = 0
    marked = 0
    for entry in range(len(states)):
        state = states[entry]
        null = (state == 0) & (valid[place] == 0)
        states[entry] = level if null else state
        marked += null
        place += state < _HIDDEN
    return marked


def _offsets(word):
    return types.Array(word, 1, "C", readonly=True)


_PAIR = types.UniTuple(types.int64, 2)
_WORDS = (types.int32, types.int64)


@loop([_PAIR(_STATES, _offsets(word)) for word in _WORDS])
def _count_entries(states, offsets):
    place = np.int64(0)
    count = np.int64(0)
    items = np.int64(0)
    for entry in range(len(states)):
        state = states[entry]
        length = (np.int64(offsets[place + 1]) - np.int64(offsets[place])) * np.int64(state == 0)
        items += length
        count += length + np.int64(length == 0)
        place += np.int64(state < _HIDDEN)
    return count, items


@loop(
    [
        types.int64(_STATES, _STATES, _offsets(word), types.uint16, types.uint16[::1], types.uint16[::1])
        for word in _WORDS
    ]
)
def _expand(states, rep, offsets, empty, new_states, new_rep):
    # Products, because compilers make branches of conditions.
    place = np.int64(0)
    target = np.int64(0)
    empties = np.int64(0)
    for entry in range(len(states)):
        state = states[entry]
        length = np.int64(offsets[place + 1]) - np.int64(offsets[place])
        shown = np.int64(state == 0)
        has_items = shown * np.int64(length > 0)
        is_empty = shown - has_items
        empties += is_empty
        hidden = (np.int64(state) | np.int64(_HIDDEN)) + empty * is_empty
        new_states[target] = np.uint16(hidden * (1 - has_items))
        new_rep[target] = rep[entry]
        target += 1 + (length - 1) * has_items
        place += np.int64(state < _HIDDEN)
    return empties


@loop(types.int64(_STATES, _STATES, types.uint16[::1], types.uint8[::1]))
def _finish(states, levels, definition, null):
    place = 0
    for entry in range(len(states)):
        state = states[entry]
        definition[entry] = levels[state & np.uint16(0x7FFF)]
        null[place] = state != 0
        place += state < _HIDDEN
    return place


def mark_nulls(*, states: Levels, valid: Bytes, level: int) -> int:
    """Set the state of entries that are null at a layer, unless they have one.

    Args:
        states: Shape (entries,): of each; changed.
        valid: Shape (places + 1,): 0 for the places of the layer that are null, 1 for others and the last.
        level: The number.

    Returns:
        Number of entries that got it.
    """
    return int(_mark_nulls(states, valid, level))


def count_entries(*, states: Levels, offsets: Offsets) -> tuple[int, int]:
    """Return the number of entries below lists, and of those that are items.

    Args:
        states: Shape (entries,): of each.
        offsets: Shape (places + 2,): of the lists, not decreasing, and the last one again.
    """
    count, items = _count_entries(states, offsets)
    return count, items


def expand(
    *, states: Levels, rep: Levels, offsets: Offsets, empty: int, new_states: Levels, new_rep: Levels
) -> int:
    """Go from lists to their items.

    Args:
        states: Shape (entries,): of each.
        rep: Shape (entries,): repetition level of each.
        offsets: Shape (places + 2,): of the lists, not decreasing, and the last one again.
        empty: The number of empty lists.
        new_states: Zeros, as many as `count_entries` says; gets the states of the entries below.
        new_rep: As many, of an item that is not the first of its list; gets the repetition levels.

    Returns:
        Number of empty lists.
    """
    return int(_expand(states, rep, offsets, empty, new_states, new_rep))


def finish(*, states: Levels, levels: Levels, definition: Levels, null: Bytes) -> int:
    """Definition levels of entries, and which places hold no value.

    Args:
        states: Shape (entries,): of each.
        levels: The definition level of each number that a state can be.
        definition: Shape (entries,): gets the levels.
        null: Shape (places + 1,): gets 1 for a place without a value; the last one may be written.

    Returns:
        Number of places.
    """
    return int(_finish(states, levels, definition, null))
