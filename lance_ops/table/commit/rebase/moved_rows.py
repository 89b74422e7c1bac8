"""Moved rows: locate rows of the read version at the head, after others rewrote their fragments.

Each Rewrite records its old and new fragments, and rows keep their rank. The order is verified: the writer
guarantees it as lance_ops does, or the stable row ids match, or the values at the new location are equal.
Otherwise it is a conflict.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from lance_ops.errors import FormatError, NotFoundError, UnsupportedError
from lance_ops.file.schema.blob_fields import has_blobs
from lance_ops.table.commit.rebase.rank_order import have_one_order, ranks_of, rows_of
from lance_ops.table.commit.rebase.work import Rebase
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import by_id
from lance_ops.table.manifest.row_address_map import Addresses, row_addresses
from lance_ops.table.row_lineage.read import read_sequence
from lance_ops.table.scan.fragment_reader import FragmentReader
from lance_ops.table.transaction.operations import RewriteGroup

MOST_COMPARED = 1 << 16
"""Maximum rows compared to verify their location; more rows are planned again."""

_AT_ONCE = 4096


def follow_rows(rows: Mapping[int, DeletionVector], work: Rebase) -> dict[int, DeletionVector]:
    """Find rows at the head.

    Args:
        rows: Live rows of the read version, by fragment. These fragments were rewritten.
        work: The rebase.

    Returns:
        The same rows by fragment of the head.

    Raises:
        RetryableCommitConflictError: Some are gone or may have other values, or their location is unknown.
    """
    was = np.concatenate([row_addresses(item, vector.offsets()) for item, vector in sorted(rows.items())])
    base = by_id(work.base.fragments)
    known, now, vouched = {number: base[number] for number in rows}, was.copy(), True
    for passed in work.theirs:
        for group in passed.groups:
            moved = _move(now, group, known, work)
            if moved is not None:
                now, vouched = moved, vouched and passed.keeps_order
                known |= {fragment.id: fragment for fragment in group.new_fragments}
    head = by_id(work.head.fragments)
    fragments = now >> np.uint64(32)
    for fragment_id in np.unique(fragments).tolist():
        if fragment_id not in head:
            raise work.conflict(fragment_id, "was deleted by a concurrent commit")
        if not _same_values(head[fragment_id], known[fragment_id]):
            raise work.conflict(fragment_id, "has other data files or values now")
    if not vouched:
        _prove(was, now, head, work)
    return {
        fragment_id: DeletionVector.from_offsets(_offsets(now[fragments == fragment_id]))
        for fragment_id in np.unique(fragments).tolist()
    }


def _move(
    rows: Addresses, group: RewriteGroup, known: Mapping[int, Fragment], work: Rebase
) -> Addresses | None:
    """Return addresses after a group was rewritten; None if it affects none of them."""
    fragments = rows >> np.uint64(32)
    touched = [
        (position, fragment, fragments == fragment.id)
        for position, fragment in enumerate(group.old_fragments)
        if (fragments == fragment.id).any()
    ]
    if not touched:
        return None
    for _, fragment, _ in touched:
        if not _same_values(fragment, known[fragment.id]):
            raise work.conflict(fragment.id, "had other data files or values before it was rewritten")
    first = touched[0][1].id
    old, new = work.ranked(group.old_fragments), work.ranked(group.new_fragments)
    if not have_one_order(old, new):
        raise work.conflict(first, "was rewritten, and the new location of its rows is not recorded")
    moved = rows.copy()
    ids = np.array([fragment.id for fragment in group.new_fragments], np.uint64)
    for position, fragment, mine in touched:
        offsets = _offsets(rows[mine])
        if len(old[position].deleted.intersection(DeletionVector.from_offsets(offsets))):
            raise work.conflict(fragment.id, "lost some of the same rows before it was rewritten")
        owners, places = rows_of(new, ranks_of(old, position, offsets))
        moved[mine] = (ids[owners] << np.uint64(32)) | places.astype(np.uint64)
    return moved


def _same_values(left: Fragment, right: Fragment) -> bool:
    """Return whether a fragment has the same values as before: no overlay and no replaced column."""
    files = [[(f.path, f.base_id, f.fields, f.column_indices) for f in item.files] for item in (left, right)]
    return (
        files[0] == files[1]
        and left.physical_rows == right.physical_rows
        and not left.has_overlays
        and not right.has_overlays
    )


def _prove(was: Addresses, now: Addresses, head: Mapping[int, Fragment], work: Rebase) -> None:
    """Verify that rows are at their computed location.

    Raises:
        RetryableCommitConflictError: They are not, or it is unknown.
    """
    before = by_id(work.base.fragments)
    stable = work.base.uses_stable_row_ids
    pairs = np.unique(np.stack([was >> np.uint64(32), now >> np.uint64(32)], axis=1), axis=0).tolist()
    if not stable and (len(was) > MOST_COMPARED or has_blobs(work.snapshot.lance_schema)):
        raise work.conflict(pairs[0][0], "was rewritten, and its rows are too many or too large to compare")
    for old, new in pairs:
        mine = (was >> np.uint64(32) == old) & (now >> np.uint64(32) == new)
        sides = (before[old], _offsets(was[mine])), (head[new], _offsets(now[mine]))
        try:
            same = _same_ids(*sides, work) if stable else _same_rows(*sides, work)
        except (FormatError, NotFoundError, UnsupportedError) as error:
            raise work.conflict(old, f"was rewritten, and can no longer be compared: {error}") from error
        if not same:
            raise work.conflict(old, "was rewritten in another order")


_Side = tuple[Fragment, npt.NDArray[np.int64]]


def _same_ids(old: _Side, new: _Side, work: Rebase) -> bool:
    before, after = (
        read_sequence(work.snapshot.bases, fragment, "row_ids")[offsets] for fragment, offsets in (old, new)
    )
    return bool(np.array_equal(before, after))


def _same_rows(old: _Side, new: _Side, work: Rebase) -> bool:
    schema = work.snapshot.lance_schema
    readers = [FragmentReader(work.snapshot, side[0]) for side in (old, new)]
    for start in range(0, len(old[1]), _AT_ONCE):
        left, right = (
            reader.take(side[1][start : start + _AT_ONCE], schema)
            for reader, side in zip(readers, (old, new), strict=True)
        )
        # NaN is not equal to itself.
        if not left.equals(right) and repr(left.to_pylist()) != repr(right.to_pylist()):
            return False
    return True


def _offsets(addresses: Addresses) -> npt.NDArray[np.int64]:
    return (addresses & np.uint64(0xFFFF_FFFF)).astype(np.int64)
