"""Application to the MemWAL index: which generations of a write-ahead log the table has. Pure.

The entry `__lance_mem_wal` has no files. Its details record two kinds of progress:

- `merged_generations`: the last generation of each shard whose rows are in the table. It changes in the
  commit that brings the rows, and only upwards: this is what makes a merge happen once.
- `index_catchup`: the last of them that an index has. Readers and garbage collectors rely on it, so an entry
  must not outlive a change of its index; a missing one means not caught up.

Source: MemWAL specification, "MemWAL Index" and "Background Job Expectations". pylance derives the catch-up
entries of an index with each commit that changes the index.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from google.protobuf.message import DecodeError

from lance_ops.errors import RetryableCommitConflictError
from lance_ops.pb import mem_wal_pb2, table_pb2
from lance_ops.table.manifest.index_metadata import IndexMetadata

MEM_WAL_INDEX = "__lance_mem_wal"


@dataclass(frozen=True, slots=True, order=True)
class MergedGeneration:
    """The last generation of one shard whose rows a commit brings.

    Attributes:
        shard: Id of the shard.
        generation: Number, at least 1.
    """

    shard: uuid.UUID
    generation: int

    def to_proto(self) -> mem_wal_pb2.MergedGeneration:
        """Convert to the message."""
        return mem_wal_pb2.MergedGeneration(
            region_id=table_pb2.UUID(uuid=self.shard.bytes), generation=self.generation
        )

    @classmethod
    def from_proto(cls, message: mem_wal_pb2.MergedGeneration) -> "MergedGeneration":
        """Read the message."""
        return cls(uuid.UUID(bytes=message.region_id.uuid), message.generation)


def mem_wal_details(indices: Sequence[IndexMetadata]) -> mem_wal_pb2.MemWalIndexDetails | None:
    """Return the details of the MemWAL index; None without one, or if they cannot be decoded.

    Args:
        indices: Segments of a version.
    """
    entry = next((index for index in indices if index.name == MEM_WAL_INDEX), None)
    try:
        return None if entry is None else mem_wal_pb2.MemWalIndexDetails.FromString(entry.details)
    except DecodeError:
        # Details of an unknown form are preserved, architecture, invariant 7.
        return None


def merged_generations(indices: Sequence[IndexMetadata]) -> Mapping[uuid.UUID, int]:
    """Return the last merged generation of each shard; empty without MemWAL.

    Args:
        indices: Segments of a version.
    """
    details = mem_wal_details(indices)
    found = () if details is None else map(MergedGeneration.from_proto, details.merged_generations)
    return {item.shard: item.generation for item in found}


def record_merged(
    indices: tuple[IndexMetadata, ...], merged: Iterable[MergedGeneration], version: int
) -> tuple[IndexMetadata, ...]:
    """Record the generations that a commit merges.

    Args:
        indices: Segments of the head.
        merged: The last generation of each shard.
        version: The next version.

    Raises:
        RetryableCommitConflictError: The head has some of them already, or no MemWAL.
    """
    merged = tuple(merged)
    if not merged:
        return indices
    details = mem_wal_details(indices)
    if details is None:
        raise _conflict(merged[0], "the table has no MemWAL any more", version - 1)
    known = {MergedGeneration.from_proto(item).shard: item for item in details.merged_generations}
    for item in merged:
        entry = known.get(item.shard)
        if entry is None:
            details.merged_generations.append(item.to_proto())
        elif entry.generation >= item.generation:
            raise _conflict(item, f"generation {entry.generation} is merged already", version - 1)
        else:
            entry.generation = item.generation
    return _with_details(indices, details, version)


def _conflict(ours: MergedGeneration, theirs: str, version: int) -> RetryableCommitConflictError:
    return RetryableCommitConflictError(
        "the MemWAL generations of the table changed",
        ours=f"merge of generation {ours.generation} of shard {ours.shard}",
        theirs=f"version {version}: {theirs}",
        version=version,
    )


def record_catchup(
    indices: tuple[IndexMetadata, ...],
    names: AbstractSet[str],
    fragment_ids: AbstractSet[int],
    version: int,
) -> tuple[IndexMetadata, ...]:
    """Record that indices have all merged generations, if they cover every fragment.

    Args:
        indices: Segments of the next version.
        names: Indices that the commit built or extended. Of these, maintained ones are recorded.
        fragment_ids: Fragments of the next version.
        version: The next version.
    """
    details = mem_wal_details(indices)
    if details is None or not details.merged_generations:
        return indices
    changed = False
    for name in sorted(maintained(details, indices) & names):
        segments = [index.fragment_ids for index in indices if index.name == name]
        covered = frozenset().union(*(ids for ids in segments if ids is not None))
        if not covered >= fragment_ids:
            continue
        entry = next((item for item in details.index_catchup if item.index_name == name), None)
        if entry is None:
            entry = details.index_catchup.add(index_name=name)
        del entry.caught_up_generations[:]
        entry.caught_up_generations.extend(details.merged_generations)
        changed = True
    return _with_details(indices, details, version) if changed else indices


def maintained(details: mem_wal_pb2.MemWalIndexDetails, indices: Iterable[IndexMetadata]) -> frozenset[str]:
    """Return the names of the indices that log writers keep up to date in each generation."""
    if details.maintain_all_indexes:
        return frozenset(index.name for index in indices if not index.is_system)
    return frozenset(details.maintained_indexes)


def drop_stale_catchup(
    before: Sequence[IndexMetadata], after: tuple[IndexMetadata, ...], version: int
) -> tuple[IndexMetadata, ...]:
    """Remove catch-up progress of indices that a commit dropped, rebuilt, extended, remapped or renamed.

    Args:
        before: Segments of the head.
        after: Segments of the next version.
        version: The next version.

    Returns:
        The segments; the same object when nothing was removed. Details that differ from those of the head,
        such as those of a restored version, stay as they are.
    """
    entry = next((index for index in after if index.name == MEM_WAL_INDEX), None)
    if entry is None or entry not in before:
        return after
    details = mem_wal_details(after)
    if details is None:
        return after
    kept = [item for item in details.index_catchup if _is_unchanged(item.index_name, before, after)]
    if len(kept) == len(details.index_catchup):
        return after
    del details.index_catchup[:]
    details.index_catchup.extend(kept)
    return _with_details(after, details, version)


def _with_details(
    indices: tuple[IndexMetadata, ...], details: mem_wal_pb2.MemWalIndexDetails, version: int
) -> tuple[IndexMetadata, ...]:
    # A new id, as in pylance, whose readers cache the details by it.
    return tuple(
        replace(index, uuid=uuid.uuid4(), dataset_version=version, details=details.SerializeToString())
        if index.name == MEM_WAL_INDEX
        else index
        for index in indices
    )


def _is_unchanged(name: str, before: Sequence[IndexMetadata], after: Sequence[IndexMetadata]) -> bool:
    old = [index for index in before if index.name == name]
    return bool(old) and old == [index for index in after if index.name == name]
