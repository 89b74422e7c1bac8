"""Scanner: a prepared scan with the options and methods of pylance's."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pat

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.extras import require_extra
from lance_ops.table.dataset import Dataset as Snapshot
from lance_ops.table.scan.options import ScanOptions
from lance_ops.table.scan.run import Scan

if TYPE_CHECKING:
    import pandas as pd


class ReadOptions(ScanOptions, total=False):
    """Options of a read of the dataset object: those of `ScanOptions` and these.

    Attributes:
        order_by: Columns to sort the rows by, least first and nulls last; or sort keys of pylance. The rows
            have to fit in memory.
        blob_handling: Only "all_binary": blobs are read as bytes.
    """

    order_by: Sequence[Any] | None
    blob_handling: str | None


TUNING = (
    "batch_readahead",
    "batch_size_bytes",
    "disable_scoring_autoprojection",
    "fragment_readahead",
    "io_buffer_size",
    "late_materialization",
    "scan_in_order",
    "strict_batch_size",
    "use_stats",
)
"""Options of pylance that tune its scans and never change the rows."""

REFUSED: Mapping[str, str] = {
    "include_deleted_rows": "deleted rows are never returned; open an older version of the dataset",
    "index_segments": "choose the indices with use_scalar_index=False or pruners=...",
    "row_addr_allowlist": "select rows with take(rows, by='address')",
    "row_addr_blocklist": "select rows with a filter on `_rowaddr`",
    "scan_stats_callback": "explain() describes what a scan reads",
}
"""Options of pylance that have no counterpart here."""

_ALL_BYTES = "all_binary"


@dataclass(frozen=True, slots=True)
class Ordering:
    """Sort key of a scan.

    Attributes:
        column: Top-level column.
        ascending: Least first.
        nulls_first: Place of nulls.
    """

    column: str
    ascending: bool = True
    nulls_first: bool = False

    @classmethod
    def of(cls, given: object) -> "Ordering":
        """Return the key that a name, or a `ColumnOrdering` of pylance, stands for."""
        if isinstance(given, str):
            return cls(given)
        name = getattr(given, "column_name", None)
        if not isinstance(name, str):
            raise InvalidArgumentError(f"got {given!r}", field="order_by", hint="give names of columns")
        return cls(name, bool(getattr(given, "ascending", True)), bool(getattr(given, "nulls_first", False)))


class Scanner:
    """A prepared scan; see `Dataset.scanner`.

    Args:
        scan: The scan; without limit and offset if the rows are sorted.
        schema: Columns of the dataset.
        order: Sort keys, the first one decides; the rows have to fit in memory.
        columns: Columns of the sorted result; those of the scan when None.
        limit: Maximum sorted rows.
        offset: Sorted rows to skip.
    """

    def __init__(
        self,
        scan: Scan,
        schema: pa.Schema,
        order: Sequence[Ordering] = (),
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> None:
        self._scan = scan
        self._order = tuple(order)
        self._columns = columns
        self._limit = limit
        self._offset = offset
        self.dataset_schema = schema

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_scan":
            raise AttributeError(name)
        return getattr(self._scan, name)

    @property
    def schema(self) -> pa.Schema:
        """Columns of the result."""
        if self._columns is None:
            return self._scan.schema
        return pa.schema(
            [self._scan.schema.field(name) for name in self._columns], self._scan.schema.metadata
        )

    projected_schema = schema

    def to_table(self) -> pa.Table:
        """Return all rows."""
        if not self._order:
            return self._scan.to_table()
        table = self._scan.to_table()
        for key in reversed(self._order):
            table = _sorted(table, key)
        table = table.slice(self._offset, self._limit)
        return table if self._columns is None else table.select(list(self._columns))

    def to_batches(self) -> pa.RecordBatchReader:
        """Return the rows as a stream."""
        return self.to_table().to_reader() if self._order else self._scan.to_batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream."""
        return self.to_batches()

    def to_pandas(self, **options: Any) -> "pd.DataFrame":
        """Return the rows as a DataFrame; the options are those of `pyarrow.Table.to_pandas`."""
        require_extra("pandas")
        return self.to_table().to_pandas(**options)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows, and read no more than they need."""
        if self._order:
            return self.to_table().slice(0, num_rows)
        found: list[pa.RecordBatch] = []
        missing = num_rows
        with self.to_batches() as batches:
            while missing > 0:
                try:
                    batch = batches.read_next_batch().slice(0, missing)
                except StopIteration:
                    break
                found.append(batch)
                missing -= batch.num_rows
        return pa.Table.from_batches(found, self.schema)

    def take(self, indices: Iterable[int]) -> pa.Table:
        """Return rows of the result by their numbers."""
        return self.to_table().take(pa.array(indices, pa.int64()))

    def count_rows(self) -> int:
        """Return the number of rows of the result."""
        if not self._order:
            return self._scan.count_rows()
        left = max(0, self._scan.count_rows() - self._offset)
        return left if self._limit is None else min(left, self._limit)

    def explain(self) -> str:
        """Describe the scan: the indices that it uses and the fragments that it reads."""
        keys = ", ".join(f"{key.column} {'ASC' if key.ascending else 'DESC'}" for key in self._order)
        return self._scan.explain() + (f"\nthen sorted by {keys}" if keys else "")

    def explain_plan(self, verbose: bool = False) -> str:  # noqa: ARG002 - pylance's argument
        """Describe the scan; the text is `explain()`, and not that of pylance."""
        return self.explain()


def prepare_scan(
    snapshot: Snapshot,
    columns: Any,
    filter: Any,  # noqa: A002 - the name users know
    limit: int | None,
    offset: int | None,
    given_options: ReadOptions,
) -> Scanner:
    """Prepare a scan of a version; see `Dataset.scanner`.

    Raises:
        UnsupportedError: Blobs are not to be read as bytes.
        InvalidArgumentError: There is no such column to sort by.
    """
    options: dict[str, Any] = {name: value for name, value in given_options.items() if value is not None}
    handling = options.pop("blob_handling", _ALL_BYTES)
    if handling != _ALL_BYTES:
        raise UnsupportedError(
            f"blobs are read as bytes only, got {handling!r}", field="blob_handling", hint="leave it out"
        )
    if "fragments" in options:
        options["fragments"] = [getattr(item, "metadata", item) for item in options["fragments"]]
    given = options.pop("order_by", None)
    if not given:
        return Scanner(snapshot.scanner(columns, filter, limit, offset, **options), snapshot.schema)
    order = [Ordering.of(item) for item in given]
    scan = snapshot.scanner(columns, filter, **options)
    shown = scan.schema.names
    hidden = [key.column for key in order if key.column not in shown]
    if hidden:
        if columns is None or isinstance(columns, Mapping):
            raise InvalidArgumentError(f"there is no column {hidden[0]!r} to sort by", field="order_by")
        scan = snapshot.scanner([*columns, *dict.fromkeys(hidden)], filter, **options)
    return Scanner(scan, snapshot.schema, order, shown if hidden else None, limit, offset or 0)


def _sorted(table: pa.Table, key: Ordering) -> pa.Table:
    """Sort by one key, stably; NaN is greater than every number."""
    import pyarrow.compute as pc

    values = table.column(key.column)
    direction = "ascending" if key.ascending else "descending"
    table = table.take(pc.sort_indices(values, sort_keys=[("", direction)]))
    values = table.column(key.column)
    if pat.is_floating(values.type):
        is_nan = pc.fill_null(pc.is_nan(values), False)
        table = table.take(pc.sort_indices(is_nan, sort_keys=[("", direction)]))
        values = table.column(key.column)
    place = "descending" if key.nulls_first else "ascending"
    return table.take(pc.sort_indices(pc.is_null(values), sort_keys=[("", place)]))
