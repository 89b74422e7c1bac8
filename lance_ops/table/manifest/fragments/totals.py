"""Totals of fragments, and lists derived from others; computed on arrays for many fragments.

Numbers of fragments as arrays, and one example for each kind of fragment: the input of plans.

A list of 100,000 fragments provides both without an object for each.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Integers
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.fragment_list import (
    HAS_DELETIONS,
    HAS_OVERLAYS,
    HAS_ROW_IDS,
    HAS_SPILLED,
    FragmentList,
    FragmentTuple,
    totals_of,
)

_FEW_NAMES = 64
_MOST = (1 << 63) - 1


class FragmentsById(Mapping[int, Fragment]):
    """Fragments by their ids, of a list that creates objects on demand."""

    def __init__(self, fragments: FragmentList) -> None:
        self._fragments = fragments

    def __getitem__(self, fragment_id: int) -> Fragment:
        found = self._fragments.by_id(fragment_id)
        if found is None:
            raise KeyError(fragment_id)
        return found

    def __contains__(self, fragment_id: object) -> bool:
        # numpy integers are not Python integers, but equal as keys of a dict.
        return isinstance(fragment_id, Integral) and self._fragments.position(int(fragment_id)) is not None

    def __iter__(self) -> Iterator[int]:
        return iter(self._fragments.ids.tolist())

    def __len__(self) -> int:
        return len(self._fragments)


class PositionsById(Mapping[int, int]):
    """Positions of fragments by their ids, of a list that creates objects on demand."""

    def __init__(self, fragments: FragmentList) -> None:
        self._fragments = fragments

    def __getitem__(self, fragment_id: int) -> int:
        found = self._fragments.position(fragment_id)
        if found is None:
            raise KeyError(fragment_id)
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self._fragments.ids.tolist())

    def __len__(self) -> int:
        return len(self._fragments)


def positions_by_id(fragments: Sequence[Fragment]) -> Mapping[int, int]:
    """Return the position of each fragment by its id."""
    if isinstance(fragments, FragmentList):
        return PositionsById(fragments)
    return {fragment.id: position for position, fragment in enumerate(fragments)}


def by_id(fragments: Sequence[Fragment]) -> Mapping[int, Fragment]:
    """Return fragments by their ids."""
    if isinstance(fragments, FragmentList):
        return FragmentsById(fragments)
    return {fragment.id: fragment for fragment in fragments}


def fragments_at(fragments: Sequence[Fragment], positions: Sequence[int]) -> Sequence[Fragment]:
    """Return the fragments at some positions, each listed once; without an object for each of many."""
    if isinstance(fragments, FragmentList):
        return fragments.at(np.array(positions, np.int64))
    return FragmentTuple([fragments[position] for position in positions])


def fragments_of(fragments: Sequence[Fragment], ids: Collection[int]) -> Sequence[Fragment]:
    """Return the fragments with some ids, in their order."""
    return fragments_at(fragments, np.flatnonzero(_among(numbers_of(fragments).ids, ids)).tolist())


def rows_of(fragments: Sequence[Fragment], ids: Collection[int]) -> int:
    """Return the number of live rows of the fragments with some ids."""
    numbers = numbers_of(fragments)
    return int(numbers.live_rows[_among(numbers.ids, ids)].sum())


def physical_rows_by_id(fragments: Sequence[Fragment]) -> dict[int, int]:
    """Return the rows of each fragment by its id, with the deleted ones."""
    numbers = numbers_of(fragments)
    return dict(zip(numbers.ids.tolist(), numbers.rows.tolist(), strict=True))


def live_rows_by_id(fragments: Sequence[Fragment]) -> dict[int, int]:
    """Return the live rows of each fragment by its id."""
    numbers = numbers_of(fragments)
    return dict(zip(numbers.ids.tolist(), numbers.live_rows.tolist(), strict=True))


def _among(ids: Integers, some: Collection[int]) -> npt.NDArray[np.bool_]:
    return np.isin(ids, np.fromiter(some, np.int64, len(some)))


def find_fragment(fragments: Sequence[Fragment], fragment_id: int) -> Fragment | None:
    """Return the fragment of an id; None if there is none."""
    if isinstance(fragments, FragmentList):
        return fragments.by_id(fragment_id)
    return next((fragment for fragment in fragments if fragment.id == fragment_id), None)


def ids_of(fragments: Sequence[Fragment]) -> set[int]:
    """Return the ids of the fragments."""
    if isinstance(fragments, FragmentList):
        return set(fragments.ids.tolist())
    return {fragment.id for fragment in fragments}


def highest_id(fragments: Sequence[Fragment]) -> int:
    """Return the highest id; -1 if there is no fragment."""
    if isinstance(fragments, FragmentList):
        return int(fragments.ids.max(initial=-1))
    return totals_of(fragments).highest_id


def total_rows(fragments: Sequence[Fragment]) -> int:
    """Return the number of live rows."""
    if isinstance(fragments, FragmentList):
        return int(fragments.rows.sum() - fragments.deleted_rows.sum())
    totals = totals_of(fragments)
    return totals.rows - totals.deleted_rows


def total_physical_rows(fragments: Sequence[Fragment]) -> int:
    """Return the number of rows, with the deleted ones."""
    if isinstance(fragments, FragmentList):
        return int(fragments.rows.sum())
    return totals_of(fragments).rows


def total_bytes(fragments: Sequence[Fragment]) -> int:
    """Return the recorded bytes of all data files."""
    if isinstance(fragments, FragmentList):
        sizes = fragments.data_bytes
        # Exact Python integers where the sum may overflow an array.
        fits = int(sizes.max(initial=0)) <= _MOST // max(1, len(sizes))
        return int(sizes.sum()) if fits else sum(sizes.tolist())
    return totals_of(fragments).data_bytes


def file_numbers(fragments: Sequence[Fragment]) -> AbstractSet[tuple[int, int]]:
    """Return all versions of data files as (major, minor)."""
    if isinstance(fragments, FragmentList):
        return fragments.file_versions
    return totals_of(fragments).file_versions


def lacking_row_ids(fragments: Sequence[Fragment]) -> list[int]:
    """Return ids of the fragments without stable row ids."""
    if isinstance(fragments, FragmentList):
        lacking: list[int] = fragments.ids[~fragments.has(HAS_ROW_IDS)].tolist()
        return lacking
    if not totals_of(fragments).lack_row_ids:
        return []
    return [fragment.id for fragment in fragments if fragment.row_ids is None]


def have_deletions(fragments: Sequence[Fragment]) -> bool:
    """Return whether any has a deletion file."""
    if isinstance(fragments, FragmentList):
        return bool(fragments.has(HAS_DELETIONS).any())
    return totals_of(fragments).have_deletions


def have_row_ids(fragments: Sequence[Fragment]) -> bool:
    """Return whether any has stable row ids."""
    if isinstance(fragments, FragmentList):
        return bool(fragments.has(HAS_ROW_IDS).any())
    return totals_of(fragments).have_row_ids


def have_spilled(fragments: Sequence[Fragment]) -> bool:
    """Return whether any has a sequence in a data file."""
    if isinstance(fragments, FragmentList):
        return bool(fragments.has(HAS_SPILLED).any())
    return totals_of(fragments).have_spilled


def fragments_with_overlays(fragments: Sequence[Fragment]) -> list[Fragment]:
    """Return the fragments with overlays."""
    if isinstance(fragments, FragmentList):
        return [fragments[place] for place in np.flatnonzero(fragments.has(HAS_OVERLAYS)).tolist()]
    if not totals_of(fragments).have_overlays:
        return []
    return [fragment for fragment in fragments if fragment.overlays]


def any_lacks_row_counts(fragments: Sequence[Fragment]) -> bool:
    """Return whether any fragment does; see `lacks_row_counts`."""
    if isinstance(fragments, FragmentList):
        uncounted = (fragments.rows == 0) & (fragments.file_counts > 0)
        return bool((uncounted | (fragments.has(HAS_DELETIONS) & (fragments.deleted_rows == 0))).any())
    return totals_of(fragments).lack_counts


def named_among(
    fragments: Sequence[Fragment], files: Collection[tuple[int | None, str]]
) -> set[tuple[int | None, str]]:
    """Return which of these data files, as (base, path), belong to the fragments."""
    # Searching for a name in all bytes takes a thousandth of the time of creating objects.
    if isinstance(fragments, FragmentList | FragmentTuple) and len(files) <= _FEW_NAMES:
        files = [file for file in files if fragments.may_name(file[1])]
        if not files:
            return set()
    wanted = frozenset(files)
    present = ((file.base_id, file.path) for fragment in fragments for file in fragment.all_files)
    return {file for file in present if file in wanted}


def with_fragments(
    fragments: Sequence[Fragment],
    instead: Iterable[Fragment] = (),
    removed: Iterable[int] = (),
    added: Iterable[Fragment] = (),
) -> Sequence[Fragment]:
    """Return the list with fragments replaced by id, some removed, and some appended.

    Args:
        fragments: The list.
        instead: Fragments of ids that are in it; others are left out.
        removed: Ids.
        added: More fragments.
    """
    others = {fragment.id: fragment for fragment in instead}
    gone = frozenset(removed)
    if isinstance(fragments, FragmentList):
        return fragments.changed(others, gone, added)
    if others or gone:
        fragments = [others.get(fragment.id, fragment) for fragment in fragments if fragment.id not in gone]
    if not isinstance(fragments, FragmentTuple):
        return FragmentTuple((*fragments, *added))
    return fragments.followed_by(added)


def in_id_order(fragments: Sequence[Fragment]) -> Sequence[Fragment]:
    """Sort by id: pylance calls a manifest in any other order corrupt and loses rows of it."""
    if isinstance(fragments, FragmentList):
        return fragments.in_id_order()
    if isinstance(fragments, FragmentTuple) and fragments.totals.ascend:
        return fragments
    return FragmentTuple(sorted(fragments, key=lambda fragment: fragment.id))


def are_distinct(fragments: Sequence[Fragment]) -> bool:
    """Return whether all ids are distinct."""
    if isinstance(fragments, FragmentList):
        ids = np.sort(fragments.ids)
        return not bool((ids[1:] == ids[:-1]).any())
    return totals_of(fragments).ascend or len({fragment.id for fragment in fragments}) == len(fragments)


def framed(fragments: Sequence[Fragment]) -> bytes:
    """Return all fragments serialised as in a manifest."""
    if isinstance(fragments, FragmentList | FragmentTuple):
        return fragments.framed()
    return FragmentTuple(fragments).framed()


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

    @property
    def live_rows(self) -> Integers:
        """Rows that are not deleted."""
        return self.rows - self.deleted_rows


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


def first_rows(fragments: Sequence[Fragment]) -> Integers:
    """Return the live rows before each fragment, and in total: int64 of (fragments + 1,)."""
    rows = numbers_of(fragments).live_rows
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(rows, out=starts[1:])
    starts.flags.writeable = False
    return starts


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
