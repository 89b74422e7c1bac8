"""Compiled loops from validity and offsets to levels.

An entry has a state: 0 while nothing hides its value, else the number of the layer that is null or empty. The
highest bit is set once there is no place for it below. Like the loops of `levels`, these write at every entry
and have no branches.
"""

import numpy as np
from numba import njit, types

_STATES = types.Array(types.uint16, 1, "C", readonly=True)
_MASK = types.Array(types.uint8, 1, "C", readonly=True)

_HIDDEN = np.uint16(0x8000)


@njit(types.int64(types.uint16[::1], _MASK, types.uint16), cache=True, nogil=True)
def mark_nulls(states, valid, level):  # type: ignore[no-untyped-def]
    """Give the entries that are null at a layer its number, unless they have one.

    Args:
        states: Of each entry.
        valid: Which of the places of the layer are not null, and one more.
        level: The number.

    Returns:
        Number of entries that got it.
    """
    place = 0
    marked = 0
    for entry in range(len(states)):
        state = states[entry]
        null = (state == 0) & (valid[place] == 0)
        states[entry] = level if null else state
        marked += null
        place += state < _HIDDEN
    return marked


def _count(states, offsets):  # type: ignore[no-untyped-def]
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


def _expand(states, rep, offsets, empty, new_states, new_rep):  # type: ignore[no-untyped-def]
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


def _offsets(word):  # type: ignore[no-untyped-def]
    return types.Array(word, 1, "C", readonly=True)


_PAIR = types.UniTuple(types.int64, 2)
_WORDS = (types.int32, types.int64)

count_entries = njit(
    [_PAIR(_STATES, _offsets(word)) for word in _WORDS],
    cache=True,
    nogil=True,
)(_count)
"""Number of entries below lists, and of those that are items.

Args:
    states: Of each entry.
    offsets: Of the places of the lists, and two more.
"""

expand = njit(
    [
        types.int64(_STATES, _STATES, _offsets(word), types.uint16, types.uint16[::1], types.uint16[::1])
        for word in _WORDS
    ],
    cache=True,
    nogil=True,
)(_expand)
"""Go from lists to their items.

Args:
    states: Of each entry.
    rep: Of each entry.
    offsets: Of the places of the lists, and two more.
    empty: The number of empty lists.
    new_states: Zeros, for the entries below.
    new_rep: The repetition level of an item that is not the first of its list, for the entries below.

Returns:
    Number of empty lists.
"""


@njit(
    types.int64(_STATES, _STATES, types.uint16[::1], types.uint8[::1]),
    cache=True,
    nogil=True,
)
def finish(states, levels, definition, null):  # type: ignore[no-untyped-def]
    """Definition levels of entries, and which places hold no value.

    Args:
        states: Of each entry.
        levels: The level of each number.
        definition: Room for as many levels as states.
        null: Room for one more flag than there are places.

    Returns:
        Number of places.
    """
    place = 0
    for entry in range(len(states)):
        state = states[entry]
        definition[entry] = levels[state & np.uint16(0x7FFF)]
        null[place] = state != 0
        place += state < _HIDDEN
    return place
