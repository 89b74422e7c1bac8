"""Changed rows: old and new values of the rows of a change feed."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.parallel import keep_to_this_thread
from lance_ops.encoding.values.fixed_size_list import rearrange_rows
from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.model import Field
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.storage.prefetch import has_latency, prefetch, read_small
from lance_ops.table.changes import (
    CHANGE_TYPE,
    CHANGE_TYPES,
    COMMIT_VERSION,
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Changes,
    parts_of,
)
from lance_ops.table.former_values import FormerColumn
from lance_ops.table.readable import Readable
from lance_ops.table.scan.fragment_rows import FragmentRows
from lance_ops.table.scan.plan import bytes_per_row
from lance_ops.table.scan.projection import Projection, build_projection
from lance_ops.table.scan.row_columns import ROW_ID
from lance_ops.table.scan.unit_sizes import THREADS

_BATCH_ROWS = 64 << 10
_BATCH_BYTES = 32 << 20
# Smaller batches are joined: per-batch overhead then exceeds the cost of the copy.
_LEAST_ROWS = 8 << 10
# With fewer rows in total, handing them to threads takes longer than reading them.
_WORTH_THREADS = 16 << 10
_OFFSET_BITS, _OFFSET_MASK = np.uint64(32), np.uint64(0xFFFF_FFFF)

_Numbers = npt.NDArray[np.uint64]


def read_changes(
    old: Readable,
    new: Readable,
    changes: Changes,
    columns: Sequence[str] | None,
    *,
    with_row_id: bool,
    change_types: Collection[str] | None = None,
) -> pa.RecordBatchReader:
    """Read the changed rows with their values.

    Args:
        old: The older version.
        new: The newer one.
        changes: Between them.
        columns: Top-level columns of the newer version; all when None.
        with_row_id: Add the column `_rowid`.
        change_types: Kinds of changes to read, of `CHANGE_TYPES`; all when None. Other kinds cost nothing.

    Returns:
        Batches of at most 65,536 rows: the columns as the newer version has them, null in rows of the older
        version where it lacks the column, and cast where the type of the column changed (null where a value
        does not fit); `_change_type` (string) and `_commit_version`
        (uint64; null where it is not recorded). Deleted rows come first, then some updated rows after the
        others as they were and as they are, then inserted ones.

    Raises:
        InvalidArgumentError: There is no such column, or no such kind of change.
    """
    kinds = _check_kinds(change_types)
    # Validates column names before anything is read.
    empty = new.take([], columns, by="address", with_row_id=with_row_id)
    names = list(new.lance_schema.names if columns is None else columns)
    fields = [new.lance_schema.field(name) for name in names]
    former = {
        field.name: FormerColumn(found, field, changes.origins)
        for field in fields
        if (found := _former(field, old, changes.origins)) is not None
    }
    may_be_null = {
        field.name for field in fields if field.name not in former or not former[field.name].is_same
    }
    schema = pa.schema(
        [
            *(field.with_nullable(True) if field.name in may_be_null else field for field in empty.schema),
            pa.field(CHANGE_TYPE, pa.string(), nullable=False),
            pa.field(COMMIT_VERSION, pa.uint64()),
        ],
        metadata=empty.schema.metadata,
    )
    after = _Side.of(new, {name: name for name in names}, empty.schema, with_row_id=with_row_id)
    earlier = {name: item.before.name for name, item in former.items()}
    before = replace(
        _Side.of(old, earlier, empty.schema, with_row_id=with_row_id),
        former={name: item for name, item in former.items() if not item.is_same},
    )
    only = new.version if new.version == old.version + 1 else None

    def read(side: _Side, kind: str, rows: _Numbers, versions: _Numbers | None) -> list[pa.RecordBatch]:
        if versions is None and only is not None:
            versions = np.full(len(rows), only, np.uint64)
        at = pa.nulls(len(rows), pa.uint64()) if versions is None else pa.array(versions, pa.uint64())
        values = [*side.read(rows), pa.repeat(pa.scalar(kind), len(rows)), at]
        return _batches(pa.Table.from_arrays(values, schema=schema))

    def tasks() -> Iterator[Callable[[], list[pa.RecordBatch]]]:
        if DELETE in kinds:
            for part in parts_of(len(changes.deleted), before.rows_at_once(changes.deleted)):
                yield partial(read, before, DELETE, changes.deleted[part], None)
        each = min(before.rows_at_once(changes.before), after.rows_at_once(changes.after))
        for part in parts_of(len(changes.after), each):
            at = None if changes.updated_at is None else changes.updated_at[part]
            if UPDATE_BEFORE in kinds:
                yield partial(read, before, UPDATE_BEFORE, changes.before[part], at)
            if UPDATE_AFTER in kinds:
                yield partial(read, after, UPDATE_AFTER, changes.after[part], at)
        if INSERT in kinds:
            for part in parts_of(len(changes.inserted), after.rows_at_once(changes.inserted)):
                at = None if changes.inserted_at is None else changes.inserted_at[part]
                yield partial(read, after, INSERT, changes.inserted[part], at)

    rows = len(changes.deleted) + 2 * len(changes.after) + len(changes.inserted)
    # Over a network, the requests of one part run concurrently, which is enough.
    alone = rows < _WORTH_THREADS or has_latency(new.bases.root)
    batches = prefetch(tasks(), 1 if alone else THREADS, prepare=keep_to_this_thread)
    return pa.RecordBatchReader.from_batches(schema, chain.from_iterable(batches))


@dataclass(frozen=True, slots=True)
class _Side:
    """A version from which rows are read.

    Attributes:
        snapshot: The version.
        projection: Its columns.
        places: Position in the projection of each result column; None for a null column.
        schema: Of the result.
        former: Columns whose values are converted, by their names in the result.
    """

    snapshot: Readable
    projection: Projection
    places: tuple[int | None, ...]
    schema: pa.Schema
    former: Mapping[str, FormerColumn] = field(default_factory=dict)

    @classmethod
    def of(
        cls, snapshot: Readable, names: dict[str, str], schema: pa.Schema, *, with_row_id: bool
    ) -> "_Side":
        """Map names of result columns to names of stored columns."""
        projection = build_projection(snapshot.lance_schema, list(names.values()), with_row_id=with_row_id)
        wanted = [ROW_ID if name == ROW_ID and with_row_id else names.get(name) for name in schema.names]
        there = projection.arrow_schema.names
        places = tuple(None if name is None else there.index(name) for name in wanted)
        return cls(snapshot, projection, places, schema)

    def rows_at_once(self, addresses: _Numbers) -> int:
        """Return how many rows to read at a time; a group of rows has some memory overhead even if narrow."""
        ids = (addresses[:: max(1, len(addresses) >> 6)] >> _OFFSET_BITS).tolist()
        width = prepare_schema(self.projection.schema).row_bytes
        present = self.snapshot.fragments_by_id
        most = max((bytes_per_row(present[number], width) for number in set(ids)), default=1)
        return max(1, min(_BATCH_ROWS, _BATCH_BYTES // most))

    def read(self, addresses: _Numbers) -> list[pa.ChunkedArray | pa.Array]:
        """Read columns of live rows, in their order."""
        order = None
        if not (addresses[1:] > addresses[:-1]).all():
            order = np.argsort(addresses)
            addresses = addresses[order]
        numbers = addresses >> _OFFSET_BITS
        cuts = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(addresses)]
        present = self.snapshot.fragments_by_id

        def fetch(first: int, last: int) -> pa.Table:
            rows = FragmentRows(self.snapshot, present[int(numbers[first])], 0)
            offsets = (addresses[first:last] & _OFFSET_MASK).astype(np.int64)
            read = [rows.fetch(self.projection.schema, offsets)] if self.projection.schema.fields else []
            return self.projection.build(read, rows.columns, offsets)

        shares = (partial(fetch, first, last) for first, last in pairwise(cuts))
        table = pa.concat_tables(list(read_small(self.snapshot.bases.root, shares)))
        if order is not None:
            inverse = np.empty(len(order), np.intp)
            inverse[order] = np.arange(len(order))
            table = rearrange_rows(table, pa.array(inverse))
        return [
            pa.nulls(len(addresses), field.type)
            if place is None
            else self._converted(table.column(place), field)
            for place, field in zip(self.places, self.schema, strict=True)
        ]

    def _converted(self, values: pa.ChunkedArray, wanted: pa.Field) -> pa.ChunkedArray:
        item = self.former.get(wanted.name)
        return values if item is None else item.convert(values, wanted.type)


def _batches(table: pa.Table) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = table.to_batches()
    if len(batches) * _LEAST_ROWS > table.num_rows and len(batches) > 1:
        batches = table.combine_chunks().to_batches()
    return batches


def _check_kinds(change_types: Collection[str] | None) -> frozenset[str]:
    if change_types is None:
        return frozenset(CHANGE_TYPES)
    unknown = (
        [change_types] if isinstance(change_types, str) else sorted(set(change_types) - set(CHANGE_TYPES))
    )
    if unknown:
        raise InvalidArgumentError(
            f"change_types must list some of {', '.join(CHANGE_TYPES)}; got {unknown[0]!r}",
            field="change_types",
        )
    return frozenset(change_types)


def _former(field: Field, old: Readable, origins: Mapping[int, int]) -> Field | None:
    """Return the column in the older version, under its old name and type."""
    origin = origins.get(field.id)
    return next((before for before in old.lance_schema.fields if before.id == origin), None)
