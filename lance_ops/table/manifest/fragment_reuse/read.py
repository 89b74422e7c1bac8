"""Reader of the fragment reuse index: its generations, and address mapping through all of them.

A compaction with deferred remap adds a generation: groups of replaced fragments with the addresses of the
surviving rows. A segment that was written before it still has the old addresses, and its bitmap may name the
old fragments or, once another commit of pylance has stored it, the new ones. Both are mapped through every
generation here, oldest first. Fragment ids are never reused, so new ids are unchanged. Source: table.proto,
FragmentReuseIndexDetails; the behaviour of pylance.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from lance_ops.errors import LanceOpsError, PermissionDeniedError, StorageError, UnsupportedError
from lance_ops.pb import table_pb2
from lance_ops.storage import validate_relative_path
from lance_ops.storage.fork_safe import cached_property
from lance_ops.table.manifest.base_paths import Bases
from lance_ops.table.manifest.fragment_reuse.decode import Generation, corrupt, decode_generations
from lance_ops.table.manifest.fragment_reuse.partition import (
    MAP_FILE,
    MAPS_FOLDER,
    FragmentDigest,
    StablePartition,
)
from lance_ops.table.manifest.fragments.totals import ids_of
from lance_ops.table.manifest.index_metadata import FRAGMENT_REUSE_INDEX, IndexMetadata
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.manifest.row_address_map import Addresses, AddressMap

TYPE_URL = "/lance.table.FragmentReuseIndexDetails"
TAGGED = 1
"""Version of an index that may have transitions; version 0 has none."""
DETAILS_FILE = "details.binpb"
"""File of an entry whose content is too long for a manifest, in the directory of its UUID."""

_OFFSET_BITS = 32
_Details = table_pb2.FragmentReuseIndexDetails


class FragmentReuse:
    """The content of the fragment reuse index of one version.

    Args:
        entry: The index entry.
        generations: Oldest first.
        problem: Why the content cannot be used. Row locations are then unknown, so no segment covers
            anything.
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
        self.partitions = {
            number: generation.groups[0].partition
            for number, generation in enumerate(self.generations)
            if generation.groups and generation.groups[0].partition is not None
        }

    def row_maps(self) -> list[tuple[int | None, str]]:
        """Return files of the partitions, by base and path.

        Raises:
            LanceOpsError: The content of a tagged index cannot be used, so they are unknown.
        """
        if self.problem is not None and self.entry.index_version:
            raise self.problem
        messages = [
            _Details.Transition.FromString(self.generations[number].wire).stable_partition
            for number in self.partitions
        ]
        return [
            (message.base_id if message.HasField("base_id") else None, _map_path(message))
            for message in messages
        ]

    def move_fragments(self, fragment_ids: frozenset[int]) -> frozenset[int]:
        """Map a fragment bitmap: complete groups are replaced by their new fragments.

        A group that is only partly in it is no longer covered, because it is unknown which of its rows are.
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
        """Return a segment with its current coverage; system indices are unchanged."""
        if segment.is_system or segment.fragment_ids is None:
            return segment
        moved = self.move_fragments(segment.fragment_ids)
        return segment if moved == segment.fragment_ids else replace(segment, fragment_ids=moved)

    def map(self, addresses: Addresses) -> tuple[Addresses, npt.NDArray[np.bool_]]:
        """Return current row addresses; see `AddressMap.map`.

        Raises:
            LanceOpsError: The content cannot be used.
            CorruptFileError: An address is beyond the last row of its fragment.
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
                # A deleted row has no address in the next generation.
                kept[left[~survived]] = False
                left = left[survived]
        return moved, kept

    def descendants(self, number: int) -> frozenset[int]:
        """Return fragments that hold, or temporarily held, rows that a generation moved."""
        found = self.generations[number].new_ids
        for generation in self.generations[number + 1 :]:
            for group in generation.groups:
                if not group.old_ids.isdisjoint(found):
                    found |= group.new_ids
        return found

    def ancestors(self, number: int) -> frozenset[int]:
        """Return fragments from which the rows of a generation come, directly or indirectly."""
        found = self.generations[number].old_ids
        for generation in reversed(self.generations[:number]):
            for group in generation.groups:
                if not group.new_ids.isdisjoint(found):
                    found |= group.old_ids
        return found

    def younger(self, number: int, fragment_ids: frozenset[int]) -> frozenset[int]:
        """Return fragments with rows written after a generation by something other than a compaction.

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
        """Return for each generation the ids of old fragments, ascending, and the group of each."""
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

    def _map_of(self, number: int, addresses: Addresses) -> AddressMap | StablePartition | None:
        """Return the map of a generation, at least for groups with an address; None if there are none."""
        if number in self.partitions:
            return self.partitions[number]
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


def named_row_maps(bases: Bases, entries: Iterable[IndexMetadata]) -> list[tuple[int | None, str]]:
    """Return files of the partitions in the fragment reuse index of a version, by base and path.

    Raises:
        LanceOpsError: They are unknown.
    """
    found: list[tuple[int | None, str]] = []
    for entry in entries:
        if entry.name != FRAGMENT_REUSE_INDEX:
            continue
        try:
            content = _Details.InlineContent.FromString(_content(bases, entry))
            for transition in content.transitions:
                kind = transition.WhichOneof("mapping")
                if kind is None:
                    raise UnsupportedError("the fragment reuse index has row maps of an unknown kind")
                if kind == "stable_partition":
                    map_ = transition.stable_partition
                    found.append((map_.base_id if map_.HasField("base_id") else None, _map_path(map_)))
        except (DecodeError, ValueError) as error:
            raise corrupt(f"the row maps cannot be read: {error}", bases.root.uri) from error
    return found


def read_fragment_reuse(bases: Bases, manifest: Manifest) -> FragmentReuse | None:
    """Read the fragment reuse index of a version; None when it has none. Damage is reported as its `problem`.

    Raises:
        StorageError: The store failed (other than by refusing access, which is permanent). The index is
            probably intact, so it must not be treated as lost: coverage would shrink, or be wrong.
    """
    entry = next((index for index in manifest.indices if index.name == FRAGMENT_REUSE_INDEX), None)
    if entry is None:
        return None
    try:
        if manifest.uses_stable_row_ids:
            raise UnsupportedError(
                "the fragment reuse index of a dataset with stable row ids is not supported",
                path=bases.root.uri,
                hint="rebuild its indices with the library that wrote it",
            )
        generations = decode_generations(
            _content(bases, entry),
            path=bases.root.uri,
            is_tagged=entry.index_version == TAGGED,
            open_partition=partial(_open_partition, bases),
        )
        _check_generations(generations, manifest, path=bases.root.uri)
    except LanceOpsError as error:
        if isinstance(error, StorageError) and not isinstance(error, PermissionDeniedError):
            raise
        return FragmentReuse(entry, problem=error)
    return FragmentReuse(entry, generations)


def _content(bases: Bases, entry: IndexMetadata) -> bytes:
    root = bases.root.uri
    if (entry.index_version or 0) > TAGGED:
        raise UnsupportedError(
            f"the fragment reuse index has unsupported version {entry.index_version}",
            path=root,
            field="index_version",
            hint="use a newer version of lance_ops or of pylance",
        )
    try:
        details = _Details.FromString(entry.details)
    except DecodeError as error:
        raise corrupt(f"details cannot be parsed: {error}", root) from error
    if details.WhichOneof("content") != "external":
        return details.inline.SerializeToString()
    store, directory = bases.index_directory(entry)
    path = f"{directory}/{validate_relative_path(details.external.path)}"
    size = details.external.size
    data = store.read(path, details.external.offset, size or None)
    if size and len(data) != size:
        raise corrupt(f"details have {len(data)} bytes instead of {size}", f"{store.uri}/{path}")
    return bytes(data)


def _open_partition(
    bases: Bases,
    message: "table_pb2.FragmentReuseIndexDetails.StablePartition",
    sources: Sequence[FragmentDigest],
    destinations: Sequence[FragmentDigest],
) -> StablePartition:
    try:
        path = _map_path(message)
    except ValueError as error:
        raise corrupt(f"{message.map_id!r} is not the id of a row map", bases.root.uri) from error
    store = bases.store_for(message.base_id if message.HasField("base_id") else None)
    return StablePartition.read(store, path, message.map_size_bytes, sources, destinations)


def _map_path(message: "table_pb2.FragmentReuseIndexDetails.StablePartition") -> str:
    return f"{MAPS_FOLDER}/{uuid.UUID(message.map_id)}/{MAP_FILE}"


def _check_generations(generations: Iterable[Generation], manifest: Manifest, *, path: str) -> None:
    live = ids_of(manifest.fragments)
    moved: set[int] = set()
    for generation in generations:
        for group in generation.groups:
            old = group.old_ids
            if not old.isdisjoint(moved):
                raise corrupt(f"fragments {sorted(old & moved)} are replaced twice", path)
            if not old.isdisjoint(live):
                raise corrupt(f"fragments {sorted(old & live)} are recorded as replaced, but exist", path)
            moved |= old


def with_moved_coverage(bases: Bases, manifest: Manifest) -> Manifest:
    """Return a manifest whose segments have their current coverage.

    For operations that remove fragments from the coverage: they would not find them under their old ids.

    Raises:
        StorageError: See `read_fragment_reuse`.
        LanceOpsError: A tagged index cannot be used here, but other or later readers may use it: the coverage
            that they see would be unchanged.
    """
    reuse = read_fragment_reuse(bases, manifest)
    if reuse is not None and reuse.problem is not None and reuse.entry.index_version:
        raise reuse.problem
    if reuse is None or reuse.problem is not None:
        return manifest
    return manifest.replace(indices=tuple(reuse.move_segment(index) for index in manifest.indices))
