"""`diff`: the schema and the rows that differ between two versions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from lance_ops.errors import UnsupportedError, public
from lance_ops.file.schema.field_path import format_field_path
from lance_ops.file.schema.model import Field, Schema
from lance_ops.maintenance.text import count_text, table_text
from lance_ops.table.changes import DELETE, INSERT, UPDATE_AFTER
from lance_ops.table.dataset import Dataset, Target, open_dataset
from lance_ops.table.history.resolve_version import VersionSpec


@dataclass(frozen=True, slots=True)
class ColumnDiff:
    """One column that differs.

    Attributes:
        change: "added", "dropped", "renamed", "type" or "nullable"; a column with several of the last three
            has an entry for each.
        column: Path in the newer version; in the older one if dropped.
        before: Name, type or "nullable"/"required" in the older version; None if added.
        after: The same in the newer version; None if dropped.
    """

    change: str
    column: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class DatasetDiff:
    """Result of `diff`.

    Attributes:
        uri: The dataset.
        since: The older version.
        until: The newer version.
        rows_before: Live rows of the older version.
        rows_after: Live rows of the newer version.
        columns: Columns that differ.
        inserted: Rows only in the newer version; None if unknown.
        updated: Rows with changed values; 0 without stable row ids, where an update is a deletion and an
            insertion; None if unknown.
        deleted: Rows only in the older version; None if unknown.
        unknown: Why rows cannot be compared, with the way around it; empty if they can.
    """

    uri: str
    since: int
    until: int
    rows_before: int
    rows_after: int
    columns: tuple[ColumnDiff, ...]
    inserted: int | None
    updated: int | None
    deleted: int | None
    unknown: str = ""

    @property
    def is_empty(self) -> bool:
        """Return whether neither columns nor rows differ."""
        return not self.columns and not any((self.inserted, self.updated, self.deleted, self.unknown))

    def to_dict(self) -> dict[str, object]:
        """Return all values as JSON values."""
        return {"operation": "diff", **asdict(self), "columns": [asdict(item) for item in self.columns]}

    def __str__(self) -> str:
        lines = [f"{self.uri}: version {self.since} -> {self.until}"]
        if self.columns:
            cells = [(d.change, d.column, d.before or "", d.after or "") for d in self.columns]
            lines += [table_text(("column", "name", "before", "after"), cells, limit=None), ""]
        else:
            lines.append("schema: no difference")
        if self.unknown:
            told = f"cannot be compared: {self.unknown}"
        elif not any((self.inserted, self.updated, self.deleted)):
            told = "no difference"
        else:
            told = f"{self.inserted:,} inserted, {self.updated:,} updated, {self.deleted:,} deleted"
        lines.append(f"rows: {told} ({self.rows_before:,} -> {count_text(self.rows_after, 'row')})")
        return "\n".join(lines)


@public(dataset="uri_or_dataset")
def diff(
    uri_or_dataset: Target,
    since: VersionSpec,
    until: VersionSpec | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> DatasetDiff:
    """Compare two versions: columns that were added, dropped or altered, and the number of rows that differ.

    Reads manifests and deletion files, no values; `Dataset.changes` returns the rows.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        since: The older version: a number, a tag, or (branch, version).
        until: The newer one; that of the dataset when None.
        storage_options: For opening the dataset.

    Raises:
        VersionNotFoundError: There is no such version, or it was removed.
        InvalidArgumentError: `since` is the newer one, or of another branch.

    Examples:
        >>> done = lo.delete("events.lance", "id = 3")
        >>> found = lo.diff("events.lance", done.version - 1, done.version)
        >>> found.deleted, found.columns
        (1, ())
    """
    dataset = open_dataset(uri_or_dataset, storage_options)
    try:
        old, new, changes = dataset.find_changes(since, until)
    except UnsupportedError as error:
        old = dataset.checkout_version(since)
        new = dataset if until is None else dataset.checkout_version(until)
        return _diff_of(old, new, {}, f"{error.message}; {error.hint}" if error.hint else error.message)
    counts = {INSERT: len(changes.inserted), UPDATE_AFTER: len(changes.after), DELETE: len(changes.deleted)}
    return _diff_of(old, new, counts, "")


def _diff_of(old: Dataset, new: Dataset, counts: Mapping[str, int], unknown: str) -> DatasetDiff:
    return DatasetDiff(
        uri=new.uri,
        since=old.version,
        until=new.version,
        rows_before=old.count_rows(),
        rows_after=new.count_rows(),
        columns=compare_schemas(old.lance_schema, new.lance_schema),
        inserted=counts.get(INSERT),
        updated=counts.get(UPDATE_AFTER),
        deleted=counts.get(DELETE),
        unknown=unknown,
    )


def compare_schemas(old: Schema, new: Schema) -> tuple[ColumnDiff, ...]:
    """Return the columns that differ; members of structs have entries of their own.

    Columns are the same by field id, or else by path: a new type may give a column a new id.
    """
    before, after = dict(_columns(old.fields)), dict(_columns(new.fields))
    by_path = {column.path: number for number, column in before.items() if number not in after}
    former = {
        number: before[number] if number in before else before.get(by_path.get(column.path, _NO_ID))
        for number, column in after.items()
    }
    found: list[ColumnDiff] = []
    for number, column in after.items():
        found += _column_diffs(former[number], column)
    kept = {column.path for column in former.values() if column is not None}
    dropped = [column for column in before.values() if column.path not in kept]
    found += [ColumnDiff("dropped", column.path, str(column.type), None) for column in dropped]
    return tuple(found)


_NO_ID = -1


@dataclass(frozen=True, slots=True)
class _Column:
    path: str
    name: str
    type: pa.DataType
    nullable: bool


def _columns(fields: Sequence[Field], lead: tuple[str, ...] = ()) -> Iterator[tuple[int, _Column]]:
    for field in fields:
        path, arrow = (*lead, field.name), field.to_arrow()
        yield field.id, _Column(format_field_path(path), field.name, arrow.type, arrow.nullable)
        if pa.types.is_struct(arrow.type):
            yield from _columns(field.children, path)


def _column_diffs(old: _Column | None, new: _Column) -> Iterator[ColumnDiff]:
    if old is None:
        yield ColumnDiff("added", new.path, None, str(new.type))
        return
    if old.name != new.name:
        yield ColumnDiff("renamed", new.path, old.path, new.path)
    both_structs = pa.types.is_struct(old.type) and pa.types.is_struct(new.type)
    if old.type != new.type and not both_structs:
        yield ColumnDiff("type", new.path, str(old.type), str(new.type))
    if old.nullable != new.nullable:
        yield ColumnDiff("nullable", new.path, _nullness(old), _nullness(new))


def _nullness(column: _Column) -> str:
    return "nullable" if column.nullable else "required"
