"""Numbers of fragments as arrays, and one example for each kind of fragment: the input of plans.

A list of 100,000 fragments provides both without an object for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Integers
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.fragment_list import HAS_DELETIONS, FragmentList
from lance_ops.table.manifest.fragments.fragment_tuple import FragmentTuple

_MOST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class FragmentNumbers:
    """Numbers of fragments: one array for each attribute, int64 unless stated otherwise.

    Attributes:
        ids: Ids.
        rows: Rows of the files, deleted ones included.
        deleted_rows: Deleted rows.
        data_bytes: Recorded bytes of data files and overlays.
        file_counts: How many data files each has.
        has_deletions: True if it has a deletion file; of bool.
    """

    ids: Integers
    rows: Integers
    deleted_rows: Integers
    data_bytes: Integers
    file_counts: Integers
    has_deletions: npt.NDArray[np.bool_]


def numbers_of(fragments: Sequence[Fragment]) -> FragmentNumbers:
    """Return the numbers of fragments, in their order."""
    if isinstance(fragments, FragmentList):
        return FragmentNumbers(
            fragments.ids,
            fragments.rows,
            fragments.deleted_rows,
            fragments.data_bytes,
            fragments.file_counts,
            fragments.has(HAS_DELETIONS),
        )
    return fragments.kept(_add_up) if isinstance(fragments, FragmentTuple) else _add_up(fragments)


def _add_up(fragments: Sequence[Fragment]) -> FragmentNumbers:
    table = np.array(
        [
            (
                fragment.id,
                fragment.physical_rows,
                fragment.num_deleted_rows,
                min(fragment.data_bytes, _MOST),
                len(fragment.files),
                fragment.deletion_file is not None,
            )
            for fragment in fragments
        ],
        np.int64,
    ).reshape(-1, 6)
    # Those of a tuple of fragments are cached.
    table.flags.writeable = False
    ids, rows, deleted, size, files, flags = table.T
    return FragmentNumbers(ids, rows, deleted, size, files, flags.astype(bool))


def kinds_of(fragments: Sequence[Fragment]) -> Integers:
    """Return for each fragment the position of one of the same kind, often its own.

    Fragments of one kind have as many data files, with the same fields in the same columns of the same
    versions, and no overlays. Two of a kind may have different positions.
    """
    if isinstance(fragments, FragmentList):
        return fragments.kinds
    return fragments.kept(_find_kinds) if isinstance(fragments, FragmentTuple) else _find_kinds(fragments)


def _find_kinds(fragments: Sequence[Fragment]) -> Integers:
    first: dict[object, int] = {}
    kinds = np.array(
        [
            number if fragment.overlays else first.setdefault(_kind(fragment), number)
            for number, fragment in enumerate(fragments)
        ],
        np.int64,
    )
    kinds.flags.writeable = False
    return kinds


def examples(fragments: Sequence[Fragment]) -> list[tuple[Fragment, int]]:
    """Return one fragment of each kind, with the number of fragments of that kind; see `kinds_of`."""
    counts = np.bincount(kinds_of(fragments))
    return [(fragments[place], int(counts[place])) for place in np.flatnonzero(counts).tolist()]


def running_totals(values: Integers) -> npt.NDArray[Any]:
    """Return exact cumulative sums before each value and in total; Python integers if they are large."""
    if len(values) and int(values.max()) > _MOST // len(values):
        return np.cumsum(np.array([0, *values.tolist()], object))
    return np.cumsum(np.concatenate([np.zeros(1, np.int64), values]))


def _kind(fragment: Fragment) -> object:
    return tuple((file.fields, file.column_indices, file.major, file.minor) for file in fragment.files)
