"""Sorted scan: the rows of a scan in the order of some columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pat

from lance_ops.errors import InvalidArgumentError
from lance_ops.table.scan.run import Scan

Step = Callable[[pa.ChunkedArray], pa.ChunkedArray]
"""From values to what is sorted by."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """Sort key.

    Attributes:
        column: Top-level column.
        ascending: Least first; NaN is greater than every number.
        nulls_first: Place of nulls.
    """

    column: str
    ascending: bool = True
    nulls_first: bool = False

    @classmethod
    def of(cls, given: object) -> "Ordering":
        """Return the key that a name, or a `ColumnOrdering` of pylance, stands for.

        Raises:
            InvalidArgumentError: It is neither.
        """
        name = given if isinstance(given, str) else getattr(given, "column_name", None)
        if not isinstance(name, str):
            raise InvalidArgumentError(
                f"a sort key must be the name of a column, got {given!r}", field="order_by"
            )
        return cls(name, bool(getattr(given, "ascending", True)), bool(getattr(given, "nulls_first", False)))


class SortedScan(Scan):
    """A scan whose rows are sorted; they have to fit in memory.

    Args:
        inner: The scan, without limit and offset.
        keys: Sort keys; the first one decides.
        columns: Number of columns of the result, which come first; the others are only sort keys.
        limit: Maximum rows.
        offset: Rows to skip.

    Raises:
        InvalidArgumentError: There is no such column, or a limit or an offset below 0.
    """

    def __init__(
        self, inner: Scan, keys: Sequence[Ordering], columns: int, limit: int | None, offset: int
    ) -> None:
        self.plan = inner.plan
        self._inner = inner
        self._keys = tuple(keys)
        self._columns = columns
        self._limit = limit
        self._offset = offset
        missing = [key.column for key in keys if key.column not in inner.schema.names]
        if missing:
            raise InvalidArgumentError(f"there is no column {missing[0]!r} to sort by", field="order_by")
        if min(offset, limit or 0) < 0:
            raise InvalidArgumentError(
                f"limit and offset must be at least 0, got {limit} and {offset}", field="limit, offset"
            )

    @property
    def schema(self) -> pa.Schema:
        """See `Scan.schema`."""
        inner = self._inner.schema
        return pa.schema(list(inner)[: self._columns], inner.metadata)

    def explain(self) -> str:
        """See `Scan.explain`."""
        keys = ", ".join(f"{key.column} {'ASC' if key.ascending else 'DESC'}" for key in self._keys)
        return f"{self._inner.explain()}\n  sort: {keys}"

    def to_table(self) -> pa.Table:
        """See `Scan.to_table`."""
        table = self._inner.to_table()
        for key in reversed(self._keys):
            table = _sorted(table, key)
        return table.slice(self._offset, self._limit).select(list(range(self._columns)))

    def to_batches(self) -> pa.RecordBatchReader:
        """See `Scan.to_batches`."""
        return self.to_table().to_reader()

    def count_rows(self) -> int:
        """See `Scan.count_rows`."""
        left = max(0, self._inner.count_rows() - self._offset)
        return left if self._limit is None else min(left, self._limit)


def _sorted(table: pa.Table, key: Ordering) -> pa.Table:
    """Sort by one key, stably: by values, then NaN, then nulls."""
    import pyarrow.compute as pc

    direction = "ascending" if key.ascending else "descending"
    steps: list[tuple[Callable[[pa.ChunkedArray], pa.ChunkedArray], str]] = [
        (lambda values: values, direction)
    ]
    if pat.is_floating(table.schema.field(key.column).type):
        steps.append((lambda values: pc.fill_null(pc.is_nan(values), False), direction))
    steps.append((pc.is_null, "descending" if key.nulls_first else "ascending"))
    for of, order in steps:
        table = table.take(pc.sort_indices(of(table.column(key.column)), sort_keys=[("", order)]))
    return table
