"""Levels into offsets and validity, and the chunks that levels are cut into.

There are fewer than 2**31 entries wherever offsets have 32 bits.
"""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Integers, Levels
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.pages import levels as reference


def find_starts(*, rep: Levels, lowest: int, offsets: npt.NDArray[np.int32]) -> int:
    """Entries at which lists begin where each entry is an item.

    Args:
        rep: Repetition levels.
        lowest: Of an entry that begins a list.
        offsets: Room for one more than there are such entries; gets the end of the last, too.

    Returns:
        Number of lists.
    """
    kernel = load("pages.levels")
    if kernel is None:
        return reference.find_starts(rep=rep, lowest=lowest, offsets=offsets)
    return int(kernel.find_starts(rep, lowest, offsets))


def count_starts(*, rep: Levels, lowest: int, offsets: npt.NDArray[np.int32]) -> int:
    """Compute list offsets if nothing is null or empty.

    Args:
        rep: Repetition levels.
        lowest: From which on an entry begins a list, at least 1; one lower, an item.
        offsets: Room for one more than there are lists; gets the end of the last, too.

    Returns:
        Number of items.
    """
    kernel = load("pages.levels")
    if kernel is None:
        return reference.count_starts(rep=rep, lowest=lowest, offsets=offsets)
    return int(kernel.count_starts(rep, lowest, offsets))


def count_items(
    *,
    rep: Levels,
    definition: Levels,
    lowest: int,
    below: int,
    hidden: int,
    offsets: npt.NDArray[np.int32],
) -> int:
    """Compute list offsets.

    Args:
        rep: Repetition levels.
        definition: Definition levels, as many.
        lowest: Repetition level from which on an entry begins a list, at least 1; one lower, an item.
        below: Entries of a definition level from here on are in no list.
        hidden: Entries of a definition level from here on are no item.
        offsets: Room for one more than there are lists; gets the end of the last, too.

    Returns:
        Number of items.
    """
    kernel = load("pages.levels")
    if kernel is None:
        return reference.count_items(
            rep=rep, definition=definition, lowest=lowest, below=below, hidden=hidden, offsets=offsets
        )
    return int(kernel.count_items(rep, definition, lowest, below, hidden, offsets))


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
    """Compute list offsets, and a code for each list; see `count_items` and `pick_codes`.

    Args:
        rep: Repetition levels.
        definition: Definition levels, as many, each below the number of codes.
        lowest: As `count_items` takes it.
        below: As `count_items` takes it.
        hidden: As `count_items` takes it.
        codes: The code of each definition level.
        offsets: Room for one more than there are lists; gets the end of the last, too.
        found: Room for one more than there are lists; the last one may be written.

    Returns:
        Number of items.
    """
    kernel = load("pages.levels")
    if kernel is None:
        return reference.count_and_pick(
            rep=rep,
            definition=definition,
            lowest=lowest,
            below=below,
            hidden=hidden,
            codes=codes,
            offsets=offsets,
            found=found,
        )
    return int(kernel.count_and_pick(rep, definition, lowest, below, hidden, codes, offsets, found))


def pick_visible_codes(*, definition: Levels, below: int, codes: Bytes, found: Bytes) -> int:
    """Return a code for each slot of the innermost layers.

    Args:
        definition: Definition levels, each below the number of codes.
        below: Entries of a level from here on have no slot.
        codes: The code of each definition level.
        found: Room for one more than there are slots; the last one may be written.

    Returns:
        Number of slots.
    """
    kernel = load("pages.levels")
    if kernel is None:
        return reference.pick_visible_codes(definition=definition, below=below, codes=codes, found=found)
    return int(kernel.pick_visible_codes(definition, below, codes, found))


def pick_codes(
    *, rep: Levels, definition: Levels, lowest: int, below: int, codes: Bytes, found: Bytes
) -> int:
    """Return a code for each slot of a layer.

    Args:
        rep: Repetition levels.
        definition: Definition levels, as many, each below the number of codes.
        lowest: Entries of a repetition level from here on have a slot.
        below: Those of a definition level from here on have none.
        codes: The code of each definition level.
        found: Room for one more than there are slots; the last one may be written.

    Returns:
        Number of slots.
    """
    kernel = load("pages.levels")
    if kernel is None:
        return reference.pick_codes(
            rep=rep, definition=definition, lowest=lowest, below=below, codes=codes, found=found
        )
    return int(kernel.pick_codes(rep, definition, lowest, below, codes, found))


def cut(*, definition: Levels, below: int, values: Integers, cuts: Integers) -> None:
    """Entries at which chunks end that end with a value.

    Args:
        definition: Definition levels.
        below: Entries of a level from here on have no value.
        values: Shape (chunks,): values up to the end of each chunk, from 1 to the number of all, ascending.
        cuts: Shape (chunks,): gets the entries up to the end of each chunk.
    """
    kernel = load("pages.levels")
    if kernel is None:
        reference.cut(definition=definition, below=below, values=values, cuts=cuts)
    else:
        kernel.cut(definition, below, values, cuts)


def find_rows(*, rep: Levels, highest: int, ends: Integers, begun: Integers, lasts: Integers) -> None:
    """Rows that begin in each chunk.

    Args:
        rep: Repetition levels, the first of which begins a row.
        highest: Of an entry that begins a row.
        ends: Shape (chunks,): entries up to the end of each chunk, from 1 to the number of all, ascending.
        begun: Shape (chunks,): gets the number of rows that begin in each.
        lasts: Shape (chunks,): gets the entry at which the last row begins that began in it or before it.
    """
    kernel = load("pages.levels")
    if kernel is None:
        reference.find_rows(rep=rep, highest=highest, ends=ends, begun=begun, lasts=lasts)
    else:
        kernel.find_rows(rep, highest, ends, begun, lasts)
