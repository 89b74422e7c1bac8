"""Rank order: location of rows in rewritten fragments, by rank among the live rows. Pure.

A rewrite keeps its live rows in order, so the k-th live row of the replaced fragments is the k-th live row of
the new ones. This holds whenever both sides are compared with the same rows deleted, also if rows were
deleted on both sides since the rewrite read them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.errors import InvalidArgumentError
from lance_ops.table.manifest.deletion_vector import DeletionVector

NO_ROWS = DeletionVector.from_offsets([])


@dataclass(frozen=True, slots=True)
class RankedRows:
    """The rows of one fragment.

    Attributes:
        physical_rows: Deleted ones included.
        deleted: Offsets of these.
    """

    physical_rows: int
    deleted: DeletionVector = NO_ROWS

    @property
    def live_rows(self) -> int:
        """Rows that have a rank."""
        return self.physical_rows - len(self.deleted)

    @property
    def live(self) -> DeletionVector:
        """Their offsets."""
        every = DeletionVector.from_offsets(range(self.physical_rows))
        return every.difference(self.deleted)


def have_one_order(old: Sequence[RankedRows], new: Sequence[RankedRows]) -> bool:
    """Return whether both sides have equally many live rows; ranks are not comparable otherwise."""
    return sum(rows.live_rows for rows in old) == sum(rows.live_rows for rows in new)


def move_rows(
    old: Sequence[RankedRows], new: Sequence[RankedRows], rows: Mapping[int, DeletionVector]
) -> list[DeletionVector]:
    """Find rows of replaced fragments in those that replace them.

    Args:
        old: The replaced fragments, in the order of their rows.
        new: Those that replace them, in that order.
        rows: Live rows, by position in `old`.

    Returns:
        The same rows, for each of `new`.

    Raises:
        InvalidArgumentError: The sides have different numbers of live rows, or a row is not live.
    """
    if not have_one_order(old, new):
        counts = [sum(side.live_rows for side in sides) for sides in (old, new)]
        raise InvalidArgumentError(
            f"the number of live rows changed from {counts[0]} to {counts[1]}: they have no common order"
        )
    ranks = [np.zeros(0, np.int64)]
    for position, wanted in sorted(rows.items()):
        if len(wanted.intersection(old[position].deleted)):
            raise InvalidArgumentError("a deleted row has no rank among the live ones")
        ranks.append(ranks_of(old, position, wanted.offsets()))
    owners, offsets = rows_of(new, np.concatenate(ranks))
    return [DeletionVector.from_offsets(offsets[owners == position]) for position in range(len(new))]


def ranks_of(
    sides: Sequence[RankedRows], position: int, offsets: npt.NDArray[np.integer]
) -> npt.NDArray[np.int64]:
    """Return how many live rows precede each given live row.

    Args:
        sides: Fragments in the order of their rows.
        position: Index of the fragment of the rows.
        offsets: Row offsets in it.
    """
    before = sum(side.live_rows for side in sides[:position])
    places = offsets.astype(np.int64)
    return before + places - np.searchsorted(sides[position].deleted.offsets(), places)


def rows_of(
    sides: Sequence[RankedRows], ranks: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the live rows of some ranks.

    Returns:
        (position of the fragment, offset in it) of each.
    """
    starts = np.concatenate(([0], np.cumsum([side.live_rows for side in sides], dtype=np.int64)))
    owners = np.searchsorted(starts[1:], ranks, side="right").astype(np.int64)
    offsets = ranks - starts[owners]
    for position in np.unique(owners).tolist():
        gone = sides[position].deleted.offsets().astype(np.int64)
        # The number of live rows before each deleted one; deleted rows at or below the rank precede the row.
        before = gone - np.arange(len(gone))
        mine = owners == position
        offsets[mine] += np.searchsorted(before, offsets[mine], side="right")
    return owners, offsets
