"""Lost rows: rows in a segment that it no longer covers.

An update in place removes fragments from the coverage of a segment, whose files still contain their rows.
Pylance combines the coverage of all segments of an index: once another segment covers such rows, release
14.0.2 also finds them by their old values. Rows of a fragment that a compaction has removed since displace
others in search results. A single segment does no harm.

Removed row ids: indices of tables with stable row ids that contain rows removed by a compaction.

Such an index needs no remap, so a compaction does not rewrite it. Release 14.0.2 of pylance counts the
removed rows in results of full-text and vector indices, and returns fewer rows than requested, until the
segments are rewritten (`optimize_indices`).
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from lance_ops.errors import UnreadableIndexError
from lance_ops.index.coverage import IndexCoverage, effective_fragments
from lance_ops.index.inverted.kind import InvertedKind
from lance_ops.index.kind import IndexKind
from lance_ops.index.reading import current_addresses, reading
from lance_ops.index.registry import kind_of
from lance_ops.index.row_id_files import is_gone
from lance_ops.index.row_ids import absent_row_ids
from lance_ops.index.upkeep.routes import Route, SegmentRoute, cost_of_move
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.data_file import TOMBSTONE
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import numbers_of
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.snapshot import Snapshot

SAMPLE_NAMES = 1 << 18
"""Sample size: all rows of smaller segments are read, and so many of larger ones, spread over them."""
_OFFSET_BITS = np.uint64(32)
_LOST = "it names rows that it does not cover any more"


def lost_segments(dataset: Snapshot, item: IndexCoverage) -> tuple[IndexMetadata, ...]:
    """Return segments of an index with rows that another one covers, or may cover, which affects readers.

    Reads bounded samples; unreadable segments are skipped. Segments of row ids are only included if they
    cover nothing: for others, all ids of the table would be needed.

    Raises:
        StorageError: The store fails.
    """
    found = []
    for segment in item.segments:
        kind = kind_of(segment)
        if kind is None or not _may_be_minded(dataset, segment, kind):
            continue
        try:
            if _names_lost_rows(dataset, segment, kind):
                found.append(segment)
        except UnreadableIndexError:
            # `fsck` reports its damage.
            continue
    return tuple(found)


def misleads(dataset: Snapshot, item: IndexCoverage) -> bool:
    """Return whether pylance gives wrong answers from an index for the rows that its segments have lost."""
    return len(item.segments) > 1 and bool(lost_segments(dataset, item))


def with_purges(
    dataset: Dataset,
    followers: tuple[SegmentRoute, ...],
    routes: tuple[SegmentRoute, ...],
    moved: frozenset[int],
) -> tuple[SegmentRoute, ...]:
    """Return the routes of a rewrite with what segments need that name rows of it which they do not cover.

    These names are taken out. A segment that covers nothing of what moves is written again for that; one
    whose remap would wait is remapped at once: the fragment reuse index would lead from such names to rows.

    Args:
        dataset: The version that the rewrite was planned from.
        followers: The segments that cover something of what moves.
        routes: Of all segments.
        moved: Ids of the fragments that are rewritten.
    """
    beside = {item.segment.uuid for item in followers}
    others = tuple(
        replace(item, route=Route.PURGE, reason=_LOST, cost=cost_of_move(dataset, item.segment, moved))
        for item in routes
        if item.segment.uuid not in beside and _names_rows_of(dataset, item, moved)
    )
    return (*(_at_once(dataset, item, moved) for item in followers), *others)


def may_need_purges(routes: Iterable[SegmentRoute], moved: Iterable[Fragment]) -> bool:
    """Return whether fragments to be rewritten were updated in place under segments that affect readers."""
    kinds = (kind_of(item.segment) for item in routes)
    if not any(kind is not None and _minds_gone_fragments(kind) for kind in kinds):
        return False
    return any(TOMBSTONE in file.fields for fragment in moved for file in fragment.files)


def _at_once(dataset: Dataset, item: SegmentRoute, moved: frozenset[int]) -> SegmentRoute:
    if item.route is not Route.DEFER or not _names_rows_of(dataset, item, moved):
        return item
    return replace(item, route=Route.MOVE, reason=_LOST, cost=cost_of_move(dataset, item.segment, moved))


def _names_rows_of(dataset: Dataset, item: SegmentRoute, moved: frozenset[int]) -> bool:
    """Return whether a segment has rows of rewritten fragments that it does not cover."""
    kind = kind_of(item.segment)
    recorded = item.segment.fragment_ids
    if kind is None or recorded is None or item.route not in (Route.MOVE, Route.DEFER):
        return False
    lost = moved - recorded
    if not lost or not _minds_gone_fragments(kind):
        return False
    try:
        names, _ = kind.sample(dataset, item.segment, SAMPLE_NAMES)
    except UnreadableIndexError:
        return False
    return bool(np.isin(names >> _OFFSET_BITS, np.array(sorted(lost), np.uint64)).any())


def _may_be_minded(dataset: Snapshot, segment: IndexMetadata, kind: IndexKind) -> bool:
    """Return whether, according to the manifest, a segment may mislead readers."""
    if not (kind.can_build and kind.one_segment_after_updates) or segment.fragment_ids is None:
        return False
    covered = effective_fragments(dataset.manifest, segment)
    if _minds_gone_fragments(kind):
        # A compaction may have removed all signs of the update.
        return not covered or kind.holds_addresses(segment, stable_row_ids=_is_stable(dataset))
    if not covered or not kind.holds_addresses(segment, stable_row_ids=_is_stable(dataset)):
        # Pylance leaves segments of other kinds alone that cover nothing.
        return False
    return any(
        TOMBSTONE in file.fields
        for fragment in dataset.fragments
        if fragment.id not in covered
        for file in fragment.files
    )


def _names_lost_rows(dataset: Snapshot, segment: IndexMetadata, kind: IndexKind) -> bool:
    names, _ = kind.sample(dataset, segment, SAMPLE_NAMES)
    names = names[~is_gone(names)]
    covered = effective_fragments(dataset.manifest, segment)
    if not kind.holds_addresses(segment, stable_row_ids=_is_stable(dataset)):
        return not covered and bool(len(names))
    with reading(segment):
        current, kept = current_addresses(dataset, segment, names)
    owners = current >> _OFFSET_BITS
    # Deleted fragments stay in the coverage, and readers ignore them.
    recorded = np.array(sorted((segment.fragment_ids or frozenset()) | covered), np.uint64)
    foreign = kept & ~np.isin(owners, recorded) & ~np.isin(names >> _OFFSET_BITS, recorded)
    if not _minds_gone_fragments(kind):
        foreign &= np.isin(owners, np.array(numbers_of(dataset.fragments).ids.tolist(), np.uint64))
    return bool(foreign.any())


def _minds_gone_fragments(kind: IndexKind) -> bool:
    """Return whether pylance counts rows of removed fragments among search results."""
    return isinstance(kind, InvertedKind)


def _is_stable(dataset: Snapshot) -> bool:
    return dataset.manifest.uses_stable_row_ids


"""Sample size: all rows of smaller segments are read, and so many of larger ones, spread over them."""


def minds_gone_row_ids(dataset: Dataset, segment: IndexMetadata, kind: IndexKind) -> bool:
    """Return whether removed row ids affect readers of a segment, and it can be rewritten without them."""
    return (
        dataset.manifest.uses_stable_row_ids
        and kind.can_build
        and kind.counts_gone_row_ids
        and not kind.holds_addresses(segment, stable_row_ids=True)
        and bool(effective_fragments(dataset.manifest, segment))
    )


def names_gone_row_ids(dataset: Dataset, item: IndexCoverage) -> bool:
    """Return whether pylance returns too few rows from an index, by a bounded sample of what it names.

    Args:
        dataset: The version.
        item: One of its indices; one that cannot be read says nothing.

    Raises:
        StorageError: The store fails.
    """
    for segment in item.segments:
        kind = kind_of(segment)
        if kind is None or not minds_gone_row_ids(dataset, segment, kind):
            continue
        try:
            names, _ = kind.sample(dataset, segment, SAMPLE_NAMES)
            with reading(segment):
                if absent_row_ids(dataset, np.ascontiguousarray(names)).any():
                    return True
        except UnreadableIndexError:
            # `fsck` reports its damage.
            continue
    return False
