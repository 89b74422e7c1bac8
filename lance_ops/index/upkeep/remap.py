"""Moving index segments along with rewritten fragments, so that coverage never falls."""

import uuid
from collections.abc import Sequence

from lance_ops.errors import UnreadableIndexError
from lance_ops.index.kind import SegmentMove
from lance_ops.index.registry import kind_of
from lance_ops.index.upkeep.build import discard_segment, segment_directory
from lance_ops.index.upkeep.routes import Route, SegmentRoute
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.feature_flags import flags_for
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragment_reuse_write import new_generation, write_fragment_reuse
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_address_map import AddressMap
from lance_ops.table.transaction.operations import RewrittenIndex
from lance_ops.table.transaction.transaction import job_uuid


def remap_indices(
    dataset: Dataset,
    moves: AddressMap,
    groups: Sequence[tuple[Sequence[Fragment], Sequence[Fragment]]],
    routes: Sequence[SegmentRoute],
    job_key: str | None = None,
) -> tuple[list[RewrittenIndex], list[UnreadableIndexError]]:
    """Write a moved copy of every segment that covers a rewritten fragment and is to be moved at once.

    Args:
        dataset: The version that the rewrite was planned from.
        moves: Where its rows lie now.
        groups: The fragments that are replaced, and those that replace them.
        routes: How each segment follows.
        job_key: Leaves its mark in the names of the segments; see `write_data_files`.

    Returns:
        What the Rewrite has to carry, and what is wrong with segments that cannot be read: they are left out,
        so that the rewritten fragments leave their coverage and are scanned.
    """
    rewritten: list[RewrittenIndex] = []
    unreadable: list[UnreadableIndexError] = []
    rewritten_dataset = _rewritten(dataset, groups)
    try:
        for segment in (item.segment for item in routes if item.route in (Route.MOVE, Route.LOOK)):
            if (segment.fragment_ids or frozenset()) & moves.old_fragment_ids:
                try:
                    new_uuid = uuid.UUID(job_uuid(job_key))
                    move = SegmentMove(
                        dataset, segment, segment_directory(new_uuid), moves, rewritten_dataset
                    )
                    rewritten.append(_remap_segment(move, new_uuid))
                except UnreadableIndexError as error:
                    unreadable.append(error)
    except Exception:
        discard_indices(dataset.store, rewritten)
        raise
    return rewritten, unreadable


def defer_remap(
    dataset: Dataset,
    moves: AddressMap,
    routes: Sequence[SegmentRoute],
    read_version: int,
    job_key: str | None = None,
) -> IndexMetadata | None:
    """Write the fragment reuse index that leads from segments that stay as they are to their rows.

    Args:
        dataset: The version that the rewrite was planned from.
        moves: Where its rows lie now.
        routes: How each segment follows.
        read_version: The version that the rewrite is committed on.
        job_key: Leaves its mark in the name of its directory.

    Returns:
        The entry that replaces the one of `dataset`; None when the rewrite touches no deferred segment.
    """
    waiting = (item.segment for item in routes if item.route is Route.DEFER)
    if not any((segment.fragment_ids or frozenset()) & moves.old_fragment_ids for segment in waiting):
        return None
    reuse = dataset.fragment_reuse
    earlier = () if reuse is None else reuse.generations
    added = new_generation(moves.groups, read_version)
    entry_id = uuid.UUID(job_uuid(job_key))
    try:
        return write_fragment_reuse(dataset.store, (*earlier, added), read_version, entry_id)
    except Exception:
        # A file whose answer was lost may be there.
        discard_segment(dataset.store, entry_id)
        raise


def discard_indices(store: Store, rewritten: list[RewrittenIndex]) -> None:
    """Delete the files of segments that no version refers to."""
    for index in rewritten:
        discard_segment(store, index.new_uuid)


def _rewritten(dataset: Dataset, groups: Sequence[tuple[Sequence[Fragment], Sequence[Fragment]]]) -> Dataset:
    """The dataset with the new fragments in place of the old ones, before it is committed."""
    old = {fragment.id for group, _ in groups for fragment in group}
    kept = [fragment for fragment in dataset.fragments if fragment.id not in old]
    manifest = dataset.manifest.replace(
        fragments=(*kept, *(fragment for _, group in groups for fragment in group))
    )
    reader_flags, writer_flags = flags_for(manifest)
    manifest = manifest.replace(reader_flags=reader_flags, writer_flags=writer_flags)
    return Dataset(dataset.store, dataset.location, manifest, storage_options=dataset.storage_options)


def _remap_segment(move: SegmentMove, new_uuid: uuid.UUID) -> RewrittenIndex:
    segment = move.segment
    kind = kind_of(segment)
    assert kind is not None
    try:
        built = kind.remap(move)
    except Exception:
        discard_segment(move.dataset.store, new_uuid)
        raise
    return RewrittenIndex(
        old_uuid=segment.uuid,
        new_uuid=new_uuid,
        type_url=segment.type_url,
        details=built.details,
        index_version=(segment.index_version or 0) if built.index_version is None else built.index_version,
        files=built.files,
    )
