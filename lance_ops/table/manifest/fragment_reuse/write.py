"""Writer of the fragment reuse index: a generation for a rewrite that does not remap indices."""

import time
import uuid
from collections.abc import Iterable, Sequence

from pyroaring import BitMap64

from lance_ops.errors import InvalidArgumentError
from lance_ops.pb import table_pb2
from lance_ops.storage import Store
from lance_ops.table.manifest.fragment_reuse.decode import Generation, ReuseGroup
from lance_ops.table.manifest.fragment_reuse.partition import FragmentDigest
from lance_ops.table.manifest.fragment_reuse.read import DETAILS_FILE, TAGGED, TYPE_URL
from lance_ops.table.manifest.index_metadata import FRAGMENT_REUSE_INDEX, IndexMetadata
from lance_ops.table.manifest.row_address_map import MovedGroup, row_addresses

INLINE_BYTES = 200_000
"""Longer content is stored in a file; same limit as pylance."""

_Details = table_pb2.FragmentReuseIndexDetails


def new_generations(
    groups: Iterable[MovedGroup], dataset_version: int, *, is_tagged: bool = False
) -> tuple[Generation, ...]:
    """Return the generations of a rewrite: one transition for each group if the index is tagged, else one.

    Args:
        groups: Replaced fragments and their replacements, with the committed ids.
        dataset_version: Read version of the rewrite. An index built from an older version must be mapped.
        is_tagged: The table has feature flag 1024.
    """
    made = tuple(_group(group) for group in groups)
    if is_tagged:
        return tuple(_transition(group) for group in made)
    message = _Details.Version(
        dataset_version=dataset_version, groups=[_group_message(item) for item in made]
    )
    return (Generation(dataset_version, made, message.SerializeToString(deterministic=True)),)


def _transition(group: ReuseGroup) -> Generation:
    message = _Details.Transition(
        sources=[_digest(fragment) for fragment in group.old_fragments],
        destinations=[_digest(fragment) for fragment in group.new_fragments],
        ordered_compaction=_Details.OrderedCompaction(changed_row_addrs=group.survivors.serialize()),
    )
    return Generation(0, (group,), message.SerializeToString(deterministic=True), is_transition=True)


def _group(group: MovedGroup) -> ReuseGroup:
    survivors = BitMap64()
    old = []
    for fragment, deleted in zip(group.old_fragments, group.deleted, strict=True):
        first = fragment.id << 32
        survivors.add_range(first, first + fragment.physical_rows)
        if len(deleted):
            survivors -= BitMap64(row_addresses(fragment.id, deleted.offsets()))
        old.append(FragmentDigest(fragment.id, fragment.physical_rows, len(deleted)))
    survivors.run_optimize()
    new = tuple(FragmentDigest(fragment.id, fragment.physical_rows) for fragment in group.new_fragments)
    return ReuseGroup(tuple(old), new, survivors)


def _group_message(group: ReuseGroup) -> table_pb2.FragmentReuseIndexDetails.Group:
    return _Details.Group(
        changed_row_addrs=group.survivors.serialize(),
        old_fragments=[_digest(fragment) for fragment in group.old_fragments],
        new_fragments=[_digest(fragment) for fragment in group.new_fragments],
    )


def _digest(fragment: FragmentDigest) -> table_pb2.FragmentReuseIndexDetails.FragmentDigest:
    return _Details.FragmentDigest(
        id=fragment.id, physical_rows=fragment.physical_rows, num_deleted_rows=fragment.num_deleted_rows
    )


def encode_generations(generations: Iterable[Generation]) -> bytes:
    """Serialise generations as an `InlineContent` message."""
    content = _Details.InlineContent()
    for generation in generations:
        if generation.is_transition:
            content.transitions.append(_Details.Transition.FromString(generation.wire))
        else:
            content.versions.append(_Details.Version.FromString(generation.wire))
    return content.SerializeToString(deterministic=True)


def write_fragment_reuse(
    store: Store,
    generations: Sequence[Generation],
    dataset_version: int,
    entry_id: uuid.UUID,
    *,
    is_tagged: bool = False,
) -> IndexMetadata:
    """Create an index entry of generations; long content is written to a file.

    Args:
        store: Root of the dataset.
        generations: Oldest first, at least one.
        dataset_version: Read version of the entry.
        entry_id: Names the entry and its directory.
        is_tagged: The table has feature flag 1024, so that the index is of version 1.
    """
    if not generations:
        raise InvalidArgumentError(
            "a fragment reuse index needs at least one generation", field="generations"
        )
    content = encode_generations(generations)
    if len(content) < INLINE_BYTES:
        details = _Details(inline=_Details.InlineContent.FromString(content))
    else:
        store.put(f"_indices/{entry_id}/{DETAILS_FILE}", content)
        external = table_pb2.ExternalFile(path=DETAILS_FILE, size=len(content))
        details = _Details(external=external)
    fragments = frozenset[int]().union(*(generation.new_ids for generation in generations))
    if is_tagged:
        # The bitmap of a tagged index has all fragments of its history.
        fragments = fragments.union(*(generation.old_ids for generation in generations))
    return IndexMetadata(
        uuid=entry_id,
        name=FRAGMENT_REUSE_INDEX,
        fields=(),
        dataset_version=dataset_version,
        fragment_ids=fragments,
        type_url=TYPE_URL,
        details=details.SerializeToString(deterministic=True),
        index_version=TAGGED if is_tagged else 0,
        created_at=int(time.time() * 1000),
    )
