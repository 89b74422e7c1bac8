"""Fragment tuple: few fragments as objects, with totals and bytes that commits update incrementally.

An append adds to both, independent of the number of existing fragments: a small commit takes as long on the
thousandth fragment as on the first. For many fragments use `fragment_list`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, TypeVar, overload

from lance_ops.pb import summary_pb2
from lance_ops.table.manifest.fragment import Fragment

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over fragments; the totals of two lists can be added.

    Attributes:
        highest_id: -1 where there is no fragment.
        rows: In their files, with the deleted ones.
        deleted_rows: As recorded.
        data_bytes: Recorded bytes of all data files.
        files: Number of data files.
        file_versions: Versions of the data files as (major, minor), all that occur.
        have_deletions: Any has a deletion file.
        have_row_ids: Any has stable row ids.
        lack_row_ids: Any has none.
        have_spilled: Any has a sequence in a data file.
        have_overlays: Any has newer values over its data files.
        lack_counts: Any lacks counts of rows, see `lacks_row_counts`.
        ascend: Each id is higher than the one before.
    """

    highest_id: int = -1
    rows: int = 0
    deleted_rows: int = 0
    data_bytes: int = 0
    files: int = 0
    file_versions: frozenset[tuple[int, int]] = frozenset()
    have_deletions: bool = False
    have_row_ids: bool = False
    lack_row_ids: bool = False
    have_spilled: bool = False
    have_overlays: bool = False
    lack_counts: bool = False
    ascend: bool = True

    def followed_by(self, fragments: Iterable[Fragment]) -> "Totals":
        """Return the totals when fragments come after those of these totals."""
        highest, rows, deleted, data_bytes, files = (
            self.highest_id,
            self.rows,
            self.deleted_rows,
            self.data_bytes,
            self.files,
        )
        versions = set(self.file_versions)
        deletions, row_ids, lack_ids = self.have_deletions, self.have_row_ids, self.lack_row_ids
        spilled, overlays = self.have_spilled, self.have_overlays
        lack_counts, ascend = self.lack_counts, self.ascend
        for fragment in fragments:
            ascend = ascend and fragment.id > highest
            highest = max(highest, fragment.id)
            rows += fragment.physical_rows
            data_bytes += fragment.data_bytes
            files += len(fragment.files)
            versions.update([(file.major, file.minor) for file in fragment.files])
            if fragment.deletion_file is not None:
                deletions = True
                deleted += fragment.deletion_file.num_deleted_rows
            if fragment.row_ids is None:
                lack_ids = True
            else:
                row_ids = True
            spilled = spilled or bool(fragment.spilled)
            overlays = overlays or bool(fragment.overlays)
            lack_counts = lack_counts or lacks_row_counts(fragment)
        return Totals(
            highest,
            rows,
            deleted,
            data_bytes,
            files,
            frozenset(versions),
            deletions,
            row_ids,
            lack_ids,
            spilled,
            overlays,
            lack_counts,
            ascend,
        )


class FragmentTuple(tuple[Fragment, ...]):  # noqa: SLOT001 - a tuple has room for none
    """A tuple of fragments that caches values derived from them."""

    _totals: Totals | None = None
    _framed: bytes | None = None
    _made: dict[Callable[..., Any], Any] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return (FragmentTuple, (tuple(self),))

    @overload
    def __getitem__(self, place: SupportsIndex) -> Fragment: ...
    @overload
    def __getitem__(self, place: slice) -> "FragmentTuple": ...
    def __getitem__(self, place: Any) -> Any:
        """Return one fragment, or a slice, which caches its values, too; a full slice is this tuple."""
        found = super().__getitem__(place)
        if not isinstance(place, slice):
            return found
        return self if len(found) == len(self) and place.step is None else FragmentTuple(found)

    def kept(self, make: Callable[[Sequence[Fragment]], _T]) -> _T:
        """Return the cached result of a function of these fragments; callers must not change it."""
        if self._made is None:
            self._made = {}
        if make not in self._made:
            self._made[make] = make(self)
        found: _T = self._made[make]
        return found

    @property
    def totals(self) -> Totals:
        """Return totals over all fragments."""
        if self._totals is None:
            self._totals = Totals().followed_by(self)
        return self._totals

    def framed(self) -> bytes:
        """Return all fragments serialised as in a manifest."""
        if self._framed is None:
            self._framed = _framed(self)
        return self._framed

    def may_name(self, path: str) -> bool:
        """Return whether a data file of this path may be among those of the fragments."""
        return path.encode() in self.framed()

    def followed_by(self, fragments: Iterable[Fragment]) -> "FragmentTuple":
        """Return these fragments followed by others."""
        more = tuple(fragments)
        result = FragmentTuple((*self, *more))
        if self._totals is not None:
            result._totals = self._totals.followed_by(more)
        if self._framed is not None:
            result._framed = self._framed + _framed(more)
        return result


def lacks_row_counts(fragment: Fragment) -> bool:
    """Return whether the manifest lacks the number of rows or deleted rows of a fragment."""
    if fragment.physical_rows == 0 and fragment.files:
        return True
    return fragment.deletion_file is not None and fragment.deletion_file.num_deleted_rows == 0


def totals_of(fragments: Sequence[Fragment]) -> Totals:
    """Return the totals of fragments; cached for a `FragmentTuple`."""
    return fragments.totals if isinstance(fragments, FragmentTuple) else Totals().followed_by(fragments)


def _framed(fragments: Iterable[Fragment]) -> bytes:
    view = summary_pb2.ManifestView(fragments=[fragment.to_bytes() for fragment in fragments])
    return view.SerializeToString()
