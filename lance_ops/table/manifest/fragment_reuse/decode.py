"""Decoder of the fragment reuse index: its generations.

Version 0 of the index has versions, oldest first, each with the groups of one compaction. Version 1 also has
transitions, in any order, which follows from their fragments. Source: table.proto, FragmentReuseIndexDetails;
format, fragment reuse index.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import numpy as np
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-not-found]  # no stub
from pyroaring import BitMap64

from lance_ops.errors import CorruptManifestError, UnsupportedError
from lance_ops.pb import table_pb2
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment_reuse.partition import FragmentDigest, StablePartition
from lance_ops.table.manifest.row_address_map import MovedGroup

OFFSET_BITS = 32
_MOST = (1 << OFFSET_BITS) - 1
MOST_DELETED = 1 << 28
"""Maximum rows that one group may have lost: they are held in memory, and a few bytes could claim billions.
"""
_HINT = "rebuild the indices: optimize_indices(rebuild=True), or `lance-ops index URI --rebuild`"
_Details = table_pb2.FragmentReuseIndexDetails
_NEWER = "use a newer version of lance_ops or of pylance"

_Digests = Sequence[FragmentDigest]
OpenPartition = Callable[
    ["table_pb2.FragmentReuseIndexDetails.StablePartition", _Digests, _Digests], StablePartition
]
"""Function that reads the row map of a partition, given its source and destination fragments."""


@dataclass(frozen=True, slots=True)
class ReuseGroup:
    """Replaced fragments and their replacements.

    Attributes:
        old_fragments: In the order in which their rows were written.
        new_fragments: In the order of their rows.
        survivors: Addresses of the rows of `old_fragments` that were written; the k-th of them is the k-th
            row of `new_fragments`, unless there is a partition.
        partition: Row map of a rewrite that does not keep the row order.
    """

    old_fragments: tuple[FragmentDigest, ...]
    new_fragments: tuple[FragmentDigest, ...]
    survivors: BitMap64
    partition: StablePartition | None = None

    @property
    def old_ids(self) -> frozenset[int]:
        """Ids of the replaced fragments."""
        return frozenset(fragment.id for fragment in self.old_fragments)

    @property
    def new_ids(self) -> frozenset[int]:
        """Ids of the fragments that replace them."""
        return frozenset(fragment.id for fragment in self.new_fragments)

    def moved(self) -> MovedGroup:
        """Return the group with its deleted rows, which are fewer than the survivors."""
        deleted = []
        for fragment in self.old_fragments:
            first = fragment.id << OFFSET_BITS
            gone = BitMap64(range(first, first + fragment.physical_rows)) - self.survivors
            addresses = np.frombuffer(gone.to_array(), dtype=np.uint64)
            deleted.append(DeletionVector.from_offsets((addresses - np.uint64(first)).astype(np.uint32)))
        return MovedGroup(self.old_fragments, tuple(deleted), self.new_fragments)


@dataclass(frozen=True, slots=True)
class Generation:
    """One compaction.

    Attributes:
        dataset_version: Version that the compaction read; it was committed after it.
        groups: Replaced fragments and their replacements.
        wire: The serialised message, with fields of newer writers.
        is_transition: It is a transition of a tagged index (feature flag 1024), which has one group and no
            dataset version.
    """

    dataset_version: int
    groups: tuple[ReuseGroup, ...]
    wire: bytes
    is_transition: bool = False

    @property
    def old_ids(self) -> frozenset[int]:
        """Ids of the replaced fragments."""
        return frozenset().union(*(group.old_ids for group in self.groups))

    @property
    def new_ids(self) -> frozenset[int]:
        """Ids of the fragments that replace them."""
        return frozenset().union(*(group.new_ids for group in self.groups))


def decode_generations(
    content: bytes, *, path: str, is_tagged: bool = False, open_partition: OpenPartition | None = None
) -> tuple[Generation, ...]:
    """Read an `InlineContent` message.

    Args:
        content: The message.
        path: For errors.
        is_tagged: The index has version 1 and may have transitions.
        open_partition: Reads row maps.

    Returns:
        Generations, each after those that created its fragments.

    Raises:
        CorruptManifestError: It is damaged, or inconsistent.
        UnsupportedError: It has row maps of a newer kind.
    """
    try:
        message = _Details.InlineContent.FromString(content)
    except DecodeError as error:
        raise corrupt(f"content cannot be parsed: {error}", path) from error
    if message.transitions and not is_tagged:
        raise corrupt("version 0 must not have transitions", path)
    versions = [
        Generation(
            version.dataset_version,
            tuple(_group(group, path) for group in version.groups),
            version.SerializeToString(deterministic=True),
        )
        for version in message.versions
    ]
    transitions = [_transition(transition, open_partition, path) for transition in message.transitions]
    return tuple(_in_order([*versions, *transitions], path) if transitions else versions)


def _transition(
    message: "table_pb2.FragmentReuseIndexDetails.Transition", open_partition: OpenPartition | None, path: str
) -> Generation:
    if len(UnknownFieldSet(message)):
        raise UnsupportedError(
            "the fragment reuse index has row maps of a newer kind",
            path=path,
            field="transitions",
            hint=_NEWER,
        )
    sources = tuple(_digest(fragment) for fragment in message.sources)
    destinations = tuple(_digest(fragment) for fragment in message.destinations)
    kind = message.WhichOneof("mapping")
    if kind is None or not sources:
        raise corrupt("a transition has no mapping or no source", path)
    if kind == "ordered_compaction":
        group = _ordered(sources, destinations, message.ordered_compaction.changed_row_addrs, path)
    elif open_partition is None:
        raise UnsupportedError("the row maps of the fragment reuse index cannot be read here", path=path)
    else:
        _check_digests(sources, destinations, path)
        partition = open_partition(message.stable_partition, sources, destinations)
        group = ReuseGroup(sources, destinations, partition.survivors(), partition)
    for fragment in sources:
        first = fragment.id << OFFSET_BITS
        live = group.survivors.range_cardinality(first, first + fragment.physical_rows)
        if live != fragment.physical_rows - fragment.num_deleted_rows:
            raise corrupt(
                f"the surviving row count of fragment {fragment.id} does not match (expected "
                f"{fragment.physical_rows - fragment.num_deleted_rows}, got {live})",
                path,
            )
    return Generation(0, (group,), message.SerializeToString(deterministic=True), is_transition=True)


def _in_order(generations: Sequence[Generation], path: str) -> list[Generation]:
    """Order generations after those that created their fragments."""
    makers: dict[int, int] = {}
    for number, generation in enumerate(generations):
        for fragment_id in (item.id for group in generation.groups for item in group.new_fragments):
            if fragment_id in makers:
                raise corrupt(f"fragment {fragment_id} is created twice", path)
            makers[fragment_id] = number
    sorter: TopologicalSorter[int] = TopologicalSorter()
    made = (item for one in generations for group in one.groups for item in group.new_fragments)
    rows = {item.id: item.physical_rows for item in made}
    for number, generation in enumerate(generations):
        before = {makers[fragment_id] for fragment_id in generation.old_ids if fragment_id in makers}
        # Groups of one compaction are independent of each other.
        sorter.add(number, *before)
        for group in generation.groups:
            for item in group.old_fragments:
                if rows.get(item.id, item.physical_rows) != item.physical_rows:
                    raise corrupt(f"fragment {item.id} has two different row counts", path)
    try:
        return [generations[number] for number in sorter.static_order()]
    except CycleError as error:
        raise corrupt("the replacements of fragments form a cycle", path) from error


def _group(message: "table_pb2.FragmentReuseIndexDetails.Group", path: str) -> ReuseGroup:
    old = tuple(_digest(fragment) for fragment in message.old_fragments)
    new = tuple(_digest(fragment) for fragment in message.new_fragments)
    ids = [fragment.id for fragment in old]
    if ids != sorted(ids):
        raise corrupt(f"the fragment ids {ids} are not ascending", path)
    return _ordered(old, new, message.changed_row_addrs, path)


def _ordered(
    old: tuple[FragmentDigest, ...], new: tuple[FragmentDigest, ...], addresses: bytes, path: str
) -> ReuseGroup:
    try:
        survivors = BitMap64.deserialize(addresses)
    except ValueError as error:
        raise corrupt(f"row addresses cannot be read: {error}", path) from error
    ids = _check_digests(old, new, path)
    inside = sum(
        survivors.range_cardinality(first, first + fragment.physical_rows)
        for fragment in old
        for first in [fragment.id << OFFSET_BITS]
    )
    written = sum(fragment.physical_rows for fragment in new)
    if not inside == len(survivors) == written:
        raise corrupt(
            f"{len(survivors)} rows survived, of which {inside} are in fragments {ids}, but {written} "
            "were written",
            path,
        )
    deleted = sum(fragment.physical_rows for fragment in old) - len(survivors)
    if deleted > MOST_DELETED:
        raise corrupt(
            f"fragments {ids} lost {deleted:,} rows, more than the supported {MOST_DELETED:,}", path
        )
    return ReuseGroup(old, new, survivors)


def _check_digests(old: Sequence[FragmentDigest], new: Sequence[FragmentDigest], path: str) -> list[int]:
    ids = [fragment.id for fragment in old]
    if any(max(fragment.id, fragment.physical_rows) > _MOST for fragment in (*old, *new)):
        raise corrupt(f"fragment ids {ids} are out of the range of row addresses", path)
    if len(set(ids)) < len(ids):
        raise corrupt(f"the fragment ids {ids} are not ascending", path)
    return ids


def _digest(message: "table_pb2.FragmentReuseIndexDetails.FragmentDigest") -> FragmentDigest:
    return FragmentDigest(message.id, message.physical_rows, message.num_deleted_rows)


def corrupt(message: str, path: str) -> CorruptManifestError:
    """Return the error for a damaged fragment reuse index."""
    return CorruptManifestError(
        f"the fragment reuse index is damaged: {message}", path=path, field="index_details", hint=_HINT
    )
