"""Joined fragments: fragments with the same file layout, opened as one, for repeated reads of few rows."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from lance_ops.cache import Cache
from lance_ops.file.io.row_selection import Integers, join_lengths
from lance_ops.file.joined_files import JoinedFiles
from lance_ops.file.versions import is_legacy
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.open_files import OpenFiles

MOST_FRAGMENTS = 512
"""Maximum number of fragments read as one: all of their files are open."""

_MOST_KINDS, _FRAGMENT_BYTES = 2, 1 << 10


def file_kind(fragment: Fragment) -> Hashable:
    """Return the file layout by which fragments can be joined; None if they cannot."""
    files = fragment.files
    if (
        not files
        or fragment.has_overlays
        # The files of another base may be slow to read, which is better done concurrently.
        or any(file.base_id is not None or is_legacy(file.major, file.minor) for file in files)
    ):
        return None
    return tuple([(file.fields, file.column_indices, file.major, file.minor) for file in files])


@dataclass(frozen=True, slots=True)
class JoinedFragments:
    """Fragments read as one.

    Attributes:
        fragments: By their ids, which is the order of their rows here.
        ids: Their ids, int64 of (fragments,), ascending.
        starts: Cumulative number of the first row of each, and of all rows: int64 of
            (fragments + 1,).
        places: Position of each, by its id.
        first_rows: Number of its first row, likewise.
        files: The files at each position of a fragment, as one.
        columns: The physical column of each field in these.
    """

    fragments: tuple[Fragment, ...]
    ids: Integers
    starts: Integers
    places: dict[int, int]
    first_rows: dict[int, int]
    files: tuple[JoinedFiles, ...]
    columns: tuple[dict[int, int], ...]


class JoinedViews:
    """Cache of joined fragments: repeated queries mostly read the same ones."""

    def __init__(self) -> None:
        self._views: Cache[int, JoinedFragments] = Cache("joined fragments", _MOST_KINDS)

    def find(self, fragments: Sequence[Fragment]) -> JoinedFragments | None:
        """What has some fragments, if they are joined already."""
        for kind, view in self._views.items():
            if _has(view, fragments):
                return self._views.get(kind)
        return None

    def join(self, bases: Bases, files: OpenFiles, fragments: Sequence[Fragment]) -> JoinedFragments | None:
        """Join fragments, possibly with others.

        Args:
            bases: Locations of files.
            files: Opens them.
            fragments: Of one `file_kind`, at most `MOST_FRAGMENTS`, in order.

        Returns:
            None when the files turn out to differ.

        Raises:
            CorruptFileError: A file is damaged or does not have the rows of its fragment.
        """
        # A small key: it is looked up again and again.
        kind = hash(file_kind(fragments[0]))
        view = self._views.get(kind)
        wanted = {fragment.id: fragment for fragment in fragments}
        if view is not None:
            if _has(view, fragments):
                return view
            known = {fragment.id: fragment for fragment in view.fragments}
            if len(known | wanted) <= MOST_FRAGMENTS:
                wanted = known | wanted
        view = _join(bases, files, [wanted[number] for number in sorted(wanted)])
        if view is not None:
            self._views.put(kind, view, _FRAGMENT_BYTES * len(wanted))
        return view


def _has(view: JoinedFragments, fragments: Sequence[Fragment]) -> bool:
    """Return whether exactly these fragments are joined, not others with the same ids."""
    for fragment in fragments:
        place = view.places.get(fragment.id)
        if place is None:
            return False
        files = view.fragments[place].files
        if files is not fragment.files and files != fragment.files:
            return False
    return True


def _join(bases: Bases, files: OpenFiles, fragments: Sequence[Fragment]) -> JoinedFragments | None:
    places = range(len(fragments[0].files))
    joined: list[JoinedFiles] = []
    columns: list[dict[int, int]] = []
    for place in places:
        opened = [files.open(bases, one.files[place], one.physical_rows) for one in fragments]
        found = JoinedFiles.of([one.reader for one in opened])
        known = opened[0].columns
        if found is None or known is None:
            return None
        joined.append(found)
        columns.append({number: column for number, column in known.items() if column >= 0})
    ids = np.array([fragment.id for fragment in fragments], dtype=np.int64)
    starts = join_lengths(np.array([fragment.physical_rows for fragment in fragments], dtype=np.int64))
    first_rows = dict(zip(ids.tolist(), starts.tolist(), strict=False))
    places_of = {fragment.id: number for number, fragment in enumerate(fragments)}
    return JoinedFragments(
        tuple(fragments), ids, starts, places_of, first_rows, tuple(joined), tuple(columns)
    )
