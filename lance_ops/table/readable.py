"""Readable version: scans, searches and single rows."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy.typing as npt
import pyarrow as pa

from lance_ops.cache import IdentityCache
from lance_ops.errors import InvalidArgumentError, check_type, public
from lance_ops.extras import require_extra
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.filter import Expression
from lance_ops.filter.kept_filters import KeptFilters
from lance_ops.storage import Store
from lance_ops.table.manifest.file.read import read_latest
from lance_ops.table.manifest.fragment import Fragment
from lance_ops.table.manifest.fragments.totals import total_rows
from lance_ops.table.manifest.model import Manifest
from lance_ops.table.ordered_categories import with_ordered_categories
from lance_ops.table.scan.accelerators import default_pruners, default_search
from lance_ops.table.scan.computed import ComputedColumns, ComputedScan
from lance_ops.table.scan.options import REFUSED, TUNING, ScanOptions
from lance_ops.table.scan.plan import ScanPlan, plan_scan
from lance_ops.table.scan.projection import build_projection, build_take_projection
from lance_ops.table.scan.pruner import Pruner, indexed_fragments
from lance_ops.table.scan.row_columns import ROW_ADDRESS, ROW_COLUMNS, ROW_ID, row_column_field
from lance_ops.table.scan.run import BATCH_ROWS, Scan
from lance_ops.table.scan.scored_scan import PostFilter, ScoredScan, build_output
from lance_ops.table.scan.search import SearchPlan
from lance_ops.table.scan.take import RowKey, take_rows
from lance_ops.table.scan.unit_sizes import THREADS
from lance_ops.table.snapshot import Snapshot

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.compute as pc


_LARGEST_PLAN = 1 << 19


def _size_of_plan(plan: ScanPlan) -> int:
    return 4 * plan.candidates + 512 * len(plan.fragments)


class _Filters:
    """Cached filters of a schema, by the score column that they may use."""

    def __init__(self, schema: Schema) -> None:
        self._arrow = prepare_schema(schema).arrow
        self._kept: dict[str | None, KeptFilters] = {}

    def of(self, score: str | None) -> KeptFilters:
        found = self._kept.get(score)
        if found is None:
            arrow = self._arrow
            extra = [row_column_field(name) for name in ROW_COLUMNS if name not in arrow.names]
            if score is not None:
                extra.append(pa.field(score, pa.float32()))
            found = KeptFilters(pa.schema([*arrow, *extra], metadata=arrow.metadata))
            self._kept[score] = found
        return found


_filters_of = IdentityCache("filtered schemas", _Filters, 16)
"""Of datasets of whatever version: those who ask the same thing again mostly ask another one."""


class Readable(Snapshot):
    """A snapshot whose rows can be read.

    Args:
        store: Root of the dataset, or of one of its branches.
        manifest: The manifest.
        storage_options: For opening other stores that the dataset refers to.
        pruners: Prune filtered scans unless a call passes others; the indices of the dataset when None.
    """

    def __init__(
        self,
        store: Store,
        manifest: Manifest,
        storage_options: Mapping[str, str] | None = None,
        pruners: Sequence[Pruner] | None = None,
    ) -> None:
        super().__init__(store, manifest, dict(storage_options or {}))
        self._pruners = None if pruners is None else tuple(pruners)

    @property
    def given_pruners(self) -> tuple[Pruner, ...] | None:
        """Pruners that the dataset was opened with; None for its indices, whose modules are not imported."""
        return self._pruners

    @property
    def pruners(self) -> tuple[Pruner, ...]:
        """Pruners of filtered scans unless a call passes others."""
        return default_pruners() if self._pruners is None else self._pruners

    def parse_filter(self, sql: str, score: str | None = None) -> Expression:
        """Parse a filter against this dataset's columns, row columns included.

        Args:
            sql: The condition.
            score: Score column of a search, which the filter may use.

        Raises:
            PredicateError: It does not parse, or names an unknown column.
        """
        check_type(sql, str, "an SQL condition", field="filter")
        return _filters_of(self.lance_schema).of(score).parse(sql)

    @public(ignored=TUNING, refused=REFUSED)
    def scanner(
        self,
        columns: Iterable[str] | None = None,
        filter: "str | Expression | pc.Expression | None" = None,  # noqa: A002 - the name users know
        limit: int | None = None,
        offset: int | None = None,
        *,
        with_row_id: bool = False,
        with_row_address: bool = False,
        fragments: Sequence[int | Fragment] | None = None,
        batch_size: int | None = None,
        nearest: Mapping[str, Any] | None = None,
        full_text_query: Any = None,
        prefilter: bool = False,
        fast_search: bool = False,
        use_scalar_index: bool = True,
        pruners: Sequence[Pruner] | None = None,
        order_by: Sequence[Any] | None = None,
        threads: int | None = None,
        mem_wal: bool = False,
    ) -> Scan:
        """Prepare a scan; only metadata (and indices) are read yet.

        Blobs are returned as bytes; of those stored outside of the dataset, only the URI is read. JSON
        documents are returned as strings.

        Args:
            columns: Top-level names, nested paths such as `a.b`, or `_rowid`, `_rowaddr`, `_rowoffset`,
                `_row_created_at_version`, `_row_last_updated_at_version`; or SQL expressions by the names of
                the columns of the result, such as `{"y": "x * 2"}`; all columns when None.
            filter: SQL, a parsed expression, or an expression of `pyarrow.compute`.
            limit: Maximum rows to return.
            offset: Rows to skip.
            with_row_id: Add the column `_rowid`.
            with_row_address: Add the column `_rowaddr`.
            fragments: Fragments to read, by id or as objects, in this order.
            batch_size: Maximum rows of a batch.
            nearest: Search for the vectors nearest to one; see `ScanOptions`.
            full_text_query: Search for words; see `ScanOptions`.
            prefilter: Apply the filter before a search instead of to its result.
            fast_search: Return only indexed rows, of a search and of filters with an index.
            use_scalar_index: Use scalar indices for the filter.
            pruners: Prune the scan; those of the dataset, usually its indices, when None.
            order_by: Names of columns to sort the rows by, least first and nulls last, or
                sort keys of pylance. The rows have to fit in memory.
            threads: Threads that read ahead, each with about 32 MB of files and their decoded values; with 1,
                rows are read on demand.
            mem_wal: Also read the rows that log writers have not merged into the table; see `ScanOptions`.

        Raises:
            InvalidArgumentError: An unknown column or fragment, or an invalid number.
            PredicateError: The filter does not parse.
            UnsupportedError: A column whose values cannot be read.
        """
        if order_by:
            options = {
                "with_row_id": with_row_id,
                "with_row_address": with_row_address,
                "fragments": fragments,
                "batch_size": batch_size,
                "nearest": nearest,
                "full_text_query": full_text_query,
                "prefilter": prefilter,
                "fast_search": fast_search,
                "use_scalar_index": use_scalar_index,
                "pruners": pruners,
                "threads": threads,
                "mem_wal": mem_wal,
            }
            return self._sorted_scan(columns, filter, limit, offset, order_by, options)
        if mem_wal:
            options = {
                "with_row_id": with_row_id,
                "with_row_address": with_row_address,
                "fragments": fragments,
                "batch_size": batch_size,
                "nearest": nearest,
                "full_text_query": full_text_query,
                "prefilter": prefilter,
                "fast_search": fast_search,
                "use_scalar_index": use_scalar_index,
                "pruners": pruners,
                "threads": threads,
            }
            return self._mem_wal_scan(columns, filter, limit, offset, options)
        computed = None
        if isinstance(columns, Mapping) and columns:
            scores = ["_distance"] * (nearest is not None) + ["_score"] * (full_text_query is not None)
            computed = self._compute(
                columns, scores, [ROW_ID] * with_row_id + [ROW_ADDRESS] * with_row_address
            )
            columns = computed.sources
        if not isinstance(filter, str | Expression | None):
            from lance_ops.filter.arrow_expression import arrow_expression_sql

            filter = arrow_expression_sql(filter, _filters_of(self.lance_schema).of(None).schema)  # noqa: A001
        if filter is not None:
            check_type(filter, (str, Expression), "an SQL condition", field="filter")
        batch_rows = BATCH_ROWS if batch_size is None else batch_size
        if pruners is None and use_scalar_index is False:
            pruners = ()
        if nearest is not None or full_text_query is not None:
            search = self._plan_search(nearest, full_text_query, fast=fast_search, limit=limit)
            among = filter if prefilter else None
            rows = self.scanner(
                [ROW_ADDRESS], among, fragments=fragments, pruners=pruners, fast_search=fast_search
            )
            post = None if prefilter else filter
            if isinstance(post, str):
                post = self.parse_filter(post, search.column)
            skip = offset or 0
            scored = ScoredScan(
                self,
                rows,
                search,
                build_output(
                    self.lance_schema,
                    columns,
                    search,
                    with_row_id=with_row_id,
                    with_row_address=with_row_address,
                ),
                prefilter=among is not None or fragments is not None,
                post_filter=None
                if post is None or prefilter
                else PostFilter.of(self.lance_schema, post, search),
                offset=skip,
                limit=limit,
                batch_rows=batch_rows,
                # As in pylance: the limit is passed to a search for words, a vector search has its `k`.
                found_limit=None if limit is None or nearest is not None else skip + limit,
                kept=self.cache("rows of filters", 16) if fragments is None and pruners is None else None,
            )
            return scored if computed is None else ComputedScan(scored, computed)
        expression = self.parse_filter(filter) if isinstance(filter, str) else filter
        prunings = []
        if expression is not None:
            # Without a filter, the index package is not even imported.
            asked = self.pruners if pruners is None else pruners
            found = (pruner.prune(self, expression) for pruner in asked)
            prunings = [pruning for pruning in found if pruning is not None]
        chosen = None if fragments is None else [self._fragment(item) for item in fragments]
        if fast_search:
            chosen = indexed_fragments(self.fragments if chosen is None else chosen, prunings)
        projection = build_projection(
            self.lance_schema, columns, with_row_id=with_row_id, with_row_address=with_row_address
        )
        make = partial(
            plan_scan,
            self.counted_manifest,
            self.lance_schema,
            projection,
            filter=expression,
            prunings=prunings,
            fragments=chosen,
            offset=offset or 0,
            limit=limit,
        )
        if chosen is not None or offset or limit is not None:
            plan = make()
        else:
            plans = self.cache("scan plans", 16, _LARGEST_PLAN)
            plan = plans.load_for((projection, expression, *prunings), make, _size_of_plan)
        scan = Scan(self, plan, batch_rows=batch_rows, threads=THREADS if threads is None else threads)
        return scan if computed is None else ComputedScan(scan, computed)

    def _sorted_scan(
        self,
        columns: Iterable[str] | None,
        filter: "str | Expression | pc.Expression | None",  # noqa: A002
        limit: int | None,
        offset: int | None,
        order_by: Sequence[Any],
        options: dict[str, Any],
    ) -> Scan:
        # Few scans are sorted, and few filters are expressions of pyarrow: others do not load the modules.
        from lance_ops.table.scan.sorted_scan import Ordering, SortedScan

        keys = [Ordering.of(item) for item in order_by]
        scan = self.scanner(columns, filter, **options)
        shown = len(scan.schema.names)
        hidden = [key.column for key in keys if key.column not in scan.schema.names]
        if hidden and columns is not None and not isinstance(columns, Mapping):
            scan = self.scanner([*columns, *dict.fromkeys(hidden)], filter, **options)
        return SortedScan(scan, keys, shown, limit, offset or 0)

    def _mem_wal_scan(
        self,
        columns: Iterable[str] | None,
        filter: "str | Expression | pc.Expression | None",  # noqa: A002
        limit: int | None,
        offset: int | None,
        options: dict[str, Any],
    ) -> Scan:
        # Few tables have MemWAL: others do not load the modules.
        from lance_ops.table.mem_wal.state import read_state

        state = read_state(self)
        if state is None:
            return self.scanner(columns, filter, limit, offset, **options)
        from lance_ops.table.scan.mem_wal_scan import MemWalQuery, MemWalScan

        if not isinstance(filter, str | Expression | None):
            from lance_ops.filter.arrow_expression import arrow_expression_sql

            filter = arrow_expression_sql(filter, _filters_of(self.lance_schema).of(None).schema)  # noqa: A001
        condition = self.parse_filter(filter) if isinstance(filter, str) else filter
        query = MemWalQuery.of(self.lance_schema, columns, condition, limit, offset, options)
        return MemWalScan(
            lambda names: self.scanner(names, condition, **options),
            self.lance_schema,
            state,
            query,
            lambda store: Readable(store, read_latest(store)[1], self.storage_options),
        )

    @public(ignored=TUNING, refused=REFUSED)
    def to_table(
        self,
        columns: Iterable[str] | None = None,
        filter: "str | Expression | pc.Expression | None" = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        **options: Unpack[ScanOptions],
    ) -> pa.Table:
        """Read rows into one table; see `scanner` for the arguments and errors."""
        return self.scanner(columns, filter, limit, offset, **options).to_table()

    @public(ignored=TUNING, refused=REFUSED)
    def to_batches(
        self,
        columns: Iterable[str] | None = None,
        filter: "str | Expression | pc.Expression | None" = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        **options: Unpack[ScanOptions],
    ) -> pa.RecordBatchReader:
        """Stream rows with bounded memory; see `scanner` for the arguments and errors."""
        return self.scanner(columns, filter, limit, offset, **options).to_batches()

    @public(ignored=TUNING, refused=REFUSED)
    def explain(
        self,
        columns: Iterable[str] | None = None,
        filter: "str | Expression | pc.Expression | None" = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        **options: Unpack[ScanOptions],
    ) -> str:
        """Describe a read: the indices it uses and the fragments it scans.

        Indices are queried, no row is read; see `scanner` for the arguments and errors.
        """
        return self.scanner(columns, filter, limit, offset, **options).explain()

    @public(ignored=TUNING, refused=REFUSED)
    def to_pandas(
        self,
        columns: Iterable[str] | None = None,
        filter: "str | Expression | pc.Expression | None" = None,  # noqa: A002
        limit: int | None = None,
        offset: int | None = None,
        **options: Unpack[ScanOptions],
    ) -> "pd.DataFrame":
        """Read rows into a DataFrame; see `scanner` for the arguments and errors.

        Named levels of the index, nullable types and ordered categories are those of the frame that was
        written.
        """
        require_extra("pandas")
        return with_ordered_categories(self.to_table(columns, filter, limit, offset, **options)).to_pandas()

    @public(ignored=TUNING, refused=REFUSED)
    def head(
        self,
        num_rows: int,
        columns: Iterable[str] | None = None,
        filter: "str | Expression | pc.Expression | None" = None,  # noqa: A002
        **options: Unpack[ScanOptions],
    ) -> pa.Table:
        """Return the first rows; see `scanner` for the arguments and errors."""
        return self.to_table(columns, filter, num_rows, **options)

    def count_rows(
        self,
        filter: "str | Expression | pc.Expression | None" = None,  # noqa: A002
        *,
        pruners: Sequence[Pruner] | None = None,
    ) -> int:
        """Count live rows, or those that match a filter; see `scanner`."""
        if filter is None:
            return total_rows(self.fragments)
        return self.scanner([], filter, pruners=pruners).count_rows()

    @public(indices="rows")
    def take(
        self,
        rows: npt.ArrayLike,
        columns: Iterable[str] | None = None,
        *,
        by: str = "offset",
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> pa.Table:
        """Fetch single rows, in the given order.

        Args:
            rows: Numbers of live rows; duplicates are returned as often.
            columns: See `scanner`; as in pylance, a nested path is returned as its struct with only that
                member, a repeated column once, a repeated row column repeatedly.
            by: Meaning of the numbers: "offset" (position among the live rows), "address" (`_rowaddr`) or
                "id" (`_rowid`).
            with_row_id: Add the column `_rowid`.
            with_row_address: Add the column `_rowaddr`.

        Raises:
            InvalidArgumentError: There is no live row of some number, or an unknown column.
        """
        if isinstance(columns, Mapping) and columns:
            extra = [ROW_ID] * with_row_id + [ROW_ADDRESS] * with_row_address
            computed = self._compute(columns, (), extra)
            flags = {"with_row_id": with_row_id, "with_row_address": with_row_address}
            return computed.table(self.take(rows, computed.sources, by=by, **flags))
        try:
            key = RowKey(by)
        except ValueError as error:
            raise InvalidArgumentError(
                f'by must be "offset", "address" or "id", got {by!r}', field="by"
            ) from error
        projection = build_take_projection(
            self.lance_schema, columns, with_row_id=with_row_id, with_row_address=with_row_address
        )
        return take_rows(self, projection, rows, key)

    def _compute(
        self, columns: Mapping[str, str], scores: Sequence[str], extra: Sequence[str]
    ) -> ComputedColumns:
        named = _filters_of(self.lance_schema).of(scores[0] if scores else None).schema
        return ComputedColumns.of(columns, named, scores=scores, extra=extra)

    def _plan_search(
        self, nearest: Mapping[str, Any] | None, text: Any, *, fast: bool, limit: int | None
    ) -> SearchPlan:
        if nearest is None:
            return default_search().plan_full_text(self, text, fast=fast)
        if text is not None:
            raise InvalidArgumentError(
                "pass either nearest or full_text_query, not both", field="nearest, full_text_query"
            )
        return default_search().plan_nearest(self, nearest, fast=fast, limit=limit)

    def _fragment(self, item: int | Fragment) -> Fragment:
        # The views of fragments that the dataset object gives have it as their metadata, as in pylance.
        item = getattr(item, "metadata", item)
        if isinstance(item, Fragment):
            return item
        fragment = self.fragments_by_id.get(item)
        if fragment is None:
            raise InvalidArgumentError(f"fragment {item} not found", path=self.uri, field="fragments")
        return fragment
