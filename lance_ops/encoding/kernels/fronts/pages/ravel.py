"""Validity and offsets into levels.

An entry has a state: 0 while nothing hides its value, else the number of the layer that is null or empty,
below 2**15. Its highest bit is set once it has no place in the layers below.
"""

from lance_ops.encoding.arrays import Bytes, Levels, Offsets
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.pages import ravel as reference


def mark_nulls(*, states: Levels, valid: Bytes, level: int) -> int:
    """Set the state of entries that are null at a layer, unless they have one.

    Args:
        states: Shape (entries,): of each; changed.
        valid: Shape (places + 1,): 0 for the places of the layer that are null, 1 for others and the last.
        level: The number.

    Returns:
        Number of entries that got it.
    """
    kernel = load("pages.ravel")
    if kernel is None:
        return reference.mark_nulls(states=states, valid=valid, level=level)
    return int(kernel.mark_nulls(states, valid, level))


def count_entries(*, states: Levels, offsets: Offsets) -> tuple[int, int]:
    """Return the number of entries below lists, and of those that are items.

    Args:
        states: Shape (entries,): of each.
        offsets: Shape (places + 2,): of the lists, not decreasing, and the last one again.
    """
    kernel = load("pages.ravel")
    if kernel is None:
        return reference.count_entries(states=states, offsets=offsets)
    count, items = kernel.count_entries(states, offsets)
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
    kernel = load("pages.ravel")
    if kernel is None:
        return reference.expand(
            states=states, rep=rep, offsets=offsets, empty=empty, new_states=new_states, new_rep=new_rep
        )
    return int(kernel.expand(states, rep, offsets, empty, new_states, new_rep))


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
    kernel = load("pages.ravel")
    if kernel is None:
        return reference.finish(states=states, levels=levels, definition=definition, null=null)
    return int(kernel.finish(states, levels, definition, null))
