"""Rows of MemWAL: the newest row of each key among generations and log entries.

Order, as in pylance: higher generations are newer, log entries are newer than generations, later rows of an
entry are newer. Columns are matched by field id; one that a generation lacks has nulls, because a row of
MemWAL replaces the whole row of its key. Source: MemWAL specification, "LSM Tree Merging Read".
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.errors import DatasetNotFoundError, FileMissingError, SchemaMismatchError, UnsupportedError
from lance_ops.file.schema.field import PRIMARY_KEY_KEY, PRIMARY_KEY_POSITION_KEY
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.storage import Store
from lance_ops.table.assemble import null_column
from lance_ops.table.join_keys import NOWHERE, KeyIndex, plain_keys, primary_key
from lance_ops.table.mem_wal.log import FIELD_ID, read_entries
from lance_ops.table.mem_wal.shards import Generation
from lance_ops.table.mem_wal.state import MemWalState, PendingShard

TOMBSTONE = "_tombstone"
"""Column of generations and log entries: true for a row that deletes its key."""


class OpenedGeneration(Protocol):
    """A generation that can be read."""

    @property
    def lance_schema(self) -> Schema:
        """Columns with field ids."""

    def to_table(self, columns: Iterable[str] | None = None) -> pa.Table:
        """Read the live rows."""


OpenGeneration = Callable[[Store], OpenedGeneration]


@dataclass(frozen=True, slots=True)
class MemWalRows:
    """The newest rows of MemWAL.

    Attributes:
        key: Columns of the primary key; empty for a table without one, whose rows are all kept.
        live: Rows to add to the table.
        deleted: Keys of rows to delete; its columns are those of the key.
    """

    key: tuple[str, ...]
    live: pa.Table
    deleted: pa.Table

    def index(self) -> KeyIndex | None:
        """Return all keys, for the lookup of rows of the table that are superseded; None without a key."""
        if not self.key:
            return None
        keys = pa.concat_tables([self.live.select(self.key), self.deleted])
        return KeyIndex.of([plain_keys(keys.column(name)) for name in self.key])[0]


def key_of(schema: Schema) -> tuple[str, ...]:
    """Return the primary key of a table with MemWAL; empty without one.

    Raises:
        UnsupportedError: A column inside of another one belongs to the key.
    """
    nested = [node.name for top in schema.fields for node in top.walk() if node is not top and _is_key(node)]
    if nested:
        raise UnsupportedError(
            f"the primary key has the nested column {nested[0]!r}", field=nested[0], hint="read with pylance"
        )
    return tuple(field.name for field in primary_key(schema))


def _is_key(field: Field) -> bool:
    return field.has_option(PRIMARY_KEY_KEY) or PRIMARY_KEY_POSITION_KEY in field.metadata


def newest_rows(
    state: MemWalState, schema: Schema, columns: Sequence[str], open_generation: OpenGeneration
) -> MemWalRows:
    """Read the newest row of each key.

    Args:
        state: What the shards hold.
        schema: Schema of the table.
        columns: Top-level columns; those of the key are added.
        open_generation: Opens the dataset of a generation.

    Raises:
        CorruptFileError: A log entry is damaged.
        FileMissingError: A listed generation does not exist.
        SchemaMismatchError: A column has another type than that of the table.
    """
    key = key_of(schema)
    wanted = schema.select([name for name in schema.names if name in {*columns, *key}])
    parts = [
        (item.shard.next_generation if number is None else number, table)
        for item in state.shards
        for number, table in _read_shard(state.store, item, wanted, open_generation)
    ]
    # Keys belong to one shard; where a writer broke that rule, the higher generation wins, as in pylance.
    parts.sort(key=lambda part: part[0])
    return resolve([table for _, table in parts], wanted, key)


def resolve(parts: Sequence[pa.Table], schema: Schema, key: Sequence[str]) -> MemWalRows:
    """Keep the newest row of each key.

    Args:
        parts: Rows with `_tombstone` as the last column, the oldest first.
        schema: Their other columns.
        key: Columns of the primary key; all rows are kept if it is empty.
    """
    arrow = prepare_schema(schema).arrow
    empty = arrow.append(pa.field(TOMBSTONE, pa.bool_())).empty_table()
    rows = pa.concat_tables([empty, *parts]).combine_chunks()
    if key:
        # Backwards: the first row of each key is its newest one.
        newest_first = rows.take(pa.array(np.arange(rows.num_rows - 1, -1, -1)))
        firsts = KeyIndex.of([plain_keys(newest_first.column(name)) for name in key])[1]
        # A row with a null in its key, which no writer should let through, supersedes none.
        kept = np.flatnonzero((firsts == np.arange(len(firsts))) | (firsts == NOWHERE))
        rows = newest_first.take(pa.array(kept[::-1]))
    gone = rows.column(TOMBSTONE)
    live = rows.filter(pc.invert(gone)).select(arrow.names)
    return MemWalRows(tuple(key), live, rows.filter(gone).select(list(key)))


def _read_shard(
    store: Store, pending: PendingShard, schema: Schema, open_generation: OpenGeneration
) -> Iterator[tuple[int | None, pa.Table]]:
    """Yield (generation, rows) of the generations of a shard, then of its log, with None for the number."""
    for item in pending.generations:
        yield item.number, read_generation(store, item, schema, open_generation)
    for entry, table in zip(
        pending.entries, read_entries(store, pending.shard, pending.entries), strict=True
    ):
        if table.num_rows:
            ids = {name: _field_id(table.schema.field(name), schema) for name in table.schema.names}
            yield None, _fit(table, ids, schema, f"{store.uri}/{entry.path}")


def read_generation(
    store: Store, generation: Generation, schema: Schema, open_generation: OpenGeneration
) -> pa.Table:
    """Read the rows of a generation in the columns of the table, with `_tombstone` as the last one.

    Raises:
        FileMissingError: It does not exist.
        SchemaMismatchError: A column has another type than that of the table.
    """
    path = f"{store.uri}/{generation.path}"
    try:
        opened = open_generation(store.child(generation.path))
    except DatasetNotFoundError as error:
        raise FileMissingError(
            f"generation {generation.number} is listed in the manifest of its shard, but does not exist",
            path=path,
            hint="restore the folder from a copy of the table: its rows are nowhere else",
        ) from error
    ids = {field.name: field.id for field in opened.lance_schema.fields}
    wanted = {field.id for field in schema.fields}
    names = [name for name, number in ids.items() if number in wanted or name == TOMBSTONE]
    return _fit(opened.to_table(names), ids, schema, path)


def _field_id(field: pa.Field, schema: Schema) -> int:
    text = (field.metadata or {}).get(FIELD_ID, b"")
    if text.isdigit():
        return int(text)
    # Entries of early writers do not say it.
    return next((item.id for item in schema.fields if item.name == field.name), -1)


def _fit(table: pa.Table, ids: Mapping[str, int], schema: Schema, path: str) -> pa.Table:
    """Return the columns of the table's schema, and `_tombstone`."""
    names = {number: name for name, number in ids.items() if name != TOMBSTONE}
    columns = []
    arrow = prepare_schema(schema).arrow
    for field, kind in zip(schema.fields, arrow, strict=True):
        name = names.get(field.id)
        if name is None:
            columns.append(null_column(kind.type, table.num_rows))
            continue
        column = table.column(name)
        if column.type != kind.type:
            column = _cast(column, kind, path)
        columns.append(column)
    gone = table.column(TOMBSTONE) if TOMBSTONE in table.column_names else _none_gone(table.num_rows)
    return pa.table([*columns, gone], schema=arrow.append(pa.field(TOMBSTONE, pa.bool_())))


def _none_gone(rows: int) -> pa.Array:
    return pa.array(np.zeros(rows, np.bool_))


def _cast(column: pa.ChunkedArray, kind: pa.Field, path: str) -> pa.ChunkedArray:
    try:
        return column.cast(kind.type)
    except (pa.ArrowException, ValueError) as error:
        raise SchemaMismatchError(
            "rows of MemWAL do not fit the table",
            [f"{kind.name}: {column.type}, the table has {kind.type}"],
            path=path,
            hint="change the type of a column only after all generations are folded into the table",
        ) from error
