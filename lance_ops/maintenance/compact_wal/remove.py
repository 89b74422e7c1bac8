"""Removal of folded generations: only those that no reader needs.

A reader of a version reads the generations that the version lacks. So a generation is removed when every
version that still exists has it, also older ones and those with a tag: a reader that opens one of them then
reads all rows, and a restore of one brings back none that are missing. Indices that the log writers maintain
must have it, too: by their recorded catch-up, or because they cover all fragments.

The manifest of the shard is published without the generations before their files are removed; the files that
an interrupted run left are removed by the next one. The writer keeps its epoch, and the log is not touched:
a removed log entry could hide from a stale writer that it was fenced.
"""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lance_ops.errors import AlreadyExistsError, NotFoundError
from lance_ops.storage import Store, require_put_if_absent
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.file.read import read_manifest
from lance_ops.table.manifest.fragments.totals import ids_of
from lance_ops.table.manifest.listing import list_versions
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.mem_wal.shards import GENERATION_NAME, Shard, put_without, read_shard
from lance_ops.table.mem_wal.state import MemWalState
from lance_ops.table.transaction.apply_mem_wal import MergedGeneration, maintained, merged_generations

_PUBLISH_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Removed:
    """What was removed of one shard.

    Attributes:
        generations: Generations taken out of the manifest of the shard.
        files: Files removed.
    """

    generations: int
    files: int


def removable_generations(
    dataset: Dataset, state: MemWalState, remove_after: timedelta | None
) -> Mapping[uuid.UUID, int]:
    """Return the last generation of each shard that no reader needs.

    Args:
        dataset: The newest version.
        state: What the shards hold beyond it.
        remove_after: Versions that were superseded longer ago have no readers, unless they have a tag; all
            versions that exist may have readers when None.
    """
    shards = [item.shard for item in state.shards if item.shard.generations or item.merged]
    floor = {item.shard.id: item.merged for item in state.shards}
    for shard, last in _indexed(dataset, state).items():
        floor[shard] = min(floor.get(shard, 0), last)
    # The oldest version is read first: as a rule it decides.
    for manifest in _readable_versions(dataset, remove_after):
        if not any(floor[shard.id] for shard in shards):
            break
        merged = merged_generations(manifest.indices)
        floor = {shard: min(last, merged.get(shard, 0)) for shard, last in floor.items()}
    return floor


def _indexed(dataset: Dataset, state: MemWalState) -> Mapping[uuid.UUID, int]:
    """Return the last generation of each shard that every maintained index has."""
    everything = frozenset(ids_of(dataset.fragments))
    merged = {item.shard.id: item.merged for item in state.shards}
    for name in maintained(state.details, dataset.indices):
        segments = [index.fragment_ids for index in dataset.indices if index.name == name]
        if not segments or everything <= frozenset().union(*(ids for ids in segments if ids is not None)):
            # An index that was dropped serves no reader.
            continue
        caught_up = {
            one.shard: one.generation
            for entry in state.details.index_catchup
            if entry.index_name == name
            for one in map(MergedGeneration.from_proto, entry.caught_up_generations)
        }
        merged = {shard: min(last, caught_up.get(shard, 0)) for shard, last in merged.items()}
    return merged


def _readable_versions(dataset: Dataset, remove_after: timedelta | None) -> Iterator[Manifest]:
    locations = [item for item in list_versions(dataset.store) if item.version < dataset.version]
    tagged = {tag.version for tag in dataset.tags.values()} if remove_after is not None else set()
    since = None if remove_after is None else datetime.now(UTC) - remove_after
    for number, location in enumerate(locations):
        try:
            manifest = read_manifest(dataset.store, location)
            if since is not None and location.version not in tagged:
                after = locations[number + 1] if number + 1 < len(locations) else None
                successor = dataset.manifest if after is None else read_manifest(dataset.store, after)
                if successor.timestamp < since:
                    continue
        except NotFoundError:
            # Cleaned up since the listing.
            continue
        yield manifest


def remove_generations(store: Store, shard_id: uuid.UUID, last: int) -> Removed:
    """Remove the generations of a shard up to a number, and files that interrupted runs and flushes left.

    Args:
        store: Root of the table.
        shard_id: The shard.
        last: The last generation to remove.

    Raises:
        UnsupportedError: The store cannot decide a race with the writer of the shard.
    """
    shard, removed = _publish(store, shard_id, last)
    if shard is None:
        return Removed(0, 0)
    listed = {item.path for item in shard.generations}
    files = 0
    for name in store.list_dirs(shard.folder):
        found = GENERATION_NAME.fullmatch(name)
        folder = f"{shard.folder}/{name}"
        if found is None or int(found[1]) > last or folder in listed:
            continue
        paths = [item.path for item in store.list(folder)]
        store.delete_many(paths)
        files += len(paths)
    return Removed(removed, files)


def _publish(store: Store, shard_id: uuid.UUID, last: int) -> tuple[Shard | None, int]:
    """Publish the manifest without the generations; return the newest one, and how many were removed."""
    removed = 0
    for attempt in range(_PUBLISH_ATTEMPTS):
        shard = read_shard(store, shard_id)
        if shard is None or all(item.number > last for item in shard.generations):
            return shard, removed
        require_put_if_absent(store, shard.folder)
        try:
            removed = len(
                put_without(
                    store,
                    shard,
                    lambda item: item.number <= last,
                    put=lambda path, data: store.put(path, data, if_absent=True),
                )
            )
        except AlreadyExistsError:
            # The writer flushed meanwhile: its manifest is read, and the next number tried.
            if attempt == _PUBLISH_ATTEMPTS - 1:
                raise
    return read_shard(store, shard_id), removed
