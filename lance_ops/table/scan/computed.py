"""Computed columns of a result: SQL expressions by name, as in `columns={"y": "x * 2"}`.

The columns that the expressions read are scanned like any others; the expressions see the rows of the result.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.errors import check_type
from lance_ops.filter import Column, Expression, computed_field, evaluate_values, parse_value
from lance_ops.storage.fork_safe import cached_property
from lance_ops.table.scan.row_columns import ROW_ADDRESS
from lance_ops.table.scan.run import Scan
from lance_ops.table.scan.scored_scan import QUERY_INDEX


@dataclass(frozen=True)
class ComputedColumns:
    """Computed columns of a result, in place of a list of names.

    Attributes:
        expressions: By the name of the column of the result, in their order.
        named: The columns that they may use.
        scores: Columns that a search adds to its result by itself.
        extra: Additional columns, such as `_rowid`.
    """

    expressions: Mapping[str, Expression]
    named: pa.Schema
    scores: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, columns: Mapping[str, str], named: pa.Schema, *, scores: Sequence[str], extra: Sequence[str]
    ) -> "ComputedColumns":
        """Parse the expressions.

        Raises:
            InvalidArgumentError: A name or an expression is not a string.
            PredicateError: An expression does not parse, or names an unknown column.
        """
        for name, text in columns.items():
            check_type(name, str, "a column name", field="columns")
            check_type(text, str, f"the SQL expression of column {name!r}", field="columns")
        parsed = {name: parse_value(text, named, narrow=True) for name, text in columns.items()}
        return cls(parsed, named, tuple(scores), tuple(extra))

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Return the columns to scan; at least one, because a batch without columns has no row count."""
        roots = {name for item in self.expressions.values() for name in item.root_columns}
        return tuple(name for name in self.named.names if name in roots.difference(self.scores)) or (
            ROW_ADDRESS,
        )

    def schema(self, scanned: pa.Schema) -> pa.Schema:
        """Return the schema of the result, given that of the scan of `sources`."""
        fields = {name: self._field(name, item, scanned) for name, item in self.expressions.items()}
        added = [name for name in scanned.names if name not in (*self.sources, *self.extra, *fields)]
        # Columns added by a flag come last, even if an expression has the same name: as in pylance.
        last = [name for name in added if name != QUERY_INDEX] + list(self.extra)
        names = [
            *(name for name in added if name == QUERY_INDEX),
            *(name for name in fields if name not in last),
        ]
        return pa.schema([fields.get(name) or scanned.field(name) for name in (*names, *last)])

    def _field(self, name: str, expression: Expression, scanned: pa.Schema) -> pa.Field:
        if not isinstance(expression, Column):
            return computed_field(name, expression, self.named)
        field = scanned.field(expression.path[0])
        nullable = field.nullable
        for part in expression.path[1:]:
            field = field.type.field(part)
            nullable = nullable or field.nullable
        return pa.field(name, field.type, nullable)

    def table(self, rows: pa.Table) -> pa.Table:
        """Compute the result from rows of `sources`."""
        schema = self.schema(rows.schema)
        return pa.Table.from_arrays(self.arrays(rows, schema), schema=schema)

    def arrays(self, rows: pa.Table | pa.RecordBatch, schema: pa.Schema) -> list[pa.Array]:
        """Compute the columns of the result for a given schema."""
        return [
            self._values(self.expressions[field.name], field, rows)
            if field.name in self.expressions
            else rows.column(field.name)
            for field in schema
        ]

    def _values(self, expression: Expression, field: pa.Field, rows: pa.Table | pa.RecordBatch) -> Any:
        if not isinstance(expression, Column):
            values = evaluate_values(expression, rows)
            return values if values.type == field.type else values.cast(field.type)
        column = rows.column(expression.path[0])
        return pc.struct_field(column, list(expression.path[1:])) if expression.path[1:] else column


class ComputedScan(Scan):
    """A scan whose result is computed.

    Args:
        inner: The scan of `ComputedColumns.sources`.
        computed: The columns of the result.
    """

    def __init__(self, inner: Scan, computed: ComputedColumns) -> None:
        # All other options belong to the inner scan.
        self.plan = inner.plan
        self._inner = inner
        self._computed = computed
        self._schema = computed.schema(inner.schema)

    @property
    def schema(self) -> pa.Schema:
        """See `Scan.schema`."""
        return self._schema

    def explain(self) -> str:
        """See `Scan.explain`."""
        columns = ", ".join(f"{name} = {item.to_sql()}" for name, item in self._computed.expressions.items())
        return f"{self._inner.explain()}\n  compute: {columns}"

    def to_batches(self) -> pa.RecordBatchReader:
        """See `Scan.to_batches`."""
        return pa.RecordBatchReader.from_batches(self.schema, self._computed_batches())

    def _computed_batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._inner.to_batches():
            yield pa.RecordBatch.from_arrays(self._computed.arrays(batch, self.schema), schema=self.schema)

    def to_table(self) -> pa.Table:
        """See `Scan.to_table`."""
        return self._computed.table(self._inner.to_table())

    def count_rows(self) -> int:
        """See `Scan.count_rows`."""
        return self._inner.count_rows()
