"""Scan: a plan becomes batches, with bounded memory and some work ahead in threads."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.errors import InvalidArgumentError, check_type
from lance_ops.file.schema.blob_fields import has_blob_v2
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.filter import select
from lance_ops.storage.prefetch import has_latency, prefetch
from lance_ops.table.assemble import empty_table
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.fragment_rows import FragmentRows, ScanSource
from lance_ops.table.scan.plan import FragmentPlan, ScanPlan, bytes_per_row
from lance_ops.table.scan.projection import rows_without_columns
from lance_ops.table.scan.row_columns import Rows, as_offsets
from lance_ops.table.scan.small_fragments import FragmentGroup, find_groups

BATCH_ROWS = 65_536
"""Rows of a batch at most, unless the caller says otherwise."""

_UNIT_BYTES = 32 << 20
"""Size at which a fragment is cut for reading: what one thread holds at a time."""

_TABLE_UNIT_BYTES = 512 << 20
"""The same when the whole result is kept anyway, where larger reads cost nothing."""

_WORTH_A_THREAD = 1 << 20

# Below, it takes longer to share the work between threads than to do it (measured). Values of one width, by
# what they take in memory, are unpacked or only mapped; others, by what they take in files, are mostly copied
# up to 2.0, where pages may also be compressed as a whole, and have to be decompressed since then.
_SHARE_OF_ONE_WIDTH = 8 << 20
_SHARE_OF_COPIED = 8 << 20
_SHARE_OF_COMPRESSED = 3 << 19
_FIRST_COMPRESSED = (2, 1)

# Below both, a fragment is not opened only to learn what its rows take in memory.
_LARGE_BYTES = 8 << 20
_LARGE_ROWS = 1 << 18

_THREADS = min(4, os.cpu_count() or 1)

# On a store with latency requests are made side by side, as long as what they bring takes no more than this.
_REMOTE_THREADS = 16
_REMOTE_BYTES = 128 << 20


class Scan:
    """A plan and where to run it. Each of the three ways to run it starts afresh.

    Args:
        source: The dataset.
        plan: What to read.
        batch_rows: Rows of a batch at most.
        threads: Threads that read ahead; memory grows with them.

    Raises:
        InvalidArgumentError: A number below 1.
    """

    def __init__(
        self, source: ScanSource, plan: ScanPlan, *, batch_rows: int = BATCH_ROWS, threads: int = _THREADS
    ) -> None:
        check_type(batch_rows, Integral, "a number of rows", field="batch_size")
        if batch_rows < 1 or threads < 1:
            raise InvalidArgumentError(
                "batch_size and threads must be at least 1", field="batch_size, threads"
            )
        self._source = source
        self.plan = plan
        self._batch_rows = batch_rows
        self._threads = threads

    @property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        return self.plan.projection.arrow_schema

    def to_batches(self) -> pa.RecordBatchReader:
        """The result as a stream of batches; memory does not grow with its size."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def to_table(self) -> pa.Table:
        """The whole result."""
        tables = [part.table for part in self._parts(self._table_unit_bytes()) if part.num_rows]
        if not self.plan.projection.outputs:
            return rows_without_columns(sum(table.num_rows for table in tables), self.schema)
        if len(tables) == 1:
            return tables[0]
        return pa.concat_tables(tables) if tables else empty_table(self.schema)

    def count_rows(self) -> int:
        """Number of rows of the result. No column is read but those of the filter."""
        if self.plan.filter is None:
            return sum(_planned_rows(plan) for plan in self.plan.fragments)
        return sum(part.num_rows for part in self._parts(_UNIT_BYTES, count_only=True))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for part in self._parts(_UNIT_BYTES):
            for batch in part.table.to_batches(max_chunksize=self._batch_rows):
                if batch.num_rows:
                    yield batch

    def _parts(self, unit_bytes: int, *, count_only: bool = False) -> Iterator["_Part"]:
        """Results of all units in order, after limit and offset of a filtered scan."""
        skip, left = self.plan.offset, self.plan.limit
        if left == 0:
            return
        columns = self.plan.filter_schema if count_only else self.plan.rest_schema
        if self.plan.filter is not None and not count_only:
            columns = Schema(self.plan.filter_schema.fields + columns.fields)
        units = self._units(unit_bytes, columns, count_only=count_only)
        for part in prefetch(units, self._threads_for(unit_bytes)):
            if skip >= part.num_rows:
                skip -= part.num_rows
                continue
            kept = part.slice(skip, left)
            skip = 0
            yield kept
            if left is not None:
                left -= kept.num_rows
                if left == 0:
                    return

    def _units(
        self, unit_bytes: int, columns: Schema, *, count_only: bool
    ) -> Iterator[Callable[[], "_Part"]]:
        width = prepare_schema(columns).row_bytes

        def prepare(plans: Sequence[FragmentPlan]) -> Iterable[Callable[[], "_Part"]]:
            fragments = [_FragmentScan(self._source, self.plan, plan) for plan in plans]
            if len(fragments) > 1:
                return (_GroupScan(self._source, self.plan, fragments, count_only),)
            ranges = fragments[0].ranges(unit_bytes, self._batch_rows, columns, width)
            return (_Unit(fragments[0], start, stop, count_only) for start, stop in ranges)

        if not self._is_remote:
            for plans in self._runs(width):
                yield from prepare(plans)
            return
        # Deletions, and what tells where to cut, are requests too: made ahead, for a few fragments.
        prepared = (partial(_listed, prepare, plans) for plans in self._runs(width))
        for units in prefetch(prepared, _REMOTE_THREADS):
            yield from units

    def _runs(self, width: int | None) -> Iterator[Sequence[FragmentPlan]]:
        """The fragments, with those together that can be read as one."""
        plans = self.plan.fragments
        row_columns = self.plan.projection.has_row_columns or self.plan.filter_row_columns
        # Where requests take long, they are better made side by side.
        if row_columns or self._is_remote:
            return ((plan,) for plan in plans)
        max_rows = _UNIT_BYTES // (width or 1)
        return find_groups(plans, lambda plan: plan.fragment if plan.is_whole else None, max_rows)

    def _table_unit_bytes(self) -> int:
        """Bytes to read at a time for one table: as much as possible, but something for each thread."""
        plans = self.plan.fragments
        shares = -(-self._threads // max(1, len(plans)))
        # Behind a network, a share would cost requests of its own for what lies around its ends.
        if shares == 1 or not plans or has_latency(self._source.bases.root):
            return _TABLE_UNIT_BYTES
        width = prepare_schema(self.plan.projection.schema).row_bytes
        if not any(_is_worth_sharing(plan.fragment, width, shares) for plan in plans):
            return _TABLE_UNIT_BYTES
        row, rows = max((bytes_per_row(plan.fragment, width), plan.fragment.physical_rows) for plan in plans)
        # One batch more, since units end with whole batches.
        return min(_TABLE_UNIT_BYTES, row * (-(-rows // shares) + self._batch_rows))

    def _threads_for(self, unit_bytes: int) -> int:
        fragments = self.plan.fragments
        if not fragments:
            return 1
        size = sum(plan.fragment.data_bytes for plan in fragments)
        # Small local reads are spent in Python, where threads only get into each other's way (measured).
        unit = min(size // len(fragments), unit_bytes)
        if self._is_remote:
            return max(self._threads, min(_REMOTE_THREADS, _REMOTE_BYTES // max(1, unit)))
        return 1 if unit < _WORTH_A_THREAD else self._threads

    @property
    def _is_remote(self) -> bool:
        return has_latency(self._source.bases.root)


def _listed(
    prepare: Callable[[Sequence[FragmentPlan]], Iterable[Callable[[], "_Part"]]],
    plans: Sequence[FragmentPlan],
) -> list[Callable[[], "_Part"]]:
    return list(prepare(plans))


@dataclass(frozen=True, slots=True)
class _Part:
    num_rows: int
    table: pa.Table

    def slice(self, skip: int, limit: int | None) -> "_Part":
        count = self.num_rows - skip if limit is None else min(limit, self.num_rows - skip)
        return self if count == self.num_rows else _Part(count, self.table.slice(skip, count))


@dataclass(frozen=True, slots=True)
class _Unit:
    """Rows `[start, stop)` of a fragment, read in one go."""

    fragment: "_FragmentScan"
    start: int
    stop: int
    count_only: bool

    def __call__(self) -> _Part:
        return self.fragment.run(self.start, self.stop, count_only=self.count_only)


@dataclass(frozen=True, slots=True)
class _GroupScan:
    """Small fragments, all of whose rows are read in one go."""

    source: ScanSource
    scan: ScanPlan
    fragments: Sequence["_FragmentScan"]
    count_only: bool

    def __call__(self) -> _Part:
        run = FragmentGroup(self.source.bases, [fragment.fragment for fragment in self.fragments])
        return self._read(run) or self._read_apart()

    def _read(self, run: FragmentGroup) -> _Part | None:
        count = run.num_rows
        projection, tables, mask = self.scan.projection, [], None
        if self.scan.filter is not None:
            table = run.read(self.scan.filter_schema)
            if table is None:
                return None
            mask = select(self.scan.filter, table)
            table = table.filter(mask)
            count = table.num_rows
            tables.append(table)
        if self.count_only or not count:
            return _Part(count, empty_table(projection.arrow_schema))
        if self.scan.rest_schema.fields:
            rest = run.read(self.scan.rest_schema)
            if rest is None:
                return None
            tables.append(rest if mask is None else rest.filter(mask))
        return _Part(count, projection.build(tables, None, range(count)))

    def _read_apart(self) -> _Part:
        parts = [
            fragment.run(0, fragment.fragment.physical_rows, count_only=self.count_only)
            for fragment in self.fragments
        ]
        tables = [part.table for part in parts]
        count = sum(part.num_rows for part in parts)
        if not self.scan.projection.outputs:
            return _Part(count, rows_without_columns(count, self.scan.projection.arrow_schema))
        return _Part(count, pa.concat_tables(tables))


class _FragmentScan:
    """One fragment of a plan."""

    def __init__(self, source: ScanSource, scan: ScanPlan, plan: FragmentPlan) -> None:
        self._scan = scan
        self.fragment = plan.fragment
        self._plan = plan
        self._rows = FragmentRows(source, plan.fragment, plan.rows_before)

    def ranges(
        self, unit_bytes: int, batch_rows: int, columns: Schema, width: int | None
    ) -> Iterator[tuple[int, int]]:
        """Physical ranges to read one by one, given the columns and the fixed width of a row."""
        start, stop = self._bounds()
        rows = max(1, unit_bytes // bytes_per_row(self._plan.fragment, width))
        if width is None and (self._may_be_large() or has_blob_v2(columns)):
            # What is small in a file can be large in memory, or lie beside it.
            scale = max(1, unit_bytes // _UNIT_BYTES)
            rows = min(rows, self._rows.window_rows(columns) * scale)
        if rows > batch_rows:
            # Whole batches: else every unit would end in a short one.
            rows -= rows % batch_rows
        for begin, end in self._row_ranges(start, stop):
            for first in range(begin, end, rows):
                yield first, min(first + rows, end)

    def _row_ranges(self, start: int, stop: int) -> list[tuple[int, int]]:
        if self._scan.filter is None or self._plan.exact:
            return [(start, stop)]
        return self._rows.row_ranges(self._scan.filter, self._scan.filter_schema, start, stop)

    def _may_be_large(self) -> bool:
        fragment = self._plan.fragment
        return fragment.data_bytes >= _LARGE_BYTES or fragment.physical_rows >= _LARGE_ROWS

    def _bounds(self) -> tuple[int, int]:
        rows = self._plan.fragment.physical_rows
        skip, take = self._plan.skip, self._plan.take
        if skip == 0 and take is None:
            return 0, rows
        live = self._rows.live_rows(0, rows)
        return int(live[skip]), rows if take is None else int(live[skip + take - 1]) + 1

    def run(self, start: int, stop: int, *, count_only: bool) -> _Part:
        """Read one range: the filter's columns first, the rest for the rows that are left."""
        rows = self._live_rows(start, stop)
        tables = []
        if self._scan.filter is not None and not self._plan.exact and len(rows):
            table = self._rows.fetch(self._scan.filter_schema, rows)
            mask = select(self._scan.filter, self._with_row_columns(table, rows))
            if not pc.all(mask, min_count=0).as_py():
                rows = as_offsets(rows)[mask.to_numpy(zero_copy_only=False)]
                table = table.filter(mask)
            tables.append(table)
        if count_only or not len(rows):
            return _Part(len(rows), empty_table(self._scan.projection.arrow_schema))
        # An exact pruning spares the filter, and then nothing has been read for it.
        rest = self._scan.rest_schema if tables else self._scan.projection.schema
        if rest.fields:
            # After the filter's columns: one that is wanted in full replaces the part the filter needed.
            tables.append(self._rows.fetch(rest, rows))
        return _Part(len(rows), self._scan.projection.build(tables, self._rows.columns, rows))

    def _with_row_columns(self, table: pa.Table, rows: Rows) -> pa.Table:
        for name in self._scan.filter_row_columns:
            table = table.append_column(name, self._rows.columns.column(name, rows))
        return table

    def _live_rows(self, start: int, stop: int) -> Rows:
        candidates = self._plan.candidates
        if candidates is None:
            return self._rows.live_rows(start, stop)
        first, last = np.searchsorted(candidates, [start, stop])
        offsets = candidates[first:last].astype(np.int64)
        return offsets[self._rows.is_live(offsets)]


def _is_worth_sharing(fragment: Fragment, width: int | None, shares: int) -> bool:
    if width is not None:
        return width * fragment.physical_rows >= shares * _SHARE_OF_ONE_WIDTH
    compressed = any((file.major, file.minor) >= _FIRST_COMPRESSED for file in fragment.files)
    return fragment.data_bytes >= shares * (_SHARE_OF_COMPRESSED if compressed else _SHARE_OF_COPIED)


def _planned_rows(plan: FragmentPlan) -> int:
    return plan.fragment.num_rows - plan.skip if plan.take is None else plan.take
