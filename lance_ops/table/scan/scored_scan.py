"""Scored scan: the rows of a search as a table, ordered by score."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lance_ops.cache import Cache
from lance_ops.encoding.arrow_arrays import to_numpy
from lance_ops.file.schema.model import Schema
from lance_ops.filter import Expression, select
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.scan.plan import check_limits
from lance_ops.table.scan.projection import Projection, build_projection, build_take_projection, check_columns
from lance_ops.table.scan.row_columns import ROW_ADDRESS, ROW_ID
from lance_ops.table.scan.run import Scan
from lance_ops.table.scan.search import Scored, SearchPlan
from lance_ops.table.scan.take import RowKey, take_rows
from lance_ops.table.snapshot import Snapshot

QUERY_INDEX = "query_index"

_ROW_BYTES, _FRAGMENT_BYTES = 2, 256


def _size_of_rows(rows: RowSet) -> int:
    return _ROW_BYTES * len(rows) + _FRAGMENT_BYTES * len(rows.fragment_ids)


@dataclass(frozen=True, slots=True)
class Output:
    """The columns of a result.

    Attributes:
        names: In order, scores included.
        stored: Those of the dataset.
    """

    names: tuple[str, ...]
    stored: Projection


def build_output(
    schema: Schema,
    columns: Iterable[str] | None,
    search: SearchPlan,
    *,
    with_row_id: bool = False,
    with_row_address: bool = False,
) -> Output:
    """Resolve the columns of a search, as `build_projection` does.

    Scores come last, unless they are named explicitly; row columns added by a flag come after them: as in
    pylance.
    """
    if columns is not None:
        check_columns(columns)
    asked = None if columns is None else list(columns)
    added = (search.column, QUERY_INDEX) if search.numbers_queries else (search.column,)
    stored = build_projection(
        schema,
        None if asked is None else [name for name in asked if name not in added],
        with_row_id=with_row_id,
        with_row_address=with_row_address,
    )
    names = [field.name for field in schema.fields] if asked is None else asked
    if search.column not in names:
        names.append(search.column)
    if search.numbers_queries and QUERY_INDEX not in names:
        names.insert(0, QUERY_INDEX)
    last = [ROW_ID] * with_row_id + [ROW_ADDRESS] * with_row_address
    return Output((*(name for name in names if name not in last), *last), stored)


@dataclass(frozen=True, slots=True)
class PostFilter:
    """Condition on the rows that were found.

    Attributes:
        expression: The condition; it may use the score column.
        projection: Columns of the dataset that it reads.
    """

    expression: Expression
    projection: Projection

    @classmethod
    def of(cls, schema: Schema, expression: Expression, search: SearchPlan) -> "PostFilter":
        """Resolve the columns of a condition."""
        return cls(expression, build_take_projection(schema, sorted(expression.columns - {search.column})))


class ScoredScan(Scan):
    """A search and the columns to return of its rows, ordered by score.

    Args:
        snapshot: The version.
        rows: The scan of the addresses of the rows that may be found.
        search: The search.
        output: Columns of the result.
        prefilter: True if `rows` excludes some, so that it has to run first.
        post_filter: Condition on the found rows; all when None.
        offset: Rows to skip.
        limit: Maximum rows to return.
        found_limit: Maximum rows to find; None for the number in the query.
        batch_rows: Maximum rows of a batch.
        kept: Caches the result of `rows` for the next search; None if it does not depend on its filter alone.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        rows: Scan,
        search: SearchPlan,
        output: Output,
        *,
        prefilter: bool,
        post_filter: PostFilter | None,
        offset: int,
        limit: int | None,
        batch_rows: int,
        found_limit: int | None = None,
        kept: Cache[Any, Any] | None = None,
    ) -> None:
        check_limits(offset, limit)
        super().__init__(snapshot, rows.plan, batch_rows=batch_rows)
        self._rows = rows
        self._search = search
        self._output = output
        self._prefilter = prefilter
        self._post_filter = post_filter
        self._kept = kept
        self._offset, self._limit, self._found_limit = offset, limit, found_limit

    @property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        return self._shape(self._output.stored.arrow_schema.empty_table(), Scored.nothing(), 0).schema

    def explain(self) -> str:
        """Describe the search for people."""
        lines = [str(self._search)]
        if self._prefilter:
            lines += ["among the rows of", *(f"  {line}" for line in str(self.plan).splitlines())]
        if self._post_filter is not None:
            lines.append(f"then filter: {self._post_filter.expression.to_sql()}")
        lines.append(f"return: {', '.join(self._output.names)}")
        return "\n".join(lines)

    def to_table(self) -> pa.Table:
        """Read the whole result."""
        tables = list(self._tables())
        return pa.concat_tables(tables) if tables else self.schema.empty_table()

    def count_rows(self) -> int:
        """Count the rows of the result."""
        return sum(len(found) for _, found in self.find())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for table in self._tables():
            yield from table.to_batches()

    def _tables(self) -> Iterator[pa.Table]:
        """Yield the result, one batch at a time."""
        for number, found in self.find():
            for start in range(0, len(found), self._batch_rows):
                yield self.fetch(number, found[start : start + self._batch_rows])

    def fetch(self, query: int, found: Scored) -> pa.Table:
        """Read rows of the result.

        Args:
            query: Number of the query that found them.
            found: A part of the result of `find` for it.
        """
        return self._shape(self._fetch(self._output.stored, found), found, query)

    def find(self) -> Iterator[tuple[int, Scored]]:
        """Find the rows of the result for each of the queries, by number; no column of them is read."""
        wanted = self._wanted() if self._prefilter else None
        skip, left = self._offset, self._limit
        for number, found in enumerate(self._search.run(wanted, self._found_limit)):
            if self._post_filter is not None:
                found = self._filtered(self._post_filter, found)
            kept = found[skip:] if left is None else found[skip : skip + left]
            skip = max(0, skip - len(found))
            left = None if left is None else left - len(kept)
            if len(kept):
                yield number, kept

    def _wanted(self) -> RowSet:
        condition = self._rows.plan.filter
        if self._kept is None or condition is None:
            return self._find_wanted()
        return self._kept.load_for((condition,), self._find_wanted, _size_of_rows)

    def _find_wanted(self) -> RowSet:
        rows = RowSet()
        for batch in self._rows.to_batches():
            rows |= RowSet.of(batch.column(0).to_numpy())
        return rows

    def _filtered(self, wanted: PostFilter, found: Scored) -> Scored:
        kept = []
        for start in range(0, len(found), self._batch_rows):
            part = found[start : start + self._batch_rows]
            table = self._fetch(wanted.projection, part)
            table = table.append_column(self._search.column, pa.array(part.scores))
            kept.append(to_numpy(select(wanted.expression, table)))
        return found[np.concatenate(kept)] if kept else found

    def _fetch(self, projection: Projection, found: Scored) -> pa.Table:
        return take_rows(self._snapshot, projection, found.addresses, RowKey.ADDRESS)

    def _shape(self, table: pa.Table, found: Scored, query: int) -> pa.Table:
        table = table.append_column(self._search.column, pa.array(found.scores))
        if QUERY_INDEX in self._output.names:
            numbers = pa.array(np.full(len(found), query, np.int32))
            table = table.append_column(pa.field(QUERY_INDEX, pa.int32(), nullable=False), numbers)
        return table.select(list(self._output.names))
