"""Dropping rows from levels."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.pages.levels import Layer, Levels, visible_below
from lance_ops.encoding.pages.ravel import Raveled
from lance_ops.errors import CorruptFileError

Mask = npt.NDArray[np.bool_]


def keep_levels(
    layers: tuple[Layer, ...],
    rep: Levels | None,
    definition: Levels | None,
    num_entries: int,
    keep: Mask,
) -> tuple[Raveled, Mask]:
    """The levels of the rows that stay.

    Args:
        layers: Of the page, from the innermost outwards; they stay as they are.
        rep: Repetition levels, None without lists.
        definition: Definition levels, None when nothing is null or empty.
        num_entries: Number of levels, also where there are none.
        keep: Which rows stay.

    Returns:
        The levels, with as many nulls for values as there will be values, and which of the values stay.

    Raises:
        CorruptFileError: The levels are not those of so many rows.
    """
    for levels in (rep, definition):
        if levels is not None and len(levels) != num_entries:
            raise CorruptFileError(f"{len(levels)} levels where there are {num_entries} entries")
    lists = sum(layer.is_list for layer in layers)
    if (rep is not None) != (lists > 0):
        raise CorruptFileError(f"a page with {lists} layers of lists and unfitting repetition levels")
    entries = keep
    if rep is not None:
        starts = np.flatnonzero(rep == lists)
        if len(starts) != len(keep) or (len(starts) and starts[0] != 0):
            raise CorruptFileError(f"a page of {len(keep)} rows has levels of {len(starts)}")
        entries = np.repeat(keep, np.diff(starts, append=num_entries))
    elif len(keep) != num_entries:
        raise CorruptFileError(f"a page of {len(keep)} rows has {num_entries} levels")
    values = entries
    if rep is not None and definition is not None:
        values = entries[definition < visible_below(layers)]
    raveled = Raveled(
        layers=layers,
        rep=None if rep is None else rep[entries],
        definition=None if definition is None else definition[entries],
        num_entries=int(np.count_nonzero(entries)),
        num_rows=int(np.count_nonzero(keep)),
        values=pa.nulls(int(np.count_nonzero(values))),
    )
    return raveled, values
