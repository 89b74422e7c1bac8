"""Row removal from repetition and definition levels."""

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
    """Return the levels of the kept rows.

    Args:
        layers: Of the page, from the innermost outwards; unchanged.
        rep: Repetition levels, None without lists.
        definition: Definition levels, None if nothing is null or empty.
        num_entries: Number of entries, also without levels.
        keep: The kept rows.

    Returns:
        The levels, with as many nulls as kept values, and a mask of the kept values.

    Raises:
        CorruptFileError: The levels do not match the number of rows.
    """
    for levels in (rep, definition):
        if levels is not None and len(levels) != num_entries:
            raise CorruptFileError(
                f"number of levels does not match (expected {num_entries}, got {len(levels)})"
            )
    lists = sum(layer.is_list for layer in layers)
    if (rep is not None) != (lists > 0):
        raise CorruptFileError(f"repetition levels of the page do not match its {lists} list layers")
    entries = keep
    if rep is not None:
        starts = np.flatnonzero(rep == lists)
        if len(starts) != len(keep) or (len(starts) and starts[0] != 0):
            raise CorruptFileError(
                f"levels of the page do not match its rows (expected {len(keep)}, got {len(starts)})"
            )
        entries = np.repeat(keep, np.diff(starts, append=num_entries))
    elif len(keep) != num_entries:
        raise CorruptFileError(
            f"levels of the page do not match its rows (expected {len(keep)}, got {num_entries})"
        )
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
