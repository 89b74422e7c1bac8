"""Fragment reuse, decoded: the generations that the content of the index consists of.

Version 0 of the index has versions, oldest first, each with the groups of one compaction. Version 1 has
transitions besides, in any order: which comes first follows from their fragments. Source: table.proto,
FragmentReuseIndexDetails; format, fragment reuse index.
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
"""Rows that one group may have lost: they are held in memory, and a few bytes could claim billions."""
_HINT = "rebuild the indices: optimize_indices(rebuild=True), or `lance-ops index URI --rebuild`"
_Details = table_pb2.FragmentReuseIndexDetails
_NEWER = "use a newer version of lance_ops or of pylance"

_Digests = Sequence[FragmentDigest]
OpenPartition = Callable[
    ["table_pb2.FragmentReuseIndexDetails.StablePartition", _Digests, _Digests], StablePartition
]
"""Reads the row map of a partition, given its source and destination fragments."""


@dataclass(frozen=True, slots=True)
class ReuseGroup:
    """Fragments that became others.

    Attributes:
        old_fragments: In the order in which their rows were written.
        new_fragments: In the order of their rows.
        survivors: Addresses of the rows of `old_fragments` that were written; the k-th of them is the k-th
            row of `new_fragments`, unless there is a partition.
        partition: Where each row went in a rewrite that does not keep the order of the rows.
    """

    old_fragments: tuple[FragmentDigest, ...]
    new_fragments: tuple[FragmentDigest, ...]
    survivors: BitMap64
    partition: StablePartition | None = None

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
        groups: What became what.
        wire: The serialised message, with what newer writers added.
        is_transition: It is a transition of a tagged index (feature flag 1024), which has one group and no
            dataset version.
    """

    dataset_version: int
    groups: tuple[ReuseGroup, ...]
    wire: bytes
    is_transition: bool = False

    @property
    def old_ids(self) -> frozenset[int]:
        """Ids of the fragments that are gone."""
        return frozenset().union(*(group.old_ids for group in self.groups))

    @property
    def new_ids(self) -> frozenset[int]:
        """Ids of the fragments that have their rows."""
        return frozenset().union(*(group.new_ids for group in self.groups))


def decode_generations(
    content: bytes, *, path: str, is_tagged: bool = False, open_partition: OpenPartition | None = None
) -> tuple[Generation, ...]:
    """Read an `InlineContent` message.

    Args:
        content: The message.
        path: For errors.
        is_tagged: The index is of version 1, so that there may be transitions.
        open_partition: Reads row maps.

    Returns:
        Each generation after those that made its fragments.

    Raises:
        CorruptManifestError: It is damaged, or its numbers contradict each other.
        UnsupportedError: It has moves of a newer kind.
    """
    try:
        message = _Details.InlineContent.FromString(content)
    except DecodeError as error:
        raise corrupt(f"its content cannot be read: {error}", path) from error
    if message.transitions and not is_tagged:
        raise corrupt("it has transitions, and is of version 0", path)
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
            "the fragment reuse index has moves of a newer kind", path=path, field="transitions", hint=_NEWER
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
            raise corrupt(f"of fragment {fragment.id}, {live} rows survived, not as many as it had", path)
    return Generation(0, (group,), message.SerializeToString(deterministic=True), is_transition=True)


def _in_order(generations: Sequence[Generation], path: str) -> list[Generation]:
    """Generations after those that made their fragments; each fragment is made and replaced once at most."""
    makers: dict[int, int] = {}
    for number, generation in enumerate(generations):
        for fragment_id in (item.id for group in generation.groups for item in group.new_fragments):
            if fragment_id in makers:
                raise corrupt(f"fragment {fragment_id} is made twice", path)
            makers[fragment_id] = number
    sorter: TopologicalSorter[int] = TopologicalSorter()
    made = (item for one in generations for group in one.groups for item in group.new_fragments)
    rows = {item.id: item.physical_rows for item in made}
    for number, generation in enumerate(generations):
        before = {makers[fragment_id] for fragment_id in generation.old_ids if fragment_id in makers}
        # Groups of one compaction do not follow one another.
        sorter.add(number, *before)
        for group in generation.groups:
            for item in group.old_fragments:
                if rows.get(item.id, item.physical_rows) != item.physical_rows:
                    raise corrupt(f"fragment {item.id} has two numbers of rows", path)
    try:
        return [generations[number] for number in sorter.static_order()]
    except CycleError as error:
        raise corrupt("fragments became one another in a circle", path) from error


def _group(message: "table_pb2.FragmentReuseIndexDetails.Group", path: str) -> ReuseGroup:
    old = tuple(_digest(fragment) for fragment in message.old_fragments)
    new = tuple(_digest(fragment) for fragment in message.new_fragments)
    ids = [fragment.id for fragment in old]
    if ids != sorted(ids):
        raise corrupt(f"the fragments {ids} are not in order, so their rows have none", path)
    return _ordered(old, new, message.changed_row_addrs, path)


def _ordered(
    old: tuple[FragmentDigest, ...], new: tuple[FragmentDigest, ...], addresses: bytes, path: str
) -> ReuseGroup:
    try:
        survivors = BitMap64.deserialize(addresses)
    except ValueError as error:
        raise corrupt(f"its row addresses cannot be read: {error}", path) from error
    ids = _check_digests(old, new, path)
    inside = sum(
        survivors.range_cardinality(first, first + fragment.physical_rows)
        for fragment in old
        for first in [fragment.id << OFFSET_BITS]
    )
    written = sum(fragment.physical_rows for fragment in new)
    if not inside == len(survivors) == written:
        raise corrupt(
            f"of {len(survivors)} rows that survived, {inside} are in fragments {ids}, and {written} were "
            f"written",
            path,
        )
    deleted = sum(fragment.physical_rows for fragment in old) - len(survivors)
    if deleted > MOST_DELETED:
        raise corrupt(f"fragments {ids} lost {deleted:,} rows, more than can be followed", path)
    return ReuseGroup(old, new, survivors)


def _check_digests(old: Sequence[FragmentDigest], new: Sequence[FragmentDigest], path: str) -> list[int]:
    ids = [fragment.id for fragment in old]
    if any(max(fragment.id, fragment.physical_rows) > _MOST for fragment in (*old, *new)):
        raise corrupt(f"fragments {ids} have numbers that no row address can have", path)
    if len(set(ids)) < len(ids):
        raise corrupt(f"the fragments {ids} are not in order, so their rows have none", path)
    return ids


def _digest(message: "table_pb2.FragmentReuseIndexDetails.FragmentDigest") -> FragmentDigest:
    return FragmentDigest(message.id, message.physical_rows, message.num_deleted_rows)


def corrupt(message: str, path: str) -> CorruptManifestError:
    """Return the error for a damaged fragment reuse index."""
    return CorruptManifestError(
        f"the fragment reuse index is damaged: {message}", path=path, field="index_details", hint=_HINT
    )
