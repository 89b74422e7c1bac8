"""Single rows of lists in mini-block pages, and where their values are.

There is no reference: where `available` says no, pages are decoded chunk by chunk.
"""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Bytes, Integers, Levels, Words64
from lance_ops.encoding.kernels import load

DAMAGED = -1
NO_ROOM = -2

RUNS = 17
"""Instead of a width: levels that are there once for a run of equal ones."""

ROOM = 1 << 16
"""The most levels of a chunk, in whole blocks."""


def available() -> bool:
    """Return whether `find_lists` can be called."""
    return load("pages.picking_lists") is not None


def find_lists(
    *,
    data: Bytes,
    words: Words64,
    starts: Integers,
    stops: Integers,
    begun: Integers,
    ended: Integers,
    rows: Integers,
    form: Integers,
    rep: Levels,
    definition: Levels,
    found: npt.NDArray[np.int64],
    scratch: npt.NDArray[np.uint64],
    totals: Integers,
) -> int:
    """Find the levels of rows, and the chunks of their values.

    Args:
        data: Bytes that hold the chunks of all wanted rows; positions that come from them are checked.
        words: All of them in whole words; need not be aligned.
        starts: Shape (chunks,): first byte of each chunk.
        stops: Shape (chunks,): end of each, within the data.
        begun: Shape (chunks,): rows that begin before each chunk.
        ended: Shape (chunks + 1,): rows that end before each chunk, and before the end of the last.
        rows: Shape (rows,): the wanted rows, ascending.
        form: Shape (6,): the width of repetition levels and of definition levels, `RUNS` for runs of them, 0
            for none; the bytes of the size of a value buffer; the value buffers of a chunk; the repetition
            level that begins a row; and the definition level below which an entry has a value.
        rep: Room for repetition levels.
        definition: As much for definition levels, or none where there are none.
        found: Shape (as many, 2 + 2 * parts): gets the table of the values, as `picking` takes it.
        scratch: Shape (2, ROOM / 4), for the loop to unpack levels in.
        totals: Shape (2,): gets the levels and the values.

    Returns:
        0; `DAMAGED`; or `NO_ROOM` when there are more levels than room for them.
    """
    kernel = load("pages.picking_lists")
    assert kernel is not None
    chunks = (data, words, starts, stops, begun, ended)
    return int(kernel.find_lists(*chunks, rows, form, rep, definition, found, scratch, totals))
