"""Delta of a version: the rows added or changed by its commit, in a stable order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_ops.errors import StreamChangeError, UnsupportedError
from lance_ops.spark.streaming.columns import StreamColumns
from lance_ops.spark.streaming.shares import (
    Addresses,
    Commit,
    Share,
    TakeShare,
    scan_share,
    side_of,
    updated_share,
)
from lance_ops.table.changes import DELETE, INSERT, find_changes
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import total_rows
from lance_ops.table.scan.plan import FragmentPlan
from lance_ops.table.transaction.operations import Append, Update

_TAKE_SHARE = 1 << 18


@dataclass(frozen=True, slots=True)
class ScannedRows:
    """Rows of whole fragments.

    Attributes:
        dataset: The version with the rows.
        fragments: The fragments.
    """

    dataset: Dataset
    fragments: tuple[Fragment, ...]

    @property
    def rows(self) -> int:
        """The number of delivered rows."""
        return total_rows(self.fragments)

    def plans(self, start: int, stop: int, most: int) -> Iterator[list[FragmentPlan]]:
        """Yield plans of live rows from `start` to before `stop`, in groups of about `most` rows."""
        group: list[FragmentPlan] = []
        room = most
        before = 0
        for fragment in self.fragments:
            first, last = max(start - before, 0), min(stop - before, fragment.num_rows)
            before += fragment.num_rows
            while first < last:
                take = min(last - first, room)
                whole = first == 0 and take == fragment.num_rows
                group.append(FragmentPlan(fragment, 0, skip=first, take=None if whole else take))
                first, room = first + take, room - take
                if not room:
                    yield group
                    group, room = [], most
        if group:
            yield group


@dataclass(frozen=True, slots=True)
class TakenRows:
    """Single deleted or inserted rows.

    Attributes:
        dataset: The version with the rows.
        addresses: Row addresses.
        kind: Their `_change_type`.
    """

    dataset: Dataset
    addresses: Addresses
    kind: str

    @property
    def rows(self) -> int:
        """The number of delivered rows."""
        return len(self.addresses)


@dataclass(frozen=True, slots=True)
class UpdatedRows:
    """Updated rows; each is delivered with old and new values, in the same epoch.

    Attributes:
        old: The version before.
        new: The version after.
        before: Addresses in the old one.
        after: Addresses in the new one.
    """

    old: Dataset
    new: Dataset
    before: Addresses
    after: Addresses

    @property
    def rows(self) -> int:
        """The number of delivered rows."""
        return 2 * len(self.before)


Part = ScannedRows | TakenRows | UpdatedRows


@dataclass(frozen=True, slots=True)
class Delta:
    """Rows of one version for a stream.

    Attributes:
        parts: Parts in the order of positions.
        commit: Commit of the version.
    """

    parts: tuple[Part, ...]
    commit: Commit

    @property
    def rows(self) -> int:
        """The number of delivered rows."""
        return sum(part.rows for part in self.parts)

    @property
    def row_bytes(self) -> int:
        """Approximate file bytes of a row, with blobs outside of data files; at least 1."""
        datasets = [part.new if isinstance(part, UpdatedRows) else part.dataset for part in self.parts]
        fragments = [fragment for dataset in datasets for fragment in dataset.with_side_sizes().fragments]
        rows = sum(fragment.physical_rows for fragment in fragments)
        return max(1, sum(fragment.data_bytes for fragment in fragments) // max(1, rows))

    def align(self, position: int) -> int:
        """Return the first position from this one on that splits no updated row."""
        before = 0
        for part in self.parts:
            if isinstance(part, UpdatedRows) and before < position < before + part.rows:
                return position + (position - before) % 2
            before += part.rows
        return position

    def shares(
        self, start: int, stop: int, columns: StreamColumns, *, partition_bytes: int, tells_changes: bool
    ) -> Iterator[Share]:
        """Return the shares for the rows between two positions."""
        schema = columns.schema
        before = 0
        for part in self.parts:
            first, last = max(start - before, 0), min(stop - before, part.rows)
            before += part.rows
            if first >= last:
                continue
            if isinstance(part, ScannedRows):
                sources = columns.sources_in(part.dataset)
                commit = self.commit if tells_changes else None
                most = max(1, partition_bytes // self.row_bytes)
                for plans in part.plans(first, last, most):
                    yield scan_share(part.dataset, sources, plans, schema, commit, INSERT)
            elif isinstance(part, TakenRows):
                yield from _taken(part, first, last, columns, schema, self.commit)
            else:
                yield from _updated(part, first // 2, last // 2, columns, schema, self.commit)


def _taken(
    part: TakenRows, first: int, last: int, columns: StreamColumns, schema: pa.Schema, commit: Commit
) -> Iterator[Share]:
    sources = columns.sources_in(part.dataset)
    for start in range(first, last, _TAKE_SHARE):
        rows = part.addresses[start : min(start + _TAKE_SHARE, last)]
        yield TakeShare((side_of(part.dataset, sources, rows),), (part.kind,), (rows,), schema, commit)


def _updated(
    part: UpdatedRows, first: int, last: int, columns: StreamColumns, schema: pa.Schema, commit: Commit
) -> Iterator[Share]:
    old, new = columns.sources_in(part.old), columns.sources_in(part.new)
    for start in range(first, last, _TAKE_SHARE):
        rows = slice(start, min(start + _TAKE_SHARE, last))
        before, after = part.before[rows], part.after[rows]
        sides = (side_of(part.old, old, before), side_of(part.new, new, after))
        yield updated_share(sides, before, after, schema, commit)


def commit_of(dataset: Dataset) -> Commit:
    """Return the commit that made a version."""
    return Commit(dataset.version, dataset.manifest.timestamp)


def snapshot_delta(dataset: Dataset) -> Delta:
    """Return all rows of a version, as rows that are new to the stream."""
    return Delta(_scanned(dataset, dataset.fragments), commit_of(dataset))


def added_rows(old: Dataset | None, new: Dataset, *, skip_changes: bool) -> Delta:
    """Return the rows added by a commit.

    Args:
        old: The version before; None if removed, which suffices for an append.
        new: The version.
        skip_changes: Skip a commit that changed or deleted rows.

    Raises:
        StreamChangeError: It changed or deleted rows.
        VersionNotFoundError: The version before is required, and was removed.
    """
    added = _only_added(old, new)
    if added is None:
        if skip_changes:
            return Delta((), commit_of(new))
        raise StreamChangeError(
            f"version {new.version} changed or deleted rows that this stream has already delivered "
            f"({_describe(new)})",
            path=new.uri,
            hint="use the option mode=changes, or skip such commits with skipChangeCommits=true",
        )
    return Delta(_scanned(new, added), commit_of(new))


def changed_rows(old: Dataset, new: Dataset) -> Delta:
    """Return the rows inserted, updated and deleted by a commit.

    Raises:
        UnsupportedError: Values were replaced in place: the changed rows are not recorded.
    """
    added = _only_added(old, new)
    if added is not None:
        return Delta(_scanned(new, added), commit_of(new))
    _refuse_replaced(old, new)
    found = find_changes(old, new, lambda version: new.read_transaction(version).operation)
    parts: list[Part] = []
    if len(found.deleted):
        parts.append(TakenRows(old, found.deleted, DELETE))
    if len(found.before):
        parts.append(UpdatedRows(old, new, found.before, found.after))
    if len(found.inserted):
        parts.append(TakenRows(new, found.inserted, INSERT))
    return Delta(tuple(parts), commit_of(new))


def _scanned(dataset: Dataset, fragments: Sequence[Fragment]) -> tuple[Part, ...]:
    part = ScannedRows(dataset, tuple(fragment for fragment in fragments if fragment.num_rows))
    return (part,) if part.fragments else ()


def _only_added(old: Dataset | None, new: Dataset) -> Sequence[Fragment] | None:
    """Return the new fragments of a commit that kept all others with their rows and values; else None."""
    if old is None:
        operation = new.read_transaction().operation
        if not isinstance(operation, Append):
            return None
        # They come last, in the order of the transaction.
        return new.fragments[len(new.fragments) - len(operation.fragments) :]
    present = new.fragments_by_id
    if not all(_stays(fragment, present.get(fragment.id)) for fragment in old.fragments):
        return None
    known = old.fragments_by_id
    return [fragment for fragment in new.fragments if fragment.id not in known]


def _stays(before: Fragment, after: Fragment | None) -> bool:
    """Return whether a fragment keeps its rows and values; columns may have been added or dropped."""
    if not before.num_rows:
        return True
    if after is None or before.deletion_file != after.deletion_file:
        return False
    if before.overlays != after.overlays:
        return False
    if before.files == after.files:
        return True
    return _files(before) <= _files(after) and not _replaced(before, after)


def _replaced(before: Fragment, after: Fragment) -> bool:
    """Return whether a file has the values of a column that another file had."""
    known = _files(before)
    new = {number for file in after.files if file.path not in known for number in file.fields if number >= 0}
    old = {number for file in before.files for number in file.fields if number >= 0}
    return not new.isdisjoint(old)


def _refuse_replaced(old: Dataset, new: Dataset) -> None:
    pairs = ((before, new.fragments_by_id.get(before.id)) for before in old.fragments)
    shared = ((before, after) for before, after in pairs if after is not None)
    replaced = [
        before.id
        for before, after in shared
        if not _files(before).isdisjoint(_files(after)) and _replaced(before, after)
    ]
    noted = new.uses_stable_row_ids and isinstance(new.read_transaction().operation, Update)
    if replaced and not noted:
        raise UnsupportedError(
            f"columns of fragment {replaced[0]} were replaced in place by version {new.version}: the "
            "changed rows are not recorded",
            path=new.uri,
            hint="start over with a new checkpoint, or after that version with "
            f"startingVersion={new.version + 1}",
        )


def _files(fragment: Fragment) -> frozenset[str]:
    return frozenset(file.path for file in fragment.files)


def _describe(dataset: Dataset) -> str:
    return dataset.read_transaction().operation.describe()
