"""Scan execution: batches of a plan, with bounded memory and threads that read ahead."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, islice, pairwise
from numbers import Integral
from operator import call
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from lance_ops.encoding.arrow_arrays import to_numpy
from lance_ops.encoding.parallel import keep_to_this_thread
from lance_ops.encoding.values.fixed_size_list import filter_rows
from lance_ops.errors import InvalidArgumentError, check_type
from lance_ops.extras import require_extra
from lance_ops.file.schema.blob_fields import has_blob_v2, has_blobs
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.filter import select
from lance_ops.storage.prefetch import has_latency, prefetch, requests_at_once
from lance_ops.table.assemble import empty_table
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.scan.fragment_rows import FragmentRows
from lance_ops.table.scan.plan import FragmentPlan, ScanPlan, bytes_per_row
from lance_ops.table.scan.projection import rows_without_columns
from lance_ops.table.scan.row_columns import RowColumnSource, Rows, as_offsets
from lance_ops.table.scan.small_fragments import TINY_BYTES, FragmentGroup, find_groups, group_bytes, size_of
from lance_ops.table.scan.sparse_rows import SparseRows, find_sparse, is_sparse
from lance_ops.table.scan.stored_columns import attached_columns
from lance_ops.table.scan.unit_sizes import THREADS, table_unit_bytes, threads_for
from lance_ops.table.snapshot import Snapshot

if TYPE_CHECKING:
    import pandas as pd

BATCH_ROWS = 65_536
"""Default maximum rows of a batch."""

_UNIT_BYTES = 32 << 20
"""Size at which a fragment is split for reading: the memory of one thread."""

_GROUP_BYTES = 64 << 20
"""Largest size of fragments that are read as one."""

_FIRST_OF_STREAM, _FIRST_OF_LIMIT = 4, 32
"""The first group is that much smaller than others where its rows are waited for; the next ones grow."""

_LEAST_BYTES = 256 << 10
"""Size up to which the first group is not made smaller."""

_FEW_ROWS = 1 << 12
"""Maximum rows whose size in memory is not estimated beyond that in the files."""

_EXPANDED = 4
"""How many times more memory than bytes of files a group may take."""

_LITTLE_BYTES = 512 << 10
"""Size in memory up to which reading all columns at once is cheaper than a second read."""

_NEAR_BYTES = 1 << 20
"""Size in a file up to which a store with latency reads ranges together with their gaps."""

_NOTHING = Schema(())

# Below both, a fragment is not opened just to estimate the memory of its rows.
_LARGE_BYTES = 8 << 20
_LARGE_ROWS = 1 << 18


class Scan:
    """A plan bound to a snapshot. Each of the three run methods starts a new read.

    Args:
        snapshot: The version.
        plan: The reads.
        batch_rows: Maximum rows of a batch.
        threads: Threads that read ahead; memory grows with them.

    Raises:
        InvalidArgumentError: A number below 1.
    """

    def __init__(
        self, snapshot: Snapshot, plan: ScanPlan, *, batch_rows: int = BATCH_ROWS, threads: int = THREADS
    ) -> None:
        check_type(batch_rows, Integral, "a number of rows", field="batch_size")
        if batch_rows < 1 or threads < 1:
            raise InvalidArgumentError(
                f"batch_size and threads must be at least 1, got {batch_rows} and {threads}",
                field="batch_size, threads",
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
        """Describe the scan for people: indices, fragments, rows that are checked, and rows left out."""
        # Most reads are not explained, and few tables have MemWAL.
        from lance_ops.table.mem_wal.state import left_out_text

        return f"{self.plan}{left_out_text(self._snapshot)}"

    def to_batches(self) -> pa.RecordBatchReader:
        """Read the result as a stream of batches; memory does not grow with its size."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def to_table(self) -> pa.Table:
        """Read the whole result."""
        unit_bytes = table_unit_bytes(
            self._snapshot, self.plan, threads=self._threads, batch_rows=self._batch_rows
        )
        # The rows of a limit may be the first ones.
        first_divisor = 1 if self.plan.limit is None else _FIRST_OF_LIMIT
        tables = [part.table for part in self._parts(unit_bytes, first_divisor) if part.num_rows]
        if not self.plan.projection.outputs:
            return rows_without_columns(sum(table.num_rows for table in tables), self.schema)
        if len(tables) == 1:
            return tables[0]
        return pa.concat_tables(tables) if tables else empty_table(self.schema)

    def count_rows(self) -> int:
        """Count the rows of the result. Only columns of the filter are read."""
        if self.plan.filter is None:
            return sum(self._planned_rows(plan) for plan in self.plan.fragments)
        return sum(part.num_rows for part in self._parts(_UNIT_BYTES, 1, count_only=True))

    def to_reader(self) -> pa.RecordBatchReader:
        """Read the result as a stream; pylance's name of `to_batches`."""
        return self.to_batches()

    def to_pandas(self, **options: Any) -> "pd.DataFrame":
        """Read the result into a DataFrame; the options are those of `pyarrow.Table.to_pandas`."""
        require_extra("pandas")
        return self.to_table().to_pandas(**options)

    def head(self, num_rows: int) -> pa.Table:
        """Read the first rows, and little more than they need."""
        found: list[pa.RecordBatch] = []
        with self.to_batches() as batches:
            for batch in batches:
                found.append(batch.slice(0, num_rows))
                num_rows -= batch.num_rows
                if num_rows <= 0:
                    break
        return pa.Table.from_batches(found, self.schema)

    def explain_plan(self, verbose: bool = False) -> str:  # noqa: ARG002 - pylance's argument
        """Describe the scan; pylance's name of `explain`, with another text."""
        return self.explain()

    @property
    def projected_schema(self) -> pa.Schema:
        """Schema of the result; pylance's name."""
        return self.schema

    def _planned_rows(self, plan: FragmentPlan) -> int:
        if plan.span is not None:
            return len(FragmentRows(self._snapshot, plan.fragment, plan.rows_before).live_rows(*plan.span))
        return plan.fragment.num_rows - plan.skip if plan.take is None else plan.take

    def _batches(self) -> Iterator[pa.RecordBatch]:
        first_divisor = _FIRST_OF_STREAM if self.plan.limit is None else _FIRST_OF_LIMIT
        for part in self._parts(_UNIT_BYTES, first_divisor):
            for batch in part.table.to_batches(max_chunksize=self._batch_rows):
                if batch.num_rows:
                    yield batch

    def _parts(self, unit_bytes: int, first_divisor: int, *, count_only: bool = False) -> Iterator["_Part"]:
        """Yield results of all units in order, with limit and offset of a filtered scan applied."""
        skip, left = self.plan.offset, self.plan.limit
        if left == 0:
            return
        columns = self.plan.filter_schema if count_only else self.plan.read_schema
        units = self._units(unit_bytes, first_divisor, columns, count_only=count_only)
        threads = self._threads_for(unit_bytes, columns)
        for part in _resolved(prefetch(units, threads, prepare=keep_to_this_thread)):
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
        self, unit_bytes: int, first_divisor: int, columns: Schema, *, count_only: bool
    ) -> Iterator[Callable[[], "_Part | _LaterParts"]]:
        width = prepare_schema(columns).row_bytes
        most_bytes = _most_decoded(columns, unit_bytes)

        def prepare(
            plans: Sequence[FragmentPlan], sparse: bool
        ) -> Iterable[Callable[[], "_Part | _LaterParts"]]:
            if sparse:
                return (_SparseUnit(self._snapshot, self.plan, plans, count_only),)
            if len(plans) > 1:
                return (_GroupUnit(self._snapshot, self.plan, plans, count_only, most_bytes),)
            fragment = _FragmentScan(self._snapshot, self.plan, plans[0])
            ranges = fragment.ranges(unit_bytes, self._batch_rows, columns, width)
            return (_Unit(fragment, start, stop, count_only) for start, stop in ranges)

        groups = self._groups(columns, first_divisor)
        if not self._is_remote:
            for plans, sparse in find_sparse(groups, width):
                yield from prepare(plans, sparse)
            return
        # Deletion files and row estimates are requests too: made ahead, for a few fragments.
        prepared = (partial(_listed, prepare, plans) for plans in groups)
        for units in prefetch(prepared, requests_at_once(self._snapshot.bases.root)):
            yield from units

    def _groups(self, columns: Schema, first_divisor: int = 1) -> Iterator[Sequence[FragmentPlan]]:
        """Group the fragments that can be read as one, given the columns."""
        plans = self.plan.fragments
        # Each value of a blob is a separate read, and may be large.
        named = (*self.plan.projection.schema.fields, *self.plan.filter_schema.fields)
        attached = attached_columns(self._snapshot.manifest, named, self._snapshot.uri)
        if attached or has_blobs(self.plan.projection.schema) or has_blobs(self.plan.filter_schema):
            return ((plan,) for plan in plans)
        alike = groupby(plans, lambda plan: plan.exact)
        return chain.from_iterable(
            self._group(exact, list(some), columns, first_divisor) for exact, some in alike
        )

    def _group(
        self, exact: bool, plans: Sequence[FragmentPlan], columns: Schema, first_divisor: int
    ) -> Iterator[Sequence[FragmentPlan]]:
        # The other columns are read for the rows that the filter leaves.
        first_read = columns if exact or self.plan.filter is None else self.plan.filter_schema
        prepared = prepare_schema(first_read)
        width = prepared.row_bytes
        most_bytes = group_bytes(len(prepared.leaves), _GROUP_BYTES)
        sizes = [size_of(plan.fragment, width) for plan in plans]
        # Groups of equal size keep all threads busy to the end.
        count = -(-sum(sizes) // most_bytes)
        most_bytes = min(most_bytes, sum(sizes) // max(1, count) + max(sizes, default=0))
        return find_groups(
            plans,
            _fragment_of if self._is_remote else _unless_sparse,
            max(1, most_bytes // (width or 1)),
            most_bytes=most_bytes,
            first_bytes=max(_LEAST_BYTES, most_bytes // first_divisor),
            width=width,
            is_far=self._is_remote,
        )

    def _threads_for(self, unit_bytes: int, columns: Schema) -> int:
        groups = self._groups(columns)
        # Grouping stops at the first large fragment: what follows is read on its own.
        together = max(map(len, groups if self._is_remote else islice(groups, 1)), default=1)
        return threads_for(self._snapshot, self.plan, unit_bytes, threads=self._threads, together=together)

    @property
    def _is_remote(self) -> bool:
        return has_latency(self._snapshot.bases.root)


def _most_decoded(columns: Schema, unit_bytes: int) -> int:
    """Return the bytes in memory above which the rows of a group are read in parts."""
    return max(unit_bytes, _EXPANDED * group_bytes(len(prepare_schema(columns).leaves), _UNIT_BYTES))


def _fragment_of(plan: FragmentPlan) -> Fragment | None:
    """Return the fragment if it can be read together with others."""
    return plan.fragment if not plan.skip and plan.take is None and plan.span is None else None


def _unless_sparse(plan: FragmentPlan) -> Fragment | None:
    """Return the fragment likewise, unless few rows of larger files are read: these stay open."""
    is_tiny = all(file.size_bytes <= TINY_BYTES for file in plan.fragment.files)
    return _fragment_of(plan) if is_tiny or not is_sparse(plan) else None


def _listed(
    prepare: Callable[[Sequence[FragmentPlan], bool], Iterable[Callable[[], "_Part | _LaterParts"]]],
    plans: Sequence[FragmentPlan],
) -> list[Callable[[], "_Part | _LaterParts"]]:
    return list(prepare(plans, False))


@dataclass(frozen=True, slots=True)
class _Part:
    num_rows: int
    table: pa.Table

    def slice(self, skip: int, limit: int | None) -> "_Part":
        count = self.num_rows - skip if limit is None else min(limit, self.num_rows - skip)
        return self if count == self.num_rows else _Part(count, self.table.slice(skip, count))


@dataclass(frozen=True, slots=True)
class _LaterParts:
    """Parts too large to be in memory together: each is read when its turn comes."""

    reads: Sequence[Callable[[], _Part]]


def _resolved(found: Iterable[_Part | _LaterParts]) -> Iterator[_Part]:
    for part in found:
        if isinstance(part, _LaterParts):
            yield from map(call, part.reads)
        else:
            yield part


@dataclass(frozen=True, slots=True)
class _Unit:
    """Rows `[start, stop)` of a fragment, read at once."""

    fragment: "_FragmentScan"
    start: int
    stop: int
    count_only: bool

    def __call__(self) -> _Part:
        return self.fragment.run(self.start, self.stop, count_only=self.count_only)


@dataclass(frozen=True, slots=True)
class _GroupUnit:
    """Small fragments, read at once."""

    snapshot: Snapshot
    scan: ScanPlan
    plans: Sequence[FragmentPlan]
    count_only: bool
    most_bytes: int

    def __call__(self) -> _Part | _LaterParts:
        scan, exact = self.scan, self.plans[0].exact
        filtered = scan.filter is not None and not exact
        group = FragmentGroup(
            self.snapshot,
            [plan.fragment for plan in self.plans],
            [plan.rows_before for plan in self.plans],
            ahead=scan.filter_schema if filtered else scan.projection.schema,
        )
        selected = _select_rows(
            scan, group, self._rows(group), exact=exact, count_only=self.count_only, is_near=False
        )
        if self.count_only or not selected.rest.fields or not len(selected.rows):
            return _complete(scan, group, selected, count_only=self.count_only)
        cuts = self._cuts(group, selected)
        if len(cuts) == 2:
            return _complete(scan, group, selected, count_only=False)
        return _LaterParts(
            [partial(self._complete_some, group, selected, *fragments) for fragments in pairwise(cuts)]
        )

    def _cuts(self, group: FragmentGroup, selected: "_Selected") -> list[int]:
        """Return the first fragments of the parts whose selected rows have a bounded size in memory."""
        rows = len(selected.rows)
        share = rows / max(1, group.num_rows)
        prepared = prepare_schema(selected.rest)
        stored = sum(plan.fragment.data_bytes for plan in self.plans)
        least = prepared.fixed_bytes * rows if not prepared.variable else share * stored
        if least <= self.most_bytes and (rows <= _FEW_ROWS or not prepared.variable):
            return [0, len(self.plans)]
        cuts, size = [0], 0
        for number, more in enumerate((group.decoded_bytes(selected.rest) * share).tolist()):
            if size and size + more > self.most_bytes:
                cuts.append(number)
                size = 0
            size += more
        return [*cuts, len(self.plans)]

    def _complete_some(self, group: FragmentGroup, selected: "_Selected", first: int, last: int) -> _Part:
        """Read the rest of the selected rows of some of the fragments."""
        begin, end = int(group.starts[first]), int(group.starts[last])
        rows = as_offsets(selected.rows)
        low, high = np.searchsorted(rows, [begin, end]).tolist()
        if low == high:
            return _Part(0, empty_table(self.scan.projection.arrow_schema))
        own = rows[low:high]
        tables = [table.slice(low, high - low) for table in selected.tables]
        tables.append(group.narrowed(first, last).fetch(selected.rest, own - begin))
        return _Part(len(own), self.scan.projection.build(tables, group.columns, own))

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
    """Few rows of several fragments, read at once."""

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
        """Return their row columns."""

    def fetch(self, schema: Schema, rows: Rows) -> pa.Table:
        """Read columns of some of them."""


@dataclass(frozen=True, slots=True)
class _Selected:
    """Rows that a filter leaves.

    Attributes:
        tables: Columns of these rows that were read for the filter.
        rows: The rows; only their number counts where nothing else is read of them.
        rest: The columns that are still to be read.
    """

    tables: list[pa.Table]
    rows: Rows
    rest: Schema


def _read_rows(
    scan: ScanPlan,
    source: _ReadableRows,
    rows: Rows,
    *,
    exact: bool,
    count_only: bool,
    is_near: bool = False,
) -> _Part:
    """Read rows: the filter's columns first, the rest for the matching rows.

    If one request reads all columns (`is_near`), there is no second one.
    """
    selected = _select_rows(scan, source, rows, exact=exact, count_only=count_only, is_near=is_near)
    return _complete(scan, source, selected, count_only=count_only)


def _select_rows(
    scan: ScanPlan, source: _ReadableRows, rows: Rows, *, exact: bool, count_only: bool, is_near: bool
) -> _Selected:
    # With an exact pruning the filter is skipped, and nothing has been read for it.
    if scan.filter is None or exact or not len(rows):
        return _Selected([], rows, scan.projection.schema)
    at_once = not count_only and (is_near or _cost_little(scan, len(rows))) and _are_apart(scan)
    table = source.fetch(scan.read_schema if at_once else scan.filter_schema, rows)
    tested = table
    for name in scan.filter_row_columns:
        tested = tested.append_column(name, source.columns.column(name, rows))
    mask = select(scan.filter, tested)
    rest = _NOTHING if at_once else scan.rest_schema
    kept = mask.true_count
    if kept < len(mask):
        table = filter_rows(table, mask)
        if count_only or rest.fields or scan.projection.has_row_columns:
            rows = as_offsets(rows)[to_numpy(mask)]
        else:
            rows = range(kept)  # The offsets are not needed any more.
    return _Selected([table], rows, rest)


def _complete(scan: ScanPlan, source: _ReadableRows, selected: _Selected, *, count_only: bool) -> _Part:
    rows, tables = selected.rows, selected.tables
    if count_only or not len(rows):
        return _Part(len(rows), empty_table(scan.projection.arrow_schema))
    if selected.rest.fields:
        # After the filter's columns: a column that is needed completely replaces the part for the filter.
        tables = [*tables, source.fetch(selected.rest, rows)]
    return _Part(len(rows), scan.projection.build(tables, source.columns, rows))


def _cost_little(scan: ScanPlan, rows: int) -> bool:
    """Return whether reading rows completely is cheaper than two reads."""
    width = prepare_schema(scan.read_schema).row_bytes
    return width is not None and rows * width <= _LITTLE_BYTES


def _are_apart(scan: ScanPlan) -> bool:
    # A struct of which the filter needs a part is read separately.
    names = scan.read_schema.names
    return len(set(names)) == len(names)


class _FragmentScan:
    """One fragment of a plan."""

    def __init__(self, snapshot: Snapshot, scan: ScanPlan, plan: FragmentPlan) -> None:
        self._scan = scan
        self.fragment = plan.fragment
        self._plan = plan
        self._rows = FragmentRows(snapshot, plan.fragment, plan.rows_before)
        small = plan.fragment.data_bytes <= _NEAR_BYTES and plan.candidates is None
        self._is_near = small and has_latency(snapshot.bases.root)

    def ranges(
        self, unit_bytes: int, batch_rows: int, columns: Schema, width: int | None
    ) -> Iterator[tuple[int, int]]:
        """Return physical ranges to read one by one, given the columns and the fixed width of a row."""
        start, stop = self._bounds()
        rows = max(1, unit_bytes // bytes_per_row(self._plan.fragment, width))
        if width is None and (self._may_be_large() or has_blob_v2(columns)):
            # Values that are small in a file can be large in memory, or be stored elsewhere.
            scale = max(1, unit_bytes // _UNIT_BYTES)
            rows = min(rows, self._rows.window_rows(columns) * scale)
        if rows > batch_rows:
            # Complete batches: otherwise every unit would end in a short one.
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
        if self._plan.span is not None:
            return self._plan.span
        rows = self._plan.fragment.physical_rows
        skip, take = self._plan.skip, self._plan.take
        if skip == 0 and take is None:
            return 0, rows
        live = self._rows.live_rows(0, rows)
        return int(live[skip]), rows if take is None else int(live[skip + take - 1]) + 1

    def run(self, start: int, stop: int, *, count_only: bool) -> _Part:
        """Read one range."""
        rows = self._live_rows(start, stop)
        exact = self._plan.exact
        return _read_rows(
            self._scan, self._rows, rows, exact=exact, count_only=count_only, is_near=self._is_near
        )

    def _live_rows(self, start: int, stop: int) -> Rows:
        candidates = self._plan.candidates
        if candidates is None:
            return self._rows.live_rows(start, stop)
        if start > 0 or stop < self.fragment.physical_rows:
            first, last = np.searchsorted(candidates, [start, stop])
            candidates = candidates[first:last]
        if len(candidates):
            first, last = int(candidates[0]), int(candidates[-1]) + 1
            if last - first == len(candidates) and last <= self.fragment.physical_rows:
                # Zones may exceed their rows.
                return self._rows.live_rows(first, last)
        offsets = candidates.astype(np.int64)
        return offsets[self._rows.is_live(offsets)]
