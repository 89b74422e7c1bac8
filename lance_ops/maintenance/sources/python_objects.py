"""Python objects: rows as dicts, lazy frames of Polars and datasets of Hugging Face, in batches."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError
from lance_ops.maintenance.sources.source import StreamSource

_ROWS = 65_536
_FAILURES = (pa.ArrowException, OverflowError, TypeError, ValueError)


def batches_of_rows(rows: Iterable[Any]) -> StreamSource:
    """Return a source of rows as dicts.

    Names and types are those of the first 65,536 rows; a name that a row lacks is null in it.

    Raises:
        InvalidArgumentError: A row is no dict, has values of several types in a column, or a later one a
            name that no earlier one has; names the row.
    """
    rest = iter(rows)
    first = list(islice(rest, _ROWS))
    names = list(dict.fromkeys(name for row in first for name in _names(row)))
    table = _table(first, names, None, 0)
    return StreamSource(table.schema, chain(table.to_batches(), _later(rest, table.schema)))


def open_frame(frame: Any) -> StreamSource:
    """Return a source of a lazy frame of Polars, which is computed in batches where Polars can."""
    schema = frame.collect_schema().to_frame().to_arrow().schema
    return StreamSource(schema, _frame_batches(frame, schema))


def open_hugging_face(data: Any) -> StreamSource:
    """Return a source of a `datasets.Dataset` or `IterableDataset`, in the order of its indices.

    Raises:
        InvalidArgumentError: It is a dict of several splits, or has no named columns.
    """
    if isinstance(data, Mapping):
        raise InvalidArgumentError(
            f"the dataset has several splits: {', '.join(map(str, data))}",
            field="data",
            hint=f"choose one, for example data[{next(iter(data), 'train')!r}]",
        )
    if not hasattr(data, "with_format"):
        raise InvalidArgumentError(f"cannot write {type(data).__name__} objects of datasets", field="data")
    tables = (_arrow_table(item) for item in data.with_format("arrow").iter(batch_size=_ROWS))
    features = getattr(data, "features", None)
    if features is not None:
        schema = features.arrow_schema.remove_metadata()
        return StreamSource(schema, _cast_batches(tables, schema))
    first = next(tables, None)
    if first is None:
        raise InvalidArgumentError("the dataset has no rows and no features", field="data")
    schema = first.schema.remove_metadata()
    return StreamSource(schema, _cast_batches(chain([first], tables), schema))


def _names(row: Any) -> Iterable[str]:
    if not isinstance(row, Mapping):
        raise InvalidArgumentError(f"a row is {type(row).__name__} instead of a dict", field="data")
    return row


def _later(rest: Iterator[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    start, names = _ROWS, set(schema.names)
    while rows := list(islice(rest, _ROWS)):
        for number, row in enumerate(rows, start=start):
            new = [name for name in _names(row) if name not in names]
            if new:
                raise InvalidArgumentError(
                    f"row {number:,} has the column {new[0]!r}, which none of the first {_ROWS:,} rows has",
                    field="data",
                    hint="let one of the first rows have it, with None; or pass an Arrow table",
                )
        yield from _table(rows, schema.names, schema, start).to_batches()
        start += len(rows)


def _table(rows: list[Any], names: list[str], schema: pa.Schema | None, start: int) -> pa.Table:
    if not names:
        raise InvalidArgumentError("the rows have no columns", field="data")
    arrays = []
    for name in names:
        kind = None if schema is None else schema.field(name).type
        values = [row.get(name) for row in rows]
        try:
            arrays.append(pa.array(values, kind))
        except _FAILURES as error:
            at = _first_unfit(values, kind)
            where = "" if at is None else f" (row {start + at:,} has {values[at]!r})"
            raise InvalidArgumentError(
                f"the values of column {name!r} have no common type{where}: {error}", field=str(name)
            ) from error
    return pa.table(arrays, names=names)


def _first_unfit(values: list[Any], kind: pa.DataType | None) -> int | None:
    """Return the position of the first value that does not fit those before it."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        try:
            pa.array(values[: middle + 1], kind)
            low = middle + 1
        except _FAILURES:
            high = middle
    return low if low < len(values) else None


def _frame_batches(frame: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    # Releases before 1.34 compute the whole frame.
    in_batches = getattr(frame, "collect_batches", None)
    frames = [frame.collect(engine="streaming")] if in_batches is None else in_batches(chunk_size=_ROWS)
    for part in frames:
        yield from part.to_arrow().cast(schema).to_batches()


def _arrow_table(item: Any) -> pa.Table:
    return item if isinstance(item, pa.Table) else pa.table(item)


def _cast_batches(tables: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for table in tables:
        yield from table.replace_schema_metadata(None).select(schema.names).cast(schema).to_batches()
