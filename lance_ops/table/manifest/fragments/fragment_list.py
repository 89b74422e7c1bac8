"""Fragment list: many fragments, each of which becomes an object on demand.

A version of 100,000 fragments is opened, counted, and followed by a version with one more fragment by means
of arrays over all of them; their bytes are copied from manifest to manifest.

Fragment tuple: few fragments as objects, with totals and bytes that commits update incrementally.

An append adds to both, independent of the number of existing fragments: a small commit takes as long on the
thousandth fragment as on the first. For many fragments use `fragment_list`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, TypeVar, overload

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Integers
from lance_ops.encoding.distinct import distinct
from lance_ops.encoding.kernels import wire
from lance_ops.errors import CorruptManifestError
from lance_ops.pb import summary_pb2
from lance_ops.table.manifest.fragment import Fragment

FRAGMENTS_FIELD = 2
"""Number of the fragments field in the Manifest message."""

IRREGULAR = wire.IRREGULAR
"""Flag of fragments whose bytes are only read by the message library."""
HAS_DELETIONS, HAS_ROW_IDS = wire.HAS_DELETIONS, wire.HAS_ROW_IDS
HAS_SPILLED = 8
HAS_OVERLAYS = 16
MIXED_VERSIONS = -1
"""Replaces the version of data files if a fragment has several."""

_MAX_ROWS = 1 << 32
_MAX_IDS = 1 << 32


class FragmentList(Sequence[Fragment]):
    """Fragments in the order of rows; made by `read_list`, otherwise used as a tuple of them.

    Args:
        data: Buffer with the serialised fragments, each with its tag and length as in a manifest.
        places: Shape (3, fragments): start of the tag, start of the message, end of the message.
        table: Shape (fragments, 7), see `fronts.wire`.
        built: Existing objects, by position.
    """

    __slots__ = ("_by_id", "_data", "_kinds", "_places", "_table", "built")

    def __init__(
        self, data: bytes, places: Integers, table: Integers, built: dict[int, Fragment] | None = None
    ) -> None:
        self._data = data
        self._places = places
        self._table = table
        self._by_id: tuple[Integers, Integers] | None = None
        self._kinds: Integers | None = None
        self.built = {} if built is None else built

    # A sequence, equal to the tuple of the same fragments

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, position: int) -> Fragment: ...

    @overload
    def __getitem__(self, position: slice) -> "FragmentList": ...

    def __getitem__(self, position: int | slice) -> "Fragment | FragmentList":
        if isinstance(position, slice):
            return self._part(position)
        number = range(len(self))[position]
        found = self.built.get(number)
        if found is None:
            _, start, stop = self._places[:, number].tolist()
            # Two threads may access it concurrently: both get the same object.
            found = self.built.setdefault(number, Fragment.from_bytes(self._data[start:stop]))
        return found

    def __iter__(self) -> Iterator[Fragment]:
        # Lazily: an iteration that stops early creates no object behind its end.
        return map(self.__getitem__, range(len(self)))

    def __contains__(self, item: object) -> bool:
        return isinstance(item, Fragment) and self.by_id(item.id) == item

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, FragmentList):
            same_length = len(self) == len(other)
            return same_length and (self.framed() == other.framed() or tuple(self) == tuple(other))
        return tuple(self) == other if isinstance(other, tuple) and len(self) == len(other) else False

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{len(self):,} fragments>"

    def __reduce__(self) -> tuple[object, ...]:
        return (_of_frames, (self.framed(),))

    # Numbers of all of them

    @property
    def ids(self) -> Integers:
        """Ids."""
        return self._table[:, wire.ID]

    @property
    def rows(self) -> Integers:
        """Rows of the files, deleted ones included."""
        return self._table[:, wire.ROWS]

    @property
    def deleted_rows(self) -> Integers:
        """Deleted rows."""
        return self._table[:, wire.DELETED]

    @property
    def data_bytes(self) -> Integers:
        """Recorded bytes of the data files."""
        return self._table[:, wire.SIZE]

    @property
    def file_counts(self) -> Integers:
        """Number of data files of each."""
        return self._table[:, wire.FILES]

    @property
    def file_versions(self) -> set[tuple[int, int]]:
        """Version of the data files as (major, minor), all that occur."""
        numbers = self._table[:, wire.VERSION]
        found = distinct(numbers[(self.file_counts > 0) & (numbers != MIXED_VERSIONS)])
        mixed = np.flatnonzero(numbers == MIXED_VERSIONS).tolist()
        several = {(file.major, file.minor) for position in mixed for file in self[position].files}
        return several | {(number >> 32, number & 0xFFFF_FFFF) for number in found.tolist()}

    @property
    def kinds(self) -> Integers:
        """Return for each fragment the position of one with the same file layout, see `wire.find_kinds`."""
        if self._kinds is None and not len(self):
            self._kinds = np.zeros(0, np.int64)
        if self._kinds is None:
            data = np.frombuffer(self._data, np.uint8)
            self._kinds = wire.find_kinds(data=data, starts=self._places[1], stops=self._places[2])
        return self._kinds

    def has(self, flag: int) -> npt.NDArray[np.bool_]:
        """Return a mask of fragments with a flag such as `HAS_DELETIONS`, `HAS_ROW_IDS` or `HAS_OVERLAYS`."""
        flags: Integers = self._table[:, wire.FLAGS]
        chosen: npt.NDArray[np.bool_] = (flags & flag) != 0
        return chosen

    @property
    def encoded(self) -> tuple[bytes, Integers, Integers]:
        """Return a buffer, and where the serialised message of each fragment starts and stops in it."""
        return self._data, self._places[1], self._places[2]

    # Single fragments

    def position(self, fragment_id: int) -> int | None:
        """Return the position of a fragment by id; None if there is none."""
        if self._by_id is None:
            order = np.argsort(self.ids, kind="stable")
            self._by_id = (order, np.ascontiguousarray(self.ids[order]))
        order, ids = self._by_id
        place = int(np.searchsorted(ids, fragment_id))
        return int(order[place]) if place < len(ids) and ids[place] == fragment_id else None

    def by_id(self, fragment_id: int) -> Fragment | None:
        """Return the fragment of an id; None if there is none."""
        place = self.position(fragment_id)
        return None if place is None else self[place]

    def may_name(self, path: str) -> bool:
        """Return whether a data file of this path may be among those of the fragments."""
        return path.encode() in self._data

    # Derived lists

    def framed(self) -> bytes:
        """Return all fragments serialised as in a manifest."""
        begins, _, stops = self._places
        if not len(begins):
            return b""
        # Mostly they are contiguous.
        cuts = np.flatnonzero(begins[1:] != stops[:-1])
        firsts = begins[np.concatenate([[0], cuts + 1])].tolist()
        lasts = stops[np.concatenate([cuts, [len(stops) - 1]])].tolist()
        return b"".join([self._data[first:last] for first, last in zip(firsts, lasts, strict=True)])

    def in_id_order(self) -> "FragmentList":
        """Return the list sorted by id."""
        ids = self.ids
        return self if bool((ids[1:] > ids[:-1]).all()) else self._at(np.argsort(ids, kind="stable"))

    def changed(
        self, instead: Mapping[int, Fragment], removed: Collection[int], added: Iterable[Fragment]
    ) -> "FragmentList":
        """Return the list with some fragments replaced by id, some removed, and some added.

        Args:
            instead: By id; of ids that are in the list.
            removed: Ids; ids that are not in the list are ignored.
            added: They come last.
        """
        kept = ~np.isin(self.ids, np.fromiter(removed, np.int64, len(removed)))
        places = [place for number in instead if (place := self.position(number)) is not None]
        places = [place for place in places if kept[place]]
        more = [*(instead[int(self.ids[place])] for place in places), *added]
        data, known = self._data, self._places
        if len(data) > 2 * int((known[2] - known[0]).sum()):
            # Bytes of replaced fragments are not kept forever.
            data = self.framed()
            known = _packed(known)
        frames = [_frame(fragment.to_bytes()) for fragment in more]
        lengths = np.array([len(frame) for frame in frames], np.int64)
        sizes = np.array([len(fragment.to_bytes()) for fragment in more], np.int64)
        stops = len(data) + np.cumsum(lengths, dtype=np.int64)
        tail = np.stack([stops - lengths, stops - sizes, stops])
        rows = np.array([_row(fragment) for fragment in more], np.int64).reshape(-1, 7)
        count = len(self)
        order = np.arange(count)
        order[places] = np.arange(count, count + len(places))
        order = np.concatenate([order[kept], np.arange(count + len(places), count + len(more))])
        built = {**self.built, **{count + number: fragment for number, fragment in enumerate(more)}}
        whole = FragmentList(
            b"".join([data, *frames]),
            np.concatenate([known, tail], axis=1),
            np.concatenate([self._table, rows]),
            built,
        )
        return whole if len(order) == count and not more else whole._at(order)

    def at(self, positions: Integers) -> "FragmentList":
        """Return fragments at some positions, each listed once."""
        return self._at(positions)

    def _part(self, chosen: slice) -> "FragmentList":
        start, stop, step = chosen.indices(len(self))
        if step != 1:
            return self._at(np.arange(len(self))[chosen])
        # Views of existing arrays: ranges are cut out of a long list thousands of times.
        stop = max(start, stop)
        if len(self.built) <= stop - start:
            built = {at - start: found for at, found in list(self.built.items()) if start <= at < stop}
        else:
            built = {at - start: self.built[at] for at in range(start, stop) if at in self.built}
        return FragmentList(self._data, self._places[:, start:stop], self._table[start:stop], built)

    def _at(self, order: Integers) -> "FragmentList":
        places = np.ascontiguousarray(self._places[:, order])
        table = np.ascontiguousarray(self._table[order])
        built = dict(self.built)
        if built:
            inverse = np.full(len(self), -1, np.int64)
            inverse[order] = np.arange(len(order))
            moved = zip(inverse[list(built)].tolist(), list(built.values()), strict=False)
            built = {place: fragment for place, fragment in moved if place >= 0}
        return FragmentList(self._data, places, table, built)


def read_list(message: bytes) -> tuple[FragmentList, bytes] | None:
    """Read the fragments of a serialised manifest.

    Args:
        message: The Manifest message.

    Returns:
        The fragments, and the message without them; None if it has to be read in another way, since it is
        damaged.

    Raises:
        CorruptManifestError: A fragment is damaged, or has impossible row counts.
    """
    data = np.frombuffer(message, np.uint8)
    found = wire.find_members(data=data, number=FRAGMENTS_FIELD)
    if found is None:
        return None
    begins, starts, stops = found
    table = wire.read_fragments(data=data, starts=starts, stops=stops)
    built: dict[int, Fragment] = {}
    for position in np.flatnonzero(table[:, wire.FLAGS] & wire.IRREGULAR).tolist():
        fragment = check_fragment(Fragment.from_bytes(message[starts[position] : stops[position]]))
        built[position], table[position] = fragment, _row(fragment)
    edges = np.concatenate([[0], stops]), np.concatenate([begins, [len(message)]])
    # Mostly they are contiguous, with nothing between them.
    apart = edges[1] > edges[0]
    between = zip(edges[0][apart].tolist(), edges[1][apart].tolist(), strict=True)
    rest = b"".join([message[first:last] for first, last in between])
    return FragmentList(message, np.stack([begins, starts, stops]), table, built), rest


def check_fragment(fragment: Fragment) -> Fragment:
    """Check the row counts of a fragment and return it.

    Raises:
        CorruptManifestError: They are impossible.
    """
    # A row address has 32 bits for the row; larger sums would overflow.
    if max(fragment.physical_rows, fragment.num_deleted_rows) > _MAX_ROWS:
        raise CorruptManifestError(
            f"fragment {fragment.id} has impossible row counts: {fragment.physical_rows} rows, "
            f"{fragment.num_deleted_rows} of them deleted",
            field="fragments",
        )
    # Legacy writers did not record the number of rows.
    if 0 < fragment.physical_rows < fragment.num_deleted_rows:
        raise CorruptManifestError(
            f"fragment {fragment.id} has {fragment.physical_rows} rows and more deleted rows",
            field="fragments",
        )
    return fragment


def check_id_range(highest: int) -> None:
    """Refuse fragment ids of more than 32 bits, the range of row addresses.

    Raises:
        CorruptManifestError: Names the id.
    """
    if highest >= _MAX_IDS:
        raise CorruptManifestError(f"fragment id {highest} is out of range", field="fragments")


def _packed(places: Integers) -> Integers:
    """Return positions of fragments once they are contiguous."""
    lengths = places[2] - places[0]
    stops = np.cumsum(lengths, dtype=np.int64)
    return np.stack([stops - lengths, stops - (places[2] - places[1]), stops])


def _row(fragment: Fragment) -> tuple[int, ...]:
    check_id_range(fragment.id)
    versions = {file.major << 32 | file.minor for file in fragment.files}
    flags = IRREGULAR
    flags |= HAS_DELETIONS if fragment.deletion_file is not None else 0
    flags |= HAS_ROW_IDS if fragment.row_ids is not None else 0
    flags |= HAS_SPILLED if fragment.spilled else 0
    flags |= HAS_OVERLAYS if fragment.overlays else 0
    return (
        fragment.id,
        fragment.physical_rows,
        fragment.num_deleted_rows,
        min(fragment.data_bytes, (1 << 63) - 1),
        len(fragment.files),
        versions.pop() if len(versions) == 1 else MIXED_VERSIONS,
        flags,
    )


def _frame(message: bytes) -> bytes:
    return summary_pb2.ManifestView(fragments=[message]).SerializeToString()


def _of_frames(frames: bytes) -> Any:
    found = read_list(frames)
    if found is not None:
        return found[0]
    # It may be loaded on a machine without compiler.
    return tuple(map(Fragment.from_bytes, summary_pb2.ManifestView.FromString(frames).fragments))


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
