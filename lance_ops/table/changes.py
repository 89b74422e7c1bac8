"""Change feed: the rows that were inserted, updated and deleted between two versions.

What is told is the difference of the two versions, however many commits made it: a row that came and went in
between is not in it. Rows with stable ids are followed wherever they were moved, and the versions that are
kept for each row tell which of them were updated. Without stable ids a row is known by its address: an update
is a deletion and an insertion, and rows that a compaction moved cannot be followed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import NotFoundError, UnsupportedError
from lance_ops.file.schema.model import Field
from lance_ops.table.manifest.deletion_vector import DeletionVector
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.readable import Readable
from lance_ops.table.scan.fragment_rows import FragmentRows
from lance_ops.table.scan.row_columns import ROW_ADDRESS, ROW_CREATED_AT, ROW_ID, ROW_UPDATED_AT
from lance_ops.table.transaction.operations import Operation, Rewrite

CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
INSERT, DELETE = "insert", "delete"
UPDATE_BEFORE, UPDATE_AFTER = "update_preimage", "update_postimage"

_BATCH_ROWS = 64 << 10
_Numbers = npt.NDArray[np.uint64]
_NONE: _Numbers = np.zeros(0, np.uint64)


@dataclass(frozen=True, slots=True)
class Changes:
    """The rows that differ, by their addresses in the version that has them.

    Attributes:
        deleted: In the older version.
        before: In the older version, of rows that were updated.
        after: The same rows in the newer version, in the same order.
        inserted: In the newer version.
        updated_at: Versions that updated them last; None where that is not recorded.
        inserted_at: Versions that made the rows; None likewise.
    """

    deleted: _Numbers
    before: _Numbers
    after: _Numbers
    inserted: _Numbers
    updated_at: _Numbers | None = None
    inserted_at: _Numbers | None = None

    def split(self, rows: int) -> Iterator["Changes"]:
        """Parts of at most so many rows, of one kind each, in the order in which they are read."""
        none = dict.fromkeys(("deleted", "before", "after", "inserted"), _NONE)
        for part in _parts(len(self.deleted), rows):
            yield Changes(**{**none, "deleted": self.deleted[part]})
        for part in _parts(len(self.after), rows):
            at = None if self.updated_at is None else self.updated_at[part]
            yield Changes(**{**none, "before": self.before[part], "after": self.after[part]}, updated_at=at)
        for part in _parts(len(self.inserted), rows):
            at = None if self.inserted_at is None else self.inserted_at[part]
            yield Changes(**{**none, "inserted": self.inserted[part]}, inserted_at=at)


def find_changes(old: Readable, new: Readable, operation_of: Callable[[int], Operation]) -> Changes:
    """Tell which rows differ; reads manifests and deletion files, no values.

    Args:
        old: The older version.
        new: The newer one, of the same line of versions.
        operation_of: What a version between them did.

    Raises:
        UnsupportedError: Values were replaced in place, or rows without stable ids were moved.
    """
    kept = set(old.fragments).intersection(new.fragments) if old.fragments else set()
    gone = [fragment for fragment in old.fragments if fragment not in kept]
    come = [fragment for fragment in new.fragments if fragment not in kept]
    present = {fragment.id: fragment for fragment in come}
    for fragment in gone:
        _refuse_replaced(fragment, present.get(fragment.id), new)
    stable = old.uses_stable_row_ids and new.uses_stable_row_ids
    strangers = _strangers(gone, come)
    before = {
        fragment.id: fragment
        for fragment in gone
        if fragment.id in present and _same_rows(fragment, present[fragment.id], strangers, stable=stable)
    }
    left = _Rows.of(old, gone, {number: new.deletion_vector(present[number]) for number in before})
    here = _Rows.of(new, come, {number: old.deletion_vector(fragment) for number, fragment in before.items()})
    if stable:
        return _by_id(left, here)
    _refuse_moved(gone, come, old, new, operation_of)
    return _by_address(left, here, strangers)


def _same_rows(before: Fragment, after: Fragment, strangers: frozenset[int], *, stable: bool) -> bool:
    """Whether a row that is live in both did not change: only deletions have to be compared then."""
    if before.physical_rows != after.physical_rows or before.id in strangers:
        return False
    told = (before.row_ids, before.last_updated_at_versions)
    return not stable or (None not in told and told == (after.row_ids, after.last_updated_at_versions))


@dataclass(frozen=True, slots=True)
class _Rows:
    """The live rows of some fragments, but for those that are as they are on the other side."""

    addresses: _Numbers
    ids: _Numbers
    created_at: _Numbers
    updated_at: _Numbers

    @classmethod
    def of(
        cls,
        snapshot: Readable,
        fragments: Sequence[Fragment],
        elsewhere: Mapping[int, DeletionVector | None],
    ) -> "_Rows":
        """Read them.

        Args:
            snapshot: The version.
            fragments: Of it.
            elsewhere: What is deleted on the other side of fragments whose rows are the same there.
        """
        names = (ROW_ADDRESS, ROW_ID, ROW_CREATED_AT, ROW_UPDATED_AT)
        found: dict[str, list[_Numbers]] = {name: [_NONE] for name in names}
        for fragment in fragments:
            rows = FragmentRows(snapshot, fragment, 0)
            live = rows.live_offsets(0, fragment.physical_rows)
            if fragment.id in elsewhere:
                gone = elsewhere[fragment.id]
                live = live[:0] if gone is None else live[gone.mask(0, fragment.physical_rows)[live]]
            if not len(live):
                continue
            for name, parts in found.items():
                parts.append(rows.columns.values(name, live))
        return cls(*(np.concatenate(found[name]) for name in names))


def _by_id(old: _Rows, new: _Rows) -> Changes:
    _, in_old, in_new = np.intersect1d(old.ids, new.ids, assume_unique=True, return_indices=True)
    gone, come = np.ones(len(old.ids), bool), np.ones(len(new.ids), bool)
    gone[in_old] = come[in_new] = False
    # A restore brings older stamps back.
    updated = old.updated_at[in_old] != new.updated_at[in_new]
    in_old, in_new = in_old[updated], in_new[updated]
    order = np.argsort(new.addresses[in_new])
    in_old, in_new = in_old[order], in_new[order]
    return Changes(
        deleted=old.addresses[gone],
        before=old.addresses[in_old],
        after=new.addresses[in_new],
        inserted=new.addresses[come],
        updated_at=new.updated_at[in_new],
        inserted_at=new.created_at[come],
    )


def _by_address(old: _Rows, new: _Rows, strangers: frozenset[int]) -> Changes:
    """Rows of fragments of the same number that are not the same fragment differ, whatever their offsets."""
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
    """Refuse values that were replaced in place, unless the versions of the rows tell which they are."""
    if after is None:
        return
    replaced = replaced_fields(before, after) or before.overlays != after.overlays
    told = before.last_updated_at_versions != after.last_updated_at_versions
    if replaced and not (before.row_ids is not None and told):
        raise UnsupportedError(
            f"columns of fragment {before.id} were replaced in place: which rows changed is not recorded",
            path=new.uri,
            hint="compare the versions before and after that commit apart, or read both as a whole",
        )


def replaced_fields(before: Fragment, after: Fragment) -> frozenset[int]:
    """Fields whose values lie in another file than before, in a fragment that has a file left of then.

    Args:
        before: The fragment in one version.
        after: The same in a later one; one that has none of its files is another fragment.
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
            raise UnsupportedError(
                f"what version {version} did is not known any more, so rows may have been moved",
                path=new.uri,
                hint="tables with stable row ids (enable_stable_row_ids) keep what is needed in each version",
            ) from error
        if moved:
            raise UnsupportedError(
                f"version {version} moved rows, which have no stable ids by which to follow them",
                path=new.uri,
                hint="ask for the changes up to the version before and from this one on, or keep such tables "
                "with stable row ids (enable_stable_row_ids)",
            )


def read_changes(
    old: Readable, new: Readable, changes: Changes, columns: Sequence[str] | None, *, with_row_id: bool
) -> pa.RecordBatchReader:
    """The changed rows with their values.

    Args:
        old: The older version.
        new: The newer one.
        changes: Between them.
        columns: Top-level columns of the newer version; all when None.
        with_row_id: Add the column `_rowid`.

    Returns:
        Batches of at most 65,536 rows: the columns as the newer version has them, null in rows of the older
        version that have them not, or with another type; `_change_type` (string) and `_commit_version`
        (uint64; null where it is not recorded). Deleted rows come first, then each batch of updated rows as
        they were and as they are, then inserted ones.
    """
    names = list(new.lance_schema.names if columns is None else columns)
    fields = [new.lance_schema.field(name) for name in names]
    shared = [field.name for field in fields if _is_shared(field, old)]
    # Raises what is wrong with names before anything is read.
    empty = new.take([], names, by="address", with_row_id=with_row_id)
    schema = pa.schema(
        [
            *(field if field.name in shared else field.with_nullable(True) for field in empty.schema),
            pa.field(CHANGE_TYPE, pa.string(), nullable=False),
            pa.field(COMMIT_VERSION, pa.uint64()),
        ],
        metadata=empty.schema.metadata,
    )
    only = new.version if new.version == old.version + 1 else None
    former = {field.name: old.lance_schema.by_id(field.id) for field in fields if field.name in shared}

    def rows_of_old(addresses: _Numbers) -> list[pa.Array]:
        asked = [former[name].name for name in shared]  # type: ignore[union-attr]
        table = old.take(addresses, asked, by="address", with_row_id=with_row_id)
        found = dict(zip([*shared, ROW_ID], table.columns, strict=False))
        return [
            found[field.name] if field.name in found else pa.nulls(len(addresses), field.type)
            for field in empty.schema
        ]

    def rows_of_new(addresses: _Numbers) -> list[pa.Array]:
        table = new.take(addresses, names, by="address", with_row_id=with_row_id)
        return list(table.columns)

    def table_of(values: list[pa.Array], kind: str, versions: _Numbers | None, rows: int) -> pa.Table:
        known = versions if versions is not None or only is None else np.full(rows, only, np.uint64)
        at = pa.nulls(rows, pa.uint64()) if known is None else pa.array(known, pa.uint64())
        return pa.table([*values, pa.array([kind] * rows, pa.string()), at], schema=schema)

    def tables() -> Iterator[pa.Table]:
        for part in _parts(len(changes.deleted)):
            rows = changes.deleted[part]
            yield table_of(rows_of_old(rows), DELETE, None, len(rows))
        for part in _parts(len(changes.after)):
            at = None if changes.updated_at is None else changes.updated_at[part]
            rows = changes.before[part]
            yield table_of(rows_of_old(rows), UPDATE_BEFORE, at, len(rows))
            yield table_of(rows_of_new(changes.after[part]), UPDATE_AFTER, at, len(rows))
        for part in _parts(len(changes.inserted)):
            at = None if changes.inserted_at is None else changes.inserted_at[part]
            rows = changes.inserted[part]
            yield table_of(rows_of_new(rows), INSERT, at, len(rows))

    batches = (batch for table in tables() for batch in table.combine_chunks().to_batches())
    return pa.RecordBatchReader.from_batches(schema, batches)


def _parts(rows: int, each: int = _BATCH_ROWS) -> Iterator[slice]:
    return (slice(start, start + each) for start in range(0, rows, each))


def _is_shared(field: Field, old: Readable) -> bool:
    """Whether the older version has a column, under whatever name, with the same type."""
    before = old.lance_schema.by_id(field.id)
    return before is not None and before.parent_id < 0 and before.to_arrow().type == field.to_arrow().type
