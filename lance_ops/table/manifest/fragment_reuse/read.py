"""Fragment reuse, read: its generations, and the way of an address through all of them.

A compaction that leaves the indices as they were adds a generation: groups of fragments that became others,
with the addresses of the rows that survived. A segment that was written before it still holds the old
addresses, and its bitmap may name the old fragments or, once another commit of the peer has stored it, the
new ones. Both are moved through every generation here, oldest first. Ids of fragments are never given twice,
so what is new already stays as it is.
Source: table.proto, FragmentReuseIndexDetails; what the peer makes of it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError
from pyroaring import BitMap64

from lance_ops.errors import (
    CorruptManifestError,
    LanceOpsError,
    PermissionDeniedError,
    StorageError,
    UnsupportedError,
)
from lance_ops.pb import table_pb2
from lance_ops.storage import validate_relative_path
from lance_ops.storage.fork_safe import cached_property
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.index_metadata import FRAGMENT_REUSE_INDEX, IndexMetadata
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.row_address_map import Addresses, AddressMap, MovedGroup

TYPE_URL = "/lance.table.FragmentReuseIndexDetails"
DETAILS_FILE = "details.binpb"
"""File of an entry whose content is too long for a manifest, in the directory of its UUID."""

_OFFSET_BITS = 32
_MOST = (1 << _OFFSET_BITS) - 1
MOST_DELETED = 1 << 28
"""Rows that one group may have lost: they are held in memory, and a few bytes could claim billions."""
_HINT = "rebuild the indices: optimize_indices(rebuild=True), or `lance-ops index URI --rebuild`"
_Details = table_pb2.FragmentReuseIndexDetails


@dataclass(frozen=True, slots=True)
class FragmentDigest:
    """A fragment as a generation knows it."""

    id: int
    physical_rows: int
    num_deleted_rows: int = 0


@dataclass(frozen=True, slots=True)
class ReuseGroup:
    """Fragments that became others.

    Attributes:
        old_fragments: In the order of their ids.
        new_fragments: In the order of their rows.
        survivors: Addresses of the rows of `old_fragments` that were written; the k-th of them is the k-th
            row of `new_fragments`.
    """

    old_fragments: tuple[FragmentDigest, ...]
    new_fragments: tuple[FragmentDigest, ...]
    survivors: BitMap64

    @property
    def old_ids(self) -> frozenset[int]:
        """Ids of the fragments that are gone."""
        return frozenset(fragment.id for fragment in self.old_fragments)

    @property
    def new_ids(self) -> frozenset[int]:
        """Ids of the fragments that have their rows."""
        return frozenset(fragment.id for fragment in self.new_fragments)

    def moved(self) -> MovedGroup:
        """The same with the rows that did not survive, which are fewer."""
        deleted = []
        for fragment in self.old_fragments:
            first = fragment.id << _OFFSET_BITS
            gone = BitMap64(range(first, first + fragment.physical_rows)) - self.survivors
            addresses = np.frombuffer(gone.to_array(), dtype=np.uint64)
            deleted.append(DeletionVector.from_offsets((addresses - np.uint64(first)).astype(np.uint32)))
        return MovedGroup(self.old_fragments, tuple(deleted), self.new_fragments)


@dataclass(frozen=True, slots=True)
class Generation:
    """One compaction.

    Attributes:
        dataset_version: Version that the compaction read; it was committed after it.
        groups: What became what.
        wire: The serialised message, with what newer writers added.
    """

    dataset_version: int
    groups: tuple[ReuseGroup, ...]
    wire: bytes

    @property
    def old_ids(self) -> frozenset[int]:
        """Ids of the fragments that are gone."""
        return frozenset().union(*(group.old_ids for group in self.groups))

    @property
    def new_ids(self) -> frozenset[int]:
        """Ids of the fragments that have their rows."""
        return frozenset().union(*(group.new_ids for group in self.groups))


class FragmentReuse:
    """The content of the fragment reuse index of one version.

    Args:
        entry: The index entry.
        generations: Oldest first.
        problem: Why the content cannot be used. Nobody knows then where rows are that a segment names, so no
            segment covers anything.
    """

    def __init__(
        self,
        entry: IndexMetadata,
        generations: Sequence[Generation] = (),
        problem: LanceOpsError | None = None,
    ) -> None:
        self.entry = entry
        self.generations = tuple(generations)
        self.problem = problem
        self._maps: dict[int, tuple[frozenset[int], AddressMap]] = {}

    def move_fragments(self, fragment_ids: frozenset[int]) -> frozenset[int]:
        """What a bitmap means now: a group that is in it as a whole became its new fragments.

        One that is in it in part is not covered any more, for nobody knows which of its rows are.
        """
        if self.problem is not None:
            return frozenset()
        for generation in self.generations:
            for group in generation.groups:
                old = group.old_ids
                if not old.isdisjoint(fragment_ids):
                    whole = old <= fragment_ids
                    fragment_ids = (fragment_ids - old) | (group.new_ids if whole else frozenset())
        return fragment_ids

    def move_segment(self, segment: IndexMetadata) -> IndexMetadata:
        """A segment with the fragments that it covers now; the index itself and those like it as they are."""
        if segment.is_system or segment.fragment_ids is None:
            return segment
        moved = self.move_fragments(segment.fragment_ids)
        return segment if moved == segment.fragment_ids else replace(segment, fragment_ids=moved)

    def map(self, addresses: Addresses) -> tuple[Addresses, npt.NDArray[np.bool_]]:
        """Where rows are now; see `AddressMap.map`.

        Raises:
            LanceOpsError: The content cannot be used.
            CorruptFileError: An address lies behind the last row of its fragment.
        """
        if self.problem is not None:
            raise self.problem
        moved = addresses.copy()
        kept = np.ones(len(addresses), dtype=np.bool_)
        left = np.arange(len(addresses))
        for number in range(len(self.generations)):
            moves = self._map_of(number, moved[left])
            if moves is not None:
                moved[left], survived = moves.map(moved[left])
                # A row that is gone has no address that the next generation could know.
                kept[left[~survived]] = False
                left = left[survived]
        return moved, kept

    def descendants(self, number: int) -> frozenset[int]:
        """Fragments that hold, or held for a time, rows that a generation moved."""
        found = self.generations[number].new_ids
        for generation in self.generations[number + 1 :]:
            for group in generation.groups:
                if not group.old_ids.isdisjoint(found):
                    found |= group.new_ids
        return found

    def ancestors(self, number: int) -> frozenset[int]:
        """Fragments of whose rows some came, at once or later, to those that a generation moved."""
        found = self.generations[number].old_ids
        for generation in reversed(self.generations[:number]):
            for group in generation.groups:
                if not group.new_ids.isdisjoint(found):
                    found |= group.old_ids
        return found

    def younger(self, number: int, fragment_ids: frozenset[int]) -> frozenset[int]:
        """Those of some fragments that hold rows written after a generation by something else than its like.

        A segment that was written before the generation cannot cover them.
        """
        moved = self.generations[number].new_ids
        oldest = min(moved, default=None)
        if oldest is None:
            return frozenset()
        for generation in self.generations[number + 1 :]:
            for group in generation.groups:
                if all(fragment_id < oldest or fragment_id in moved for fragment_id in group.old_ids):
                    moved |= group.new_ids
        return frozenset(item for item in fragment_ids if item > oldest and item not in moved)

    @cached_property
    def _owners(self) -> tuple[tuple[Addresses, npt.NDArray[np.int64]], ...]:
        """For each generation the ids of old fragments, ascending, and the group that each is in."""
        owners = []
        for generation in self.generations:
            pairs = sorted(
                (fragment.id, number)
                for number, group in enumerate(generation.groups)
                for fragment in group.old_fragments
            )
            ids = np.array([pair[0] for pair in pairs], dtype=np.uint64)
            owners.append((ids, np.array([pair[1] for pair in pairs], dtype=np.int64)))
        return tuple(owners)

    def _map_of(self, number: int, addresses: Addresses) -> AddressMap | None:
        """The map of a generation, of those groups at least that some address is in; None if none is."""
        ids, owners = self._owners[number]
        if not len(ids):
            return None
        fragments = np.unique(addresses >> np.uint64(_OFFSET_BITS))
        position = np.minimum(np.searchsorted(ids, fragments), len(ids) - 1)
        groups = frozenset(owners[position[ids[position] == fragments]].tolist())
        if not groups:
            return None
        known, moves = self._maps.get(number, (frozenset[int](), None))
        if moves is None or not groups <= known:
            known |= groups
            chosen = [self.generations[number].groups[group].moved() for group in sorted(known)]
            moves = AddressMap(chosen)
            self._maps[number] = known, moves
        return moves


def read_fragment_reuse(bases: Bases, manifest: Manifest) -> FragmentReuse | None:
    """The fragment reuse index of a version; None when it has none. Whatever is wrong is its `problem`.

    Raises:
        StorageError: The store failed (other than by refusing access, which lasts). The next reader finds
            where rows went, so nobody may go on as if that were lost: coverage would fall, or be wrong.
    """
    entry = next((index for index in manifest.indices if index.name == FRAGMENT_REUSE_INDEX), None)
    if entry is None:
        return None
    try:
        if manifest.uses_stable_row_ids:
            raise UnsupportedError(
                "the fragment reuse index of a dataset with stable row ids is not understood",
                path=bases.root.uri,
                hint="rebuild its indices with the library that wrote it",
            )
        generations = decode_generations(_content(bases, entry), path=bases.root.uri)
        _check_generations(generations, manifest, path=bases.root.uri)
    except LanceOpsError as error:
        if isinstance(error, StorageError) and not isinstance(error, PermissionDeniedError):
            raise
        return FragmentReuse(entry, problem=error)
    return FragmentReuse(entry, generations)


def _content(bases: Bases, entry: IndexMetadata) -> bytes:
    root = bases.root.uri
    if (entry.index_version or 0) > 0:
        raise UnsupportedError(
            f"the fragment reuse index is of version {entry.index_version}",
            path=root,
            field="index_version",
            hint="use a newer version of lance_ops or of pylance",
        )
    try:
        details = _Details.FromString(entry.details)
    except DecodeError as error:
        raise _corrupt(f"its details cannot be read: {error}", root) from error
    if details.WhichOneof("content") != "external":
        return details.inline.SerializeToString()
    store, directory = bases.index_directory(entry)
    path = f"{directory}/{validate_relative_path(details.external.path)}"
    size = details.external.size
    data = store.read(path, details.external.offset, size or None)
    if size and len(data) != size:
        raise _corrupt(f"{len(data)} bytes of details instead of {size}", f"{store.uri}/{path}")
    return bytes(data)


def decode_generations(content: bytes, *, path: str) -> tuple[Generation, ...]:
    """Read an `InlineContent` message.

    Args:
        content: The message.
        path: For errors.

    Raises:
        CorruptManifestError: It is damaged, or its numbers contradict each other.
        UnsupportedError: It has moves of a newer kind.
    """
    try:
        message = _Details.InlineContent.FromString(content)
    except DecodeError as error:
        raise _corrupt(f"its content cannot be read: {error}", path) from error
    if message.transitions:
        raise UnsupportedError(
            "the fragment reuse index has moves of a newer kind",
            path=path,
            field="transitions",
            hint="use a newer version of lance_ops or of pylance",
        )
    return tuple(
        Generation(
            version.dataset_version,
            tuple(_group(group, path) for group in version.groups),
            version.SerializeToString(deterministic=True),
        )
        for version in message.versions
    )


def _group(message: "table_pb2.FragmentReuseIndexDetails.Group", path: str) -> ReuseGroup:
    old = tuple(_digest(fragment) for fragment in message.old_fragments)
    new = tuple(_digest(fragment) for fragment in message.new_fragments)
    try:
        survivors = BitMap64.deserialize(message.changed_row_addrs)
    except ValueError as error:
        raise _corrupt(f"its row addresses cannot be read: {error}", path) from error
    ids = [fragment.id for fragment in old]
    if any(max(fragment.id, fragment.physical_rows) > _MOST for fragment in (*old, *new)):
        raise _corrupt(f"fragments {ids} have numbers that no row address can have", path)
    if ids != sorted(set(ids)):
        raise _corrupt(f"the fragments {ids} are not in order, so their rows have none", path)
    inside = sum(
        survivors.range_cardinality(first, first + fragment.physical_rows)
        for fragment in old
        for first in [fragment.id << _OFFSET_BITS]
    )
    written = sum(fragment.physical_rows for fragment in new)
    if not inside == len(survivors) == written:
        raise _corrupt(
            f"of {len(survivors)} rows that survived, {inside} are in fragments {ids}, and {written} were "
            f"written",
            path,
        )
    deleted = sum(fragment.physical_rows for fragment in old) - len(survivors)
    if deleted > MOST_DELETED:
        raise _corrupt(f"fragments {ids} lost {deleted:,} rows, more than can be followed", path)
    return ReuseGroup(old, new, survivors)


def _digest(message: "table_pb2.FragmentReuseIndexDetails.FragmentDigest") -> FragmentDigest:
    return FragmentDigest(message.id, message.physical_rows, message.num_deleted_rows)


def _check_generations(generations: Iterable[Generation], manifest: Manifest, *, path: str) -> None:
    live = {fragment.id for fragment in manifest.fragments}
    moved: set[int] = set()
    for generation in generations:
        for group in generation.groups:
            old = group.old_ids
            if not old.isdisjoint(moved):
                raise _corrupt(f"fragments {sorted(old & moved)} are replaced twice", path)
            if not old.isdisjoint(live):
                raise _corrupt(f"fragments {sorted(old & live)} are said to be replaced, and are there", path)
            moved |= old


def _corrupt(message: str, path: str) -> CorruptManifestError:
    return CorruptManifestError(
        f"the fragment reuse index is damaged: {message}", path=path, field="index_details", hint=_HINT
    )


def with_moved_coverage(bases: Bases, manifest: Manifest) -> Manifest:
    """A manifest whose segments name the fragments that they cover now.

    For operations that take fragments out of the coverage: they would not find them under their old ids.

    Raises:
        StorageError: See `read_fragment_reuse`.
    """
    reuse = read_fragment_reuse(bases, manifest)
    if reuse is None or reuse.problem is not None:
        return manifest
    return manifest.replace(indices=tuple(reuse.move_segment(index) for index in manifest.indices))
