"""MemWAL scan: rows of a version and of MemWAL, the newest of each key.

Rows of the version whose key is in a generation or in the log are superseded or deleted. They are left out of
the stream, and the rows of MemWAL come at its end. Those, and their keys, have to fit in memory.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.file.schema.model import Schema
from lance_ops.filter import Expression
from lance_ops.filter.evaluate.evaluate import select
from lance_ops.table.join_keys import NOWHERE, plain_keys
from lance_ops.table.mem_wal.rows import MemWalRows, OpenGeneration, key_of, newest_rows
from lance_ops.table.mem_wal.state import MemWalState
from lance_ops.table.scan.projection import rows_without_columns
from lance_ops.table.scan.row_columns import ROW_COLUMNS
from lance_ops.table.scan.run import Scan

_REFUSED = (
    "with_row_id",
    "with_row_address",
    "fragments",
    "nearest",
    "full_text_query",
    "prefilter",
    "fast_search",
)


@dataclass(frozen=True, slots=True)
class MemWalQuery:
    """What to read.

    Attributes:
        columns: Top-level columns of the result, in order.
        filter: Condition on the newest rows; None for all of them.
        limit: Maximum rows.
        offset: Rows to skip.
    """

    columns: tuple[str, ...]
    filter: Expression | None = None
    limit: int | None = None
    offset: int = 0

    @classmethod
    def of(
        cls,
        schema: Schema,
        columns: Iterable[str] | None,
        condition: Expression | None,
        limit: int | None,
        offset: int | None,
        options: Mapping[str, Any],
    ) -> "MemWalQuery":
        """Check the arguments of a scan.

        Raises:
            UnsupportedError: An option has no meaning for rows of MemWAL, which have no address and no index.
            InvalidArgumentError: There is no such column, or a limit or an offset below 0.
        """
        refused = next((name for name in _REFUSED if options.get(name)), None)
        if refused is None and isinstance(columns, Mapping):
            refused = "columns as expressions"
        if refused is not None:
            raise UnsupportedError(
                f"mem_wal=True excludes {refused}: rows of MemWAL have no address and no index",
                field="mem_wal",
                hint="fold the generations into the table with compact_wal, then read without mem_wal",
            )
        names = tuple(schema.names if columns is None else columns)
        used = {*names, *(condition.root_columns if condition is not None else ())}
        unknown = sorted(used.difference(schema.names))
        if unknown:
            row_column = unknown[0] in ROW_COLUMNS
            raise InvalidArgumentError(
                f"with mem_wal=True a scan returns top-level columns, not {unknown[0]!r}",
                field="columns",
                hint="rows of MemWAL have no row id" if row_column else f"it has {', '.join(schema.names)}",
            )
        if min(offset or 0, limit or 0) < 0:
            raise InvalidArgumentError(
                f"limit and offset must be at least 0, got {limit} and {offset}", field="limit, offset"
            )
        return cls(names, condition, limit, offset or 0)


class MemWalScan(Scan):
    """A scan of a version with what its shards hold.

    Args:
        base: Returns the scan of some columns of the version, with the filter of the query.
        schema: Schema of the table.
        state: What the shards hold.
        query: What to read.
        open_generation: Opens the dataset of a generation.
    """

    def __init__(
        self,
        base: Callable[[Sequence[str]], Scan],
        schema: Schema,
        state: MemWalState,
        query: MemWalQuery,
        open_generation: OpenGeneration,
    ) -> None:
        self._key = key_of(schema)
        self._query = query
        self._names = list(dict.fromkeys((*query.columns, *self._key)))
        self._base = base(self._names)
        self.plan = self._base.plan
        self._lance_schema = schema
        self._state = state
        self._open = open_generation

    @property
    def schema(self) -> pa.Schema:
        """See `Scan.schema`."""
        inner = self._base.schema
        return pa.schema([inner.field(name) for name in self._query.columns], inner.metadata)

    def explain(self) -> str:
        """See `Scan.explain`."""
        return f"{self.plan}\n  read with it: {self._state.count()}"

    def to_batches(self) -> pa.RecordBatchReader:
        """See `Scan.to_batches`."""
        columns = list(self._query.columns)
        return pa.RecordBatchReader.from_batches(
            self.schema, (batch.select(columns) for batch in self._cut())
        )

    def to_table(self) -> pa.Table:
        """See `Scan.to_table`."""
        if not self._query.columns:
            return rows_without_columns(self.count_rows(), self.schema)
        return self.to_batches().read_all()

    def count_rows(self) -> int:
        """See `Scan.count_rows`."""
        return sum(batch.num_rows for batch in self._cut())

    def _cut(self) -> Iterator[pa.RecordBatch]:
        skip, left = self._query.offset, self._query.limit
        for batch in self._rows():
            start = min(skip, batch.num_rows)
            skip -= start
            part = batch.slice(start, left)
            if part.num_rows:
                yield part
            if left is not None:
                left -= part.num_rows
                if left <= 0:
                    return

    def _rows(self) -> Iterator[pa.RecordBatch]:
        condition = self._query.filter
        needed = [*self._names, *(condition.root_columns if condition is not None else ())]
        rows = newest_rows(self._state, self._lance_schema, needed, self._open)
        yield from self._superseded(rows)
        live = rows.live if condition is None else rows.live.filter(select(condition, rows.live))
        yield from live.select(self._names).cast(self._base.schema).to_batches()

    def _superseded(self, rows: MemWalRows) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the version whose keys are not in MemWAL."""
        index = rows.index()
        with self._base.to_batches() as batches:
            for batch in batches:
                if index is None:
                    yield batch
                    continue
                found = index.find([plain_keys(batch.column(name)) for name in self._key])
                kept = np.flatnonzero(found == NOWHERE)
                yield batch if len(kept) == batch.num_rows else pc.take(batch, pa.array(kept))
