"""Transforms: compute new columns from rows of the table."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, SchemaMismatchError, check_type
from lance_ops.file.schema.model import Schema
from lance_ops.filter import Expression, Literal, evaluate_values
from lance_ops.maintenance.sources.pandas_frame import table_of_frame
from lance_ops.table.scan.row_columns import ROW_COLUMNS

_NULL_CAST = re.compile(r"\s*CAST\s*\(\s*NULL\s+AS\s", re.IGNORECASE)
BATCH_ROWS = 8192
"""Default rows of a batch for a function."""


class Transform(Protocol):
    """Values of new columns; serializable for executors unless noted."""

    @property
    def name(self) -> str:
        """A name that identifies it in the records of a job."""

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """Return the top-level columns that it reads, and row columns such as `_rowid`."""

    def values(self, rows: pa.Table) -> list[pa.Array]:
        """Return one array for each new column, with one value per row; types may still differ."""


def are_nulls(texts: Iterable[str], expressions: Iterable[Expression]) -> bool:
    """Return whether each expression is a typed null, `CAST(NULL AS INT)`; pylance writes no file for these.

    Args:
        texts: The expressions as written.
        expressions: The parsed expressions.
    """
    return all(
        isinstance(item, Literal) and item.value is None and _NULL_CAST.match(text)
        for text, item in zip(texts, expressions, strict=True)
    )


@dataclass(frozen=True, slots=True)
class SqlValues:
    """Columns computed by SQL.

    Attributes:
        expressions: The expression of each, in order.
    """

    expressions: tuple[Expression, ...]

    @property
    def name(self) -> str:
        """See `Transform.name`."""
        return f"sql: {self.expressions!r}"

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """See `Transform.columns`."""
        named = {name for expression in self.expressions for name in expression.root_columns}
        return tuple(name for name in schema.names if name in named)

    def values(self, rows: pa.Table) -> list[pa.Array]:
        """See `Transform.values`."""
        return [evaluate_values(expression, rows, wraps=False) for expression in self.expressions]


@dataclass(frozen=True, slots=True)
class BatchUDF:
    """A function from batches of rows to new columns; made by `batch_udf`.

    Attributes:
        func: Converts a `pyarrow.RecordBatch` of live rows to one with the new columns of the same rows; or
            to a table, or a pandas DataFrame.
        output_schema: Names and types of the new columns; None to call the function with the first row.
        read_columns: Columns of its input, also `_rowid` and `_rowaddr`; all columns if None.
        batch_size: Maximum rows of a batch.
    """

    func: Callable[[pa.RecordBatch], Any]
    output_schema: pa.Schema | None = None
    read_columns: tuple[str, ...] | None = None
    batch_size: int = field(default=BATCH_ROWS, compare=False)

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """Call the function itself."""
        return self.func(batch)

    @property
    def name(self) -> str:
        """See `Transform.name`."""
        named = getattr(self.func, "__qualname__", type(self.func).__qualname__)
        return f"function: {getattr(self.func, '__module__', '')}.{named} of {self.read_columns}"

    def columns(self, schema: Schema) -> tuple[str, ...]:
        """See `Transform.columns`."""
        if self.read_columns is None:
            return schema.names
        unknown = [name for name in self.read_columns if name not in schema.names and name not in ROW_COLUMNS]
        if unknown:
            raise InvalidArgumentError(
                f"columns {unknown} for the function do not exist",
                field="read_columns",
                hint=f"there are {', '.join(schema.names)}",
            )
        return self.read_columns

    def values(self, rows: pa.Table) -> list[pa.Array]:
        """See `Transform.values`."""
        assert self.output_schema is not None
        found: list[list[pa.Array]] = [[] for _ in self.output_schema]
        for batch in whole_batches(rows, self.batch_size):
            made = self.checked(self.func(batch), batch.num_rows, self.output_schema)
            for place, column in enumerate(made.columns):
                found[place].append(column)
        return [_joined(parts) for parts in found]

    def checked(self, made: Any, rows: int, schema: pa.Schema | None) -> pa.RecordBatch:
        """Return the result of the function, as a batch with the columns of the schema.

        Raises:
            SchemaMismatchError: It is not a batch, or has other columns or another number of rows.
            InvalidArgumentError: It is a DataFrame with an incompatible column.
        """
        if type(made).__module__.partition(".")[0] == "pandas":
            made = table_of_frame(made, schema, keep_index=False)
        if isinstance(made, pa.Table):
            batches = made.combine_chunks().to_batches()
            made = batches[0] if batches else pa.RecordBatch.from_pylist([], made.schema)
        if not isinstance(made, pa.RecordBatch):
            raise _unfit(self, f"it returned a {type(made).__name__}, expected a record batch")
        if made.num_rows != rows:
            raise _unfit(self, f"it returned {made.num_rows:,} rows, expected {rows:,}")
        if schema is None:
            return made
        if sorted(made.schema.names) != sorted(schema.names):
            raise _unfit(self, f"it returned the columns {made.schema.names}, expected {schema.names}")
        return made.select(schema.names)


def batch_udf(
    output_schema: pa.Schema | None = None,
    *,
    read_columns: Sequence[str] | None = None,
    batch_size: int = BATCH_ROWS,
) -> Callable[[Callable[[pa.RecordBatch], Any]], BatchUDF]:
    """Declare a function over batches for `add_columns`; a decorator.

    Args:
        output_schema: Names and types of the new columns; None to call the function with the first row.
        read_columns: See `BatchUDF`.
        batch_size: See `BatchUDF`.

    Examples:
        >>> @lo.batch_udf(pa.schema({"half": pa.int64()}))
        ... def half(batch):
        ...     return pa.record_batch({"half": [value // 2 for value in batch["id"].to_pylist()]})
        >>> lo.add_columns("events.lance", half).columns
        ('half',)
    """

    def wrap(func: Callable[[pa.RecordBatch], Any]) -> BatchUDF:
        return as_udf(func, output_schema, read_columns, batch_size)

    return wrap


def as_udf(
    function: Any,
    output_schema: pa.Schema | None = None,
    read_columns: Sequence[str] | None = None,
    batch_size: int | None = None,
) -> BatchUDF:
    """Return a function of the caller, or one declared by pylance's `batch_udf`.

    Raises:
        InvalidArgumentError: An argument is invalid.
    """
    func = getattr(function, "func", function)
    declared = getattr(function, "output_schema", None) if output_schema is None else output_schema
    read = getattr(function, "read_columns", None) if read_columns is None else read_columns
    size = getattr(function, "batch_size", BATCH_ROWS) if batch_size is None else batch_size
    if declared is not None:
        check_type(declared, pa.Schema, "an Arrow schema", field="output_schema")
    check_type(size, int, "a number of rows", field="batch_size")
    if not callable(func) or isinstance(read, str) or size < 1:
        raise InvalidArgumentError(
            "expected a function over batches, a list of columns and at least one row", field="columns"
        )
    return BatchUDF(func, declared, None if read is None else tuple(read), size)


@dataclass(slots=True)
class ReaderValues:
    """Columns read from a stream, a row for each live row of the table in order; for this process only.

    Attributes:
        schema: Schema of the stream.
        batches: The rows.
        taken: Rows read so far.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    taken: int = 0
    _rest: pa.RecordBatch | None = None

    @property
    def name(self) -> str:
        """See `Transform.name`."""
        return f"reader: {self.schema.names}"

    def columns(self, schema: Schema) -> tuple[str, ...]:  # noqa: ARG002 - it reads none
        """See `Transform.columns`."""
        return ()

    def values(self, rows: pa.Table) -> list[pa.Array]:
        """See `Transform.values`."""
        parts = list(self._take(rows.num_rows))
        return [_joined([part.column(place) for part in parts]) for place in range(len(self.schema))]

    def skip(self, rows: int) -> None:
        """Skip the next rows."""
        for _ in self._take(rows):
            pass

    def check_ended(self) -> None:
        """Check that all rows were read.

        Raises:
            SchemaMismatchError: There are more.
        """
        if self._next() is not None:
            raise SchemaMismatchError(
                "the new columns do not match the dataset",
                [f"it has {self.taken:,} live rows, and the reader has more"],
            )

    def _take(self, count: int) -> Iterator[pa.RecordBatch]:
        while count > 0:
            batch = self._next()
            if batch is None:
                raise SchemaMismatchError(
                    "the new columns do not match the dataset",
                    [f"the reader ended after {self.taken:,} rows, and the dataset has more live rows"],
                )
            part = batch.slice(0, count)
            self._rest = batch.slice(part.num_rows)
            count -= part.num_rows
            self.taken += part.num_rows
            yield part

    def _next(self) -> pa.RecordBatch | None:
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self.batches, None)
            if self._rest is None:
                return None
        return self._rest


def whole_batches(rows: pa.Table, size: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of a fixed number of rows, except the last one."""
    for start in range(0, rows.num_rows, size):
        part = rows.slice(start, size).combine_chunks()
        found = part.to_batches()
        yield found[0] if len(found) == 1 else pa.RecordBatch.from_pylist(part.to_pylist(), part.schema)


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    found = pa.chunked_array(parts).combine_chunks()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _unfit(udf: BatchUDF, what: str) -> SchemaMismatchError:
    return SchemaMismatchError("the result of the function does not fit", [f"{udf.name}: {what}"])
