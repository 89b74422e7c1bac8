"""Merge: join columns of another table by a key, a left join."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, Unpack, overload
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.errors import InvalidArgumentError, SchemaMismatchError, UnsupportedError, public
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.versions import DEFAULT_STORAGE_VERSION
from lance_ops.file.writer import FileWriter
from lance_ops.maintenance.cleanup.auto import cleans_up
from lance_ops.maintenance.columns.job import compute_and_commit
from lance_ops.maintenance.columns.operation import AddColumnsPlan, commit_columns, plan_columns
from lance_ops.maintenance.columns.result import AddColumnsResult
from lance_ops.maintenance.columns.work import FILL_LATER, refuse_mem_wal
from lance_ops.maintenance.engine import Run
from lance_ops.maintenance.fit import first_misfit, fit, fits_type
from lance_ops.maintenance.run_options import RunOptions
from lance_ops.maintenance.runner import LocalRunner
from lance_ops.maintenance.sources.open import open_source
from lance_ops.maintenance.target import Target
from lance_ops.maintenance.tasks import remove_files
from lance_ops.storage import Store
from lance_ops.storage.fork_safe import cached_property, new_lock
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.base_paths import DATA_DIRECTORY


@dataclass(frozen=True)
class JoinedColumns:
    """Columns of another table, looked up by a key; null without a match.

    Attributes:
        left_on: Column of the dataset.
        keys: Unique, non-null keys of the other table, in the type of that column.
        table: Its other columns, in the same order.
    """

    left_on: str
    keys: pa.Array = field(repr=False)
    table: pa.Table = field(repr=False)

    @cached_property
    def name(self) -> str:
        """See `Transform.name`."""
        # Another table with the same job key would be different work.
        values = hash_of(self.table.append_column("\0key", self.keys))
        return f"join on {self.left_on}: {values}"

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """See `Transform.columns`."""
        schema.field(self.left_on)
        return (self.left_on,)

    def values(self, rows: pa.Table) -> list[pa.Array]:
        """See `Transform.values`."""
        wanted = rows.column(0).combine_chunks()
        places = pc.index_in(_plain(wanted), value_set=self.keys)
        found = self.table.take(places)
        return [column.combine_chunks() for column in found.columns]


@dataclass(frozen=True, slots=True)
class CarriedColumns:
    """The same, for executors: the other table is in a file, which each process reads once.

    Attributes:
        left_on: Column of the dataset.
        name: See `Transform.name`.
        store: Root of the dataset.
        path: The file: the key in its first column.
        key: Name of that column.
    """

    left_on: str
    name: str
    store: Store
    path: str
    key: str

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """See `Transform.columns`."""
        schema.field(self.left_on)
        return (self.left_on,)

    def values(self, rows: pa.Table) -> list[pa.Array]:
        """See `Transform.values`."""
        with _READ_LOCK:
            found = _READ.get(self.path)
            if found is None:
                table = FileReader.open(self.store, self.path).read_table()
                found = JoinedColumns(
                    self.left_on, table[self.key].combine_chunks(), table.drop_columns([self.key])
                )
                # One at a time: the next call has another table.
                _READ.clear()
                _READ[self.path] = found
        return found.values(rows)


_READ: dict[str, JoinedColumns] = {}
_READ_LOCK = new_lock()


@contextmanager
def carried(store: Store, columns: JoinedColumns) -> Iterator[CarriedColumns]:
    """Write the other table for executors, and remove it at the end.

    Otherwise it would be sent with each task. After a crash, its file is an unused data file.
    """
    key = "key"
    while key in columns.table.column_names:
        key += "_"
    table = columns.table.add_column(0, key, columns.keys)
    schema = Schema.from_arrow(table.schema)
    path = f"{DATA_DIRECTORY}/{uuid4()}.lance"
    try:
        with FileWriter(store, path, schema, version=DEFAULT_STORAGE_VERSION) as writer:
            writer.write(table)
        yield CarriedColumns(columns.left_on, columns.name, store, path, key)
    finally:
        remove_files(store, [path])


def hash_of(table: pa.Table) -> str:
    """Return a digest of all values of a table."""
    digest = blake2b(digest_size=12)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    digest.update(sink.getvalue())
    return digest.hexdigest()


@overload
def merge(
    uri_or_dataset: Target,
    data: Any,
    left_on: str,
    right_on: str | None = None,
    *,
    dry_run: Literal[False] = False,
    **run: Unpack[RunOptions],
) -> AddColumnsResult: ...
@overload
def merge(
    uri_or_dataset: Target,
    data: Any,
    left_on: str,
    right_on: str | None = None,
    *,
    dry_run: Literal[True],
    **run: Unpack[RunOptions],
) -> AddColumnsPlan: ...
@overload
def merge(
    uri_or_dataset: Target,
    data: Any,
    left_on: str,
    right_on: str | None = None,
    *,
    dry_run: bool,
    **run: Unpack[RunOptions],
) -> AddColumnsResult | AddColumnsPlan: ...
@public(target="uri_or_dataset", data_obj="data")
@cleans_up
def merge(
    uri_or_dataset: Target,
    data: Any,
    left_on: str,
    right_on: str | None = None,
    *,
    dry_run: bool = False,
    **run: Unpack[RunOptions],
) -> AddColumnsResult | AddColumnsPlan:
    """Join the columns of another table to the rows of a dataset, in one commit: a left join by one key.

    Rows without a match get nulls. No existing file is rewritten. The other table is held in memory, here and
    by each process of a cluster, which reads it once. To update or insert rows, see `merge_insert`.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        data: The other table: whatever `write_dataset` takes.
        left_on: Key column of the dataset.
        right_on: Key column of the data; the same name if None.
        dry_run: Return the plan.
        **run: See `RunOptions`; it is resumed like `add_columns`.

    Raises:
        InvalidArgumentError: A key column does not exist, or a column of the data exists already.
        SchemaMismatchError: Two rows of the data have one key, or a key does not fit the type of the column;
            names column and row. Nothing was changed.
        CommitConflictError: Another commit stands in the way.

    Examples:
        >>> labels = pa.table({"kind": ["a", "b"], "label": ["click", "view"]})
        >>> lo.merge("events.lance", labels, "kind").columns
        ('label',)
    """
    call = Run.start("merge", uri_or_dataset, run)
    found = call.find_job()
    if found is not None and not dry_run:
        return AddColumnsResult(**found)
    refuse_mem_wal(call.dataset, "columns cannot be joined", FILL_LATER)
    joined, arrow = _joined(call.dataset, data, left_on, right_on or left_on)
    if dry_run:
        return plan_columns(joined, arrow, call.dataset)
    stays = isinstance(call.runner, LocalRunner)
    with nullcontext(joined) if stays else carried(call.store, joined) as transform:

        def plan(dataset: Dataset) -> AddColumnsPlan:
            return plan_columns(transform, arrow, dataset)

        return compute_and_commit(call, transform, plan, commit_columns, AddColumnsResult)


def _joined(dataset: Dataset, data: Any, left_on: str, right_on: str) -> tuple[JoinedColumns, pa.Schema]:
    own = dataset.lance_schema.field(left_on)
    if own not in dataset.lance_schema.fields or own.children:
        raise UnsupportedError(
            f"{left_on!r} cannot be a key: it must be a plain top-level column", field="left_on"
        )
    kind = _plain_type(own.to_arrow().type)
    if pat.is_nested(kind) or pat.is_null(kind) or pat.is_float16(kind):
        raise UnsupportedError(
            f"column {left_on!r} of type {kind} cannot be a key",
            path=dataset.uri,
            field="left_on",
            hint="use a column of numbers, strings, dates or times",
        )
    source = open_source(data)
    batches = list(source.batches())
    table = pa.Table.from_batches(batches, None if batches else source.read_schemas()[0][1])
    if right_on not in table.schema.names:
        raise InvalidArgumentError(
            f"the data has no column {right_on!r}",
            field="right_on",
            hint=f"columns are: {', '.join(table.schema.names)}",
        )
    keys = table[right_on].combine_chunks()
    if not fits_type(keys.type, kind):
        raise SchemaMismatchError(
            "the key of the data does not match that of the dataset",
            [f"{right_on}: {keys.type} cannot become {kind}"],
            path=dataset.uri,
        )
    misfit = first_misfit(keys, kind)
    if misfit is not None:
        raise SchemaMismatchError(
            "the key of the data does not match that of the dataset",
            [f"{right_on}: {misfit[1]} in row {misfit[0]} of the data"],
            path=dataset.uri,
        )
    fitted = _plain(fit(_plain(keys), kind))
    # A null matches no row.
    present = fitted.is_valid()
    others = table.drop_columns([right_on]).filter(present).combine_chunks()
    fitted = fitted.filter(present)
    _refuse_duplicates(fitted, right_on, dataset)
    arrow = pa.schema([item.with_nullable(True) for item in others.schema])
    return JoinedColumns(left_on, fitted, others), arrow


def _refuse_duplicates(keys: pa.Array, name: str, dataset: Dataset) -> None:
    if pc.count_distinct(keys).as_py() == len(keys):
        return
    counts = keys.value_counts()
    key = next(item["values"] for item in counts if item["counts"].as_py() > 1)
    first = keys.index(key).as_py()
    second = keys.index(key, first + 1).as_py()
    raise SchemaMismatchError(
        "duplicate keys in the data",
        [f"{name}: {key.as_py()!r} in rows {first} and {second}"],
        path=dataset.uri,
    )


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    return kind.value_type if pat.is_dictionary(kind) else kind


def _plain(values: pa.Array) -> pa.Array:
    """Return a type without extension types and dictionaries, which the lookup does not support."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    return values.dictionary_decode() if pat.is_dictionary(values.type) else values
