"""Change feed: the rows that were inserted, updated and deleted between two versions.

The feed is the difference of the two versions, not the sequence of commits: a row that was inserted and
deleted in between is not in it. With stable row ids, rows are followed wherever they were moved, and the row
versions show which of them were updated. Without them a row is identified by its address: an update is a
deletion and an insertion, and rows that a compaction moved cannot be followed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.memory import empty
from lance_ops.errors import NotFoundError, UnsupportedError
from lance_ops.table.history.field_history import find_origins
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.readable import Readable
from lance_ops.table.scan.row_columns import (
    ROW_ADDRESS,
    ROW_CREATED_AT,
    ROW_ID,
    ROW_UPDATED_AT,
    Offsets,
    RowColumns,
)
from lance_ops.table.transaction.operations import Operation, Rewrite

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
INSERT, DELETE = "insert", "delete"
UPDATE_BEFORE, UPDATE_AFTER = "update_preimage", "update_postimage"
CHANGE_TYPES = (DELETE, UPDATE_BEFORE, UPDATE_AFTER, INSERT)
"""Kinds of changes, in output order."""

_ROW_COLUMNS = (ROW_ADDRESS, ROW_ID, ROW_UPDATED_AT, ROW_CREATED_AT)
_Numbers = npt.NDArray[np.uint64]
_Places = npt.NDArray[np.intp]
_NONE: _Numbers = np.zeros(0, np.uint64)


@dataclass(frozen=True, slots=True)
class Changes:
    """The rows that differ, by their addresses in the version that has them.

    Attributes:
        deleted: In the older version.
        before: In the older version, of rows that were updated.
        after: The same rows in the newer version, in the same order.
        inserted: In the newer version.
        updated_at: Versions that updated them last; None if not recorded.
        inserted_at: Versions that created the rows; None if not recorded.
        origins: Fields of the older version by those of the newer one, see `find_origins`.
    """

    deleted: _Numbers
    before: _Numbers
    after: _Numbers
    inserted: _Numbers
    updated_at: _Numbers | None = None
    inserted_at: _Numbers | None = None
    origins: Mapping[int, int] = field(default_factory=dict)

    @property
    def kinds(self) -> frozenset[str]:
        """Return the kinds of `CHANGE_TYPES` that occur."""
        rows = (self.deleted, self.before, self.after, self.inserted)
        return frozenset(kind for kind, some in zip(CHANGE_TYPES, rows, strict=True) if len(some))

    def split(self, rows: int) -> Iterator["Changes"]:
        """Split into parts of at most `rows` rows, of one kind each, in read order."""
        none = replace(self, deleted=_NONE, before=_NONE, after=_NONE, inserted=_NONE)
        none = replace(none, updated_at=None, inserted_at=None)
        for part in parts_of(len(self.deleted), rows):
            yield replace(none, deleted=self.deleted[part])
        for part in parts_of(len(self.after), rows):
            at = None if self.updated_at is None else self.updated_at[part]
            yield replace(none, before=self.before[part], after=self.after[part], updated_at=at)
        for part in parts_of(len(self.inserted), rows):
            at = None if self.inserted_at is None else self.inserted_at[part]
            yield replace(none, inserted=self.inserted[part], inserted_at=at)


def find_changes(old: Readable, new: Readable, operation_of: Callable[[int], Operation]) -> Changes:
    """Return which rows differ; reads manifests and deletion files, no values.

    Args:
        old: The older version.
        new: The newer one, of the same branch.
        operation_of: Returns the operation of a version in between.

    Raises:
        UnsupportedError: Values were replaced in place, or rows without stable ids were moved.
    """
    kept = set(old.fragments).intersection(new.fragments) if old.fragments else set()
    gone = [fragment for fragment in old.fragments if fragment not in kept]
    come = [fragment for fragment in new.fragments if fragment not in kept]
    present = {fragment.id: fragment for fragment in come}
    followed = _follow_files(gone, present, old, new, operation_of)
    for fragment in followed:
        _refuse_replaced(fragment, present.get(fragment.id), new)
    stable = old.uses_stable_row_ids and new.uses_stable_row_ids
    strangers = _strangers(followed, come)
    before = {
        fragment.id: fragment
        for fragment in gone
        if fragment.id in present and _same_rows(fragment, present[fragment.id], strangers, stable=stable)
    }
    deleted = {number: new.deletion_vector(present[number]) for number in before}
    came_back = {number: old.deletion_vector(fragment) for number, fragment in before.items()}
    if stable:
        left = _Rows.of(old, gone, deleted, ROW_ADDRESS, ROW_ID, ROW_UPDATED_AT)
        found = _by_id(left, _Rows.of(new, come, came_back, *_ROW_COLUMNS))
        return replace(found, origins=find_origins(old, new, operation_of))
    _refuse_moved(gone, come, old, new, operation_of)
    left, here = _Rows.of(old, gone, deleted, ROW_ADDRESS), _Rows.of(new, come, came_back, ROW_ADDRESS)
    return replace(_by_address(left, here, strangers), origins=find_origins(old, new, operation_of))


def _follow_files(
    gone: Sequence[Fragment],
    present: Mapping[int, Fragment],
    old: Readable,
    new: Readable,
    operation_of: Callable[[int], Operation],
) -> list[Fragment]:
    """Return fragments of the older version with the data files that rewrites in place gave them since.

    Raises:
        UnsupportedError: A transaction in between was removed, so that a fragment with other data files may
            have the same rows.
    """
    moved = {
        fragment.id: fragment
        for fragment in gone
        if fragment.id in present and _has_moved_columns(fragment, present[fragment.id])
    }
    for version in range(old.version + 1, new.version + 1) if moved else ():
        try:
            operation = operation_of(version)
        except NotFoundError as error:
            raise _unrecorded(version, new) from error
        if not isinstance(operation, Rewrite):
            continue
        for group in operation.groups:
            was, now = group.old_fragments[0], group.new_fragments[:1]
            known = moved.get(was.id)
            if group.is_in_place and known is not None and _paths(known) == _paths(was):
                moved[was.id] = known.replace(files=now[0].files)
    return [moved.get(fragment.id, fragment) for fragment in gone]


def _has_moved_columns(before: Fragment, after: Fragment) -> bool:
    old, new = _places(before), _places(after)
    return any(old[number] != new[number] for number in old.keys() & new.keys())


def _unrecorded(version: int, new: Readable) -> UnsupportedError:
    return UnsupportedError(
        f"the transaction of version {version} was removed, so rows may have been moved",
        path=new.uri,
        hint="create tables with stable row ids (enable_stable_row_ids); their versions keep what a change "
        "feed needs",
    )


def _same_rows(before: Fragment, after: Fragment, strangers: frozenset[int], *, stable: bool) -> bool:
    """Return whether all rows live in both are unchanged, so that only deletions need comparing."""
    if before.physical_rows != after.physical_rows or before.id in strangers:
        return False
    told = (before.row_ids, before.last_updated_at_versions)
    return not stable or (None not in told and told == (after.row_ids, after.last_updated_at_versions))


def parts_of(rows: int, each: int) -> Iterator[slice]:
    """Split rows into parts of at most a given number."""
    return (slice(start, min(start + each, rows)) for start in range(0, rows, each))


@dataclass(frozen=True, slots=True)
class _Rows:
    """The live rows of some fragments, without rows that are unchanged on the other side."""

    addresses: _Numbers
    ids: _Numbers
    updated_at: _Numbers
    created_at: _Numbers

    @classmethod
    def of(
        cls,
        snapshot: Readable,
        fragments: Sequence[Fragment],
        elsewhere: Mapping[int, DeletionVector | None],
        *names: str,
    ) -> "_Rows":
        """Read them.

        Args:
            snapshot: The version.
            fragments: Of it.
            elsewhere: Deleted rows on the other side, of fragments whose rows are the same there.
            names: Row columns to read; others stay absent.
        """
        found: dict[str, list[_Numbers]] = {name: [] for name in _ROW_COLUMNS}
        for fragment in fragments:
            live = _live_here_alone(snapshot, fragment, elsewhere)
            if not len(live):
                continue
            columns = RowColumns(snapshot, fragment, deletions=None, rows_before=0)
            for name in names:
                found[name].append(columns.values(name, live))
        return cls(*(_join(found[name]) for name in _ROW_COLUMNS))


def _join(parts: Sequence[_Numbers]) -> _Numbers:
    if len(parts) < 2:
        return parts[0] if parts else _NONE
    return np.concatenate(parts, out=empty(sum(map(len, parts)), np.uint64))


def _live_here_alone(
    snapshot: Readable, fragment: Fragment, elsewhere: Mapping[int, DeletionVector | None]
) -> Offsets:
    """Return offsets of the live rows of a fragment, without rows that are unchanged on the other side."""
    deleted = snapshot.deletion_vector(fragment)
    if fragment.id not in elsewhere:
        rows = fragment.physical_rows
        return np.arange(rows) if deleted is None else deleted.live_offsets(rows).astype(np.int64)
    gone = elsewhere[fragment.id]
    if gone is not None and deleted is not None:
        gone = gone.difference(deleted)
    return np.zeros(0, np.int64) if gone is None else gone.offsets().astype(np.int64)


def _by_id(old: _Rows, new: _Rows) -> Changes:
    in_old, in_new = _match(old.ids, new.ids)
    gone, come = _others(len(old.ids), in_old), _others(len(new.ids), in_new)
    # A restore brings back older row versions.
    updated = old.updated_at[in_old] != new.updated_at[in_new]
    in_old, in_new = in_old[updated], in_new[updated]
    after = new.addresses[in_new]
    if not (after[1:] > after[:-1]).all():
        order = np.argsort(after)
        in_old, in_new, after = in_old[order], in_new[order], after[order]
    return Changes(
        deleted=old.addresses[gone],
        before=old.addresses[in_old],
        after=after,
        inserted=new.addresses[come],
        updated_at=new.updated_at[in_new],
        inserted_at=new.created_at[come],
    )


def _others(count: int, places: _Places) -> npt.NDArray[np.bool_]:
    found = np.ones(count, bool)
    found[places] = False
    return found


def _match(old: _Numbers, new: _Numbers) -> tuple[_Places, _Places]:
    """Return the positions, on both sides, of ids that occur on both."""
    if np.array_equal(old, new):
        # Updated rows usually keep their order.
        return np.arange(len(old)), np.arange(len(old))
    ids = np.concatenate([old, new])
    # This sort is fast on ordered input, which each side mostly is.
    order = np.argsort(ids, kind="stable")
    both = np.flatnonzero(ids[order[1:]] == ids[order[:-1]])
    return order[both], order[both + 1] - len(old)


def _by_address(old: _Rows, new: _Rows, strangers: frozenset[int]) -> Changes:
    """Compare rows by address; rows of different fragments with the same id differ at every offset."""
    fragments = old.addresses >> np.uint64(32)
    others = np.isin(fragments, np.array(sorted(strangers), np.uint64))
    deleted = others | ~np.isin(old.addresses, new.addresses)
    inserted = ~np.isin(new.addresses, old.addresses[~others])
    return Changes(old.addresses[deleted], _NONE, _NONE, new.addresses[inserted])


def _strangers(gone: Sequence[Fragment], come: Sequence[Fragment]) -> frozenset[int]:
    present = {fragment.id: fragment for fragment in come}
    return frozenset(
        fragment.id
        for fragment in gone
        if fragment.id in present and _paths(fragment).isdisjoint(_paths(present[fragment.id]))
    )


def _paths(fragment: Fragment) -> frozenset[str]:
    return frozenset(file.path for file in fragment.files)


def _refuse_replaced(before: Fragment, after: Fragment | None, new: Readable) -> None:
    """Refuse values that were replaced in place, unless row versions identify the changed rows."""
    if after is None:
        return
    replaced = replaced_fields(before, after) or before.overlays != after.overlays
    told = before.last_updated_at_versions != after.last_updated_at_versions
    if replaced and not (before.row_ids is not None and told):
        raise UnsupportedError(
            f"columns of fragment {before.id} were replaced in place, and the changed rows are not recorded",
            path=new.uri,
            hint="read the changes before and after that commit separately, or compare full scans of "
            "both versions",
        )


def replaced_fields(before: Fragment, after: Fragment) -> frozenset[int]:
    """Return fields whose values are stored in another file than before, in a fragment that kept a file.

    Args:
        before: The fragment in one version.
        after: The same in a later one; a fragment that shares no file with `before` is another fragment.
    """
    same_rows = before.row_ids is not None and before.row_ids == after.row_ids
    if not same_rows and _paths(before).isdisjoint(_paths(after)):
        return frozenset()
    old, present = _places(before), _places(after)
    return frozenset(number for number in old.keys() & present.keys() if old[number] != present[number])


def _places(fragment: Fragment) -> dict[int, str]:
    return {number: file.path for file in fragment.files for number in file.fields if number >= 0}


def _refuse_moved(
    gone: Sequence[Fragment],
    come: Sequence[Fragment],
    old: Readable,
    new: Readable,
    operation_of: Callable[[int], Operation],
) -> None:
    vanished = {fragment.id for fragment in gone} - {fragment.id for fragment in come}
    appeared = {fragment.id for fragment in come} - {fragment.id for fragment in gone}
    if not vanished or not appeared:
        return
    for version in range(old.version + 1, new.version + 1):
        try:
            moved = isinstance(operation_of(version), Rewrite)
        except NotFoundError as error:
            raise _unrecorded(version, new) from error
        if moved:
            raise UnsupportedError(
                f"version {version} moved rows that have no stable row ids",
                path=new.uri,
                hint="read the changes up to the version before and from this version on, or create "
                "such tables with stable row ids (enable_stable_row_ids)",
            )
