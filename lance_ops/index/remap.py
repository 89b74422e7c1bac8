"""Moving index segments along with rewritten fragments, so that coverage never falls."""

import uuid
from collections.abc import Sequence

from lance_ops.errors import UnreadableIndexError
from lance_ops.index.build import discard_segment, segment_directory
from lance_ops.index.kind import SegmentMove
from lance_ops.index.registry import kind_of
from lance_ops.storage import Store
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.feature_flags import flags_for
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_address_map import AddressMap
from lance_ops.table.transaction.apply_indices import holds_stable_row_ids
from lance_ops.table.transaction.operations import RewrittenIndex
from lance_ops.table.transaction.transaction import job_uuid


def can_follow(segment: IndexMetadata, *, stable_row_ids: bool) -> bool:
    """Whether a segment keeps its coverage when its rows are rewritten; judged by its manifest entry alone.

    `remap_indices` moves addresses of known kinds. Stable row ids need no move, whatever the kind.
    """
    if segment.fragment_ids is None:
        return False
    return kind_of(segment) is not None or (stable_row_ids and holds_stable_row_ids(segment))


def remap_indices(
    dataset: Dataset,
    moves: AddressMap,
    groups: Sequence[tuple[Sequence[Fragment], Sequence[Fragment]]],
    job_key: str | None = None,
) -> tuple[list[RewrittenIndex], list[UnreadableIndexError]]:
    """Write a moved copy of every segment that covers a rewritten fragment.

    Args:
        dataset: The version that the rewrite was planned from.
        moves: Where its rows lie now.
        groups: The fragments that are replaced, and those that replace them.
        job_key: Leaves its mark in the names of the segments; see `write_data_files`.

    Returns:
        What the Rewrite has to carry, and what is wrong with segments that cannot be read: they are left out,
        so that the rewritten fragments leave their coverage and are scanned. Segments of other kinds are left
        out, too: their caller keeps their fragments out of the rewrite (`can_follow`).
    """
    rewritten: list[RewrittenIndex] = []
    unreadable: list[UnreadableIndexError] = []
    rewritten_dataset = _rewritten(dataset, groups)
    try:
        for segment in dataset.indices:
            if not segment.is_system and (segment.fragment_ids or frozenset()) & moves.old_fragment_ids:
                try:
                    new_uuid = uuid.UUID(job_uuid(job_key))
                    move = SegmentMove(
                        dataset, segment, segment_directory(new_uuid), moves, rewritten_dataset
                    )
                    moved = _remap_segment(move, new_uuid)
                except UnreadableIndexError as error:
                    unreadable.append(error)
                    continue
                if moved is not None:
                    rewritten.append(moved)
    except Exception:
        discard_indices(dataset.store, rewritten)
        raise
    return rewritten, unreadable


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


def _remap_segment(move: SegmentMove, new_uuid: uuid.UUID) -> RewrittenIndex | None:
    segment = move.segment
    kind = kind_of(segment)
    stable = move.dataset.manifest.uses_stable_row_ids
    if kind is None or not kind.holds_addresses(segment, stable_row_ids=stable):
        return None
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
        index_version=segment.index_version or 0,
        files=built.files,
    )
