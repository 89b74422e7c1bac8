"""Scan: a plan becomes batches, with bounded memory and some work ahead in threads."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from numbers import Integral
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.values.fixed_size_list import filter_rows
from lance_ops.errors import InvalidArgumentError, check_type
from lance_ops.file.schema.blob_fields import has_blob_v2, has_blobs
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.filter import select
from lance_ops.storage.prefetch import has_latency, prefetch
from lance_ops.table.assemble import empty_table
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.fragment_rows import FragmentRows
from lance_ops.table.scan.plan import FragmentPlan, ScanPlan, bytes_per_row
from lance_ops.table.scan.projection import rows_without_columns
from lance_ops.table.scan.row_columns import RowColumnSource, Rows, as_offsets
from lance_ops.table.scan.small_fragments import GROUPS_AT_ONCE, FragmentGroup, find_groups
from lance_ops.table.scan.sparse_rows import SparseRows, find_sparse
from lance_ops.table.snapshot import Snapshot

BATCH_ROWS = 65_536
"""Rows of a batch at most, unless the caller says otherwise."""

_UNIT_BYTES = 32 << 20
"""Size at which a fragment is cut for reading: what one thread holds at a time."""

_TABLE_UNIT_BYTES = 512 << 20
"""The same when the whole result is kept anyway, where larger reads cost nothing."""

_WORTH_A_THREAD = 1 << 20

_LITTLE_BYTES = 512 << 10
"""In memory: what is unpacked of so much in vain costs less than the second read that it spares."""

_NOTHING = Schema(())

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
        snapshot: The version.
        plan: What to read.
        batch_rows: Rows of a batch at most.
        threads: Threads that read ahead; memory grows with them.

    Raises:
        InvalidArgumentError: A number below 1.
    """

    def __init__(
        self, snapshot: Snapshot, plan: ScanPlan, *, batch_rows: int = BATCH_ROWS, threads: int = _THREADS
    ) -> None:
        check_type(batch_rows, Integral, "a number of rows", field="batch_size")
        if batch_rows < 1 or threads < 1:
            raise InvalidArgumentError(
                "batch_size and threads must be at least 1", field="batch_size, threads"
            )
        self._snapshot = snapshot
        self.plan = plan
        self._batch_rows = batch_rows
        self._threads = threads

    @property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        return self.plan.projection.arrow_schema

    def explain(self) -> str:
        """What is going to be done, for people to read: indices, fragments, and rows that are checked."""
        return str(self.plan)

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
        columns = self.plan.filter_schema if count_only else self.plan.read_schema
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

        def prepare(plans: Sequence[FragmentPlan], sparse: bool) -> Iterable[Callable[[], "_Part"]]:
            if sparse:
                return (_SparseUnit(self._snapshot, self.plan, plans, count_only),)
            if len(plans) > 1:
                return (_GroupUnit(self._snapshot, self.plan, plans, count_only),)
            fragment = _FragmentScan(self._snapshot, self.plan, plans[0])
            ranges = fragment.ranges(unit_bytes, self._batch_rows, columns, width)
            return (_Unit(fragment, start, stop, count_only) for start, stop in ranges)

        groups = self._groups(width)
        if not self._is_remote:
            for plans, sparse in find_sparse(groups, width):
                yield from prepare(plans, sparse)
            return
        # Deletions, and what tells where to cut, are requests too: made ahead, for a few fragments.
        prepared = (partial(_listed, prepare, plans) for plans in groups)
        for units in prefetch(prepared, _REMOTE_THREADS):
            yield from units

    def _groups(self, width: int | None) -> Iterator[Sequence[FragmentPlan]]:
        """The fragments, with those together that can be read as one."""
        plans = self.plan.fragments
        # Each value of a blob is a read of its own, and may be large.
        if has_blobs(self.plan.projection.schema) or has_blobs(self.plan.filter_schema):
            return ((plan,) for plan in plans)
        alike = groupby(plans, lambda plan: plan.exact)
        groups = (find_groups(some, _fragment_of, _UNIT_BYTES // (width or 1)) for _, some in alike)
        return chain.from_iterable(groups)

    def _table_unit_bytes(self) -> int:
        """Bytes to read at a time for one table: as much as possible, but something for each thread."""
        plans = self.plan.fragments
        shares = -(-self._threads // max(1, len(plans)))
        # Behind a network, a share would cost requests of its own for what lies around its ends.
        if shares == 1 or not plans or has_latency(self._snapshot.bases.root):
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
            if max(map(len, self._groups(None))) > 1:
                return GROUPS_AT_ONCE
            return max(self._threads, min(_REMOTE_THREADS, _REMOTE_BYTES // max(1, unit)))
        return 1 if unit < _WORTH_A_THREAD else self._threads

    @property
    def _is_remote(self) -> bool:
        return has_latency(self._snapshot.bases.root)


def _fragment_of(plan: FragmentPlan) -> Fragment | None:
    """The fragment if it can be read with others."""
    return plan.fragment if not plan.skip and plan.take is None else None


def _listed(
    prepare: Callable[[Sequence[FragmentPlan], bool], Iterable[Callable[[], "_Part"]]],
    plans: Sequence[FragmentPlan],
) -> list[Callable[[], "_Part"]]:
    return list(prepare(plans, False))


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
class _GroupUnit:
    """Small fragments, read in one go."""

    snapshot: Snapshot
    scan: ScanPlan
    plans: Sequence[FragmentPlan]
    count_only: bool

    def __call__(self) -> _Part:
        fragments = [plan.fragment for plan in self.plans]
        group = FragmentGroup(self.snapshot, fragments, [plan.rows_before for plan in self.plans])
        exact = self.plans[0].exact
        return _read_rows(self.scan, group, self._rows(group), exact=exact, count_only=self.count_only)

    def _rows(self, group: FragmentGroup) -> Rows:
        live = group.live_rows()
        if all(plan.candidates is None for plan in self.plans):
            return live
        candidates = [
            np.arange(plan.fragment.physical_rows) if plan.candidates is None else plan.candidates
            for plan in self.plans
        ]
        named = [some + start for some, start in zip(candidates, group.starts.tolist(), strict=False)]
        return np.intersect1d(np.concatenate(named), as_offsets(live), assume_unique=True)


@dataclass(frozen=True, slots=True)
class _SparseUnit:
    """Few rows of several fragments, read in one go."""

    snapshot: Snapshot
    scan: ScanPlan
    plans: Sequence[FragmentPlan]
    count_only: bool

    def __call__(self) -> _Part:
        rows = SparseRows(self.snapshot, self.plans)
        exact = self.plans[0].exact
        return _read_rows(self.scan, rows, rows.live_rows(), exact=exact, count_only=self.count_only)


class _ReadableRows(Protocol):
    """Rows of one fragment, or of several."""

    @property
    def columns(self) -> RowColumnSource:
        """Their row columns."""

    def fetch(self, schema: Schema, rows: Rows) -> pa.Table:
        """Columns of some of them."""


def _read_rows(scan: ScanPlan, source: _ReadableRows, rows: Rows, *, exact: bool, count_only: bool) -> _Part:
    """Read rows: the filter's columns first, the rest for the rows that are left."""
    tables = []
    # An exact pruning spares the filter, and then nothing has been read for it.
    rest = scan.projection.schema
    if scan.filter is not None and not exact and len(rows):
        at_once = not count_only and _cost_little(scan, len(rows))
        table = source.fetch(scan.read_schema if at_once else scan.filter_schema, rows)
        tested = table
        for name in scan.filter_row_columns:
            tested = tested.append_column(name, source.columns.column(name, rows))
        mask = select(scan.filter, tested)
        if not pc.all(mask, min_count=0).as_py():
            rows = as_offsets(rows)[mask.to_numpy(zero_copy_only=False)]
            table = filter_rows(table, mask)
        tables.append(table)
        rest = _NOTHING if at_once else scan.rest_schema
    if count_only or not len(rows):
        return _Part(len(rows), empty_table(scan.projection.arrow_schema))
    if rest.fields:
        # After the filter's columns: one that is wanted in full replaces the part the filter needed.
        tables.append(source.fetch(rest, rows))
    return _Part(len(rows), scan.projection.build(tables, source.columns, rows))


def _cost_little(scan: ScanPlan, rows: int) -> bool:
    """Whether to read some rows in full takes less than to ask twice."""
    width = prepare_schema(scan.read_schema).row_bytes
    names = scan.read_schema.names
    # A struct of which the filter needs a part is read apart from that.
    return width is not None and rows * width <= _LITTLE_BYTES and len(set(names)) == len(names)


class _FragmentScan:
    """One fragment of a plan."""

    def __init__(self, snapshot: Snapshot, scan: ScanPlan, plan: FragmentPlan) -> None:
        self._scan = scan
        self.fragment = plan.fragment
        self._plan = plan
        self._rows = FragmentRows(snapshot, plan.fragment, plan.rows_before)

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
        """Read one range."""
        rows = self._live_rows(start, stop)
        return _read_rows(self._scan, self._rows, rows, exact=self._plan.exact, count_only=count_only)

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
