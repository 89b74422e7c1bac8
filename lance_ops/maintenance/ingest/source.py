"""Sources: input data as a stream of record batches in bounded memory."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, SchemaMismatchError
from lance_ops.maintenance.ingest.file_source import open_files, scan
from lance_ops.maintenance.ingest.pandas_frame import table_of_frame
from lance_ops.maintenance.ingest.views import plain_batches, schema_without_views

# It imports pandas if that is installed, which costs more than most appends: imported where needed.

_FOREIGN_METADATA = (b"PARQUET:field_id", b"org.apache.spark.version")


class Source(Protocol):
    """Data to be written, without views of Arrow (see `views`); read once, in order."""

    def read_schemas(self) -> Sequence[tuple[str, pa.Schema]]:
        """Return (what, schema) of each part whose schema may differ: the input files, or all data."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; the schema of a batch is that of its part."""
        ...


@dataclass(frozen=True, slots=True)
class StreamSource:
    """Any stream of record batches."""

    schema: pa.Schema
    stream: Iterable[pa.RecordBatch]

    def read_schemas(self) -> Sequence[tuple[str, pa.Schema]]:
        """See `Source.read_schemas`."""
        return (("the data", schema_without_views(self.schema)),)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """See `Source.batches`."""
        try:
            yield from plain_batches(self.stream)
        except pa.ArrowException as error:
            raise InvalidArgumentError(f"cannot read the data: {error}", field="data") from error


def open_source(data: Any) -> Source:
    """Open a source for data of the caller.

    Args:
        data: A pyarrow Table, RecordBatch, RecordBatchReader or Dataset; an iterable of record batches (at
            least one); a pandas DataFrame, whose named index levels become columns; any object that
            exports an Arrow stream (Polars, DuckDB); or one or several paths, directories or globs of
            Parquet, CSV, TSV or Arrow IPC files.

    Raises:
        InvalidArgumentError: it is none of these, or a DataFrame has a column that Arrow does not support.
        NotFoundError: a path matches nothing.
    """
    if isinstance(data, (str, Path)):
        return open_files([data])
    if isinstance(data, pa.Table):
        return StreamSource(data.schema, data.to_batches())
    if isinstance(data, pa.RecordBatch):
        return StreamSource(data.schema, [data])
    if isinstance(data, pa.RecordBatchReader):
        return StreamSource(data.schema, data)
    if _is_arrow_dataset(data):
        return StreamSource(data.schema, scan(data))
    library = type(data).__module__.partition(".")[0]
    if library == "pyspark":
        # It exports an Arrow stream too, by collecting all rows in this process.
        raise InvalidArgumentError(
            "a Spark DataFrame is written by its executors, not through this process",
            field="data",
            hint="use lance_ops.spark.append_dataframe or merge_dataframe, or df.write.format('lance')",
        )
    if library == "pandas":
        return open_source(table_of_frame(data))
    if hasattr(data, "__arrow_c_stream__"):
        return open_source(_reader_of(data))
    if isinstance(data, Iterable) and not isinstance(data, Mapping):
        return _open_iterable(iter(data))
    raise _not_data(data)


def _reader_of(data: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except pa.ArrowException as error:
        # A stream of values, such as a Series of Polars.
        raise InvalidArgumentError(
            f"{type(data).__name__} objects have no named columns: {error}",
            field="data",
            hint="convert it to a table or DataFrame, for example by its to_frame()",
        ) from error


def unify_schemas(parts: Sequence[tuple[str, pa.Schema]]) -> pa.Schema:
    """Return the schema of a dataset from all parts of a source, without irrelevant metadata.

    Raises:
        SchemaMismatchError: the parts contradict each other.
    """
    schemas = [schema for _, schema in parts]
    try:
        unified = pa.unify_schemas(schemas, promote_options="permissive") if len(schemas) > 1 else schemas[0]
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaMismatchError("the input files contradict each other", [str(error)]) from error
    fields = [item.with_metadata(_own_metadata(item.metadata)) for item in unified]
    return pa.schema(fields, metadata=_own_metadata(unified.metadata))


def _own_metadata(metadata: dict[bytes, bytes] | None) -> dict[bytes, bytes] | None:
    return {key: value for key, value in (metadata or {}).items() if key not in _FOREIGN_METADATA} or None


def _is_arrow_dataset(data: object) -> bool:
    # Callers with such an object have imported its module.
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(data, module.Dataset)


def _open_iterable(items: Iterator[Any]) -> Source:
    first = next(items, None)
    if isinstance(first, (str, Path)):
        return open_files(chain([first], items))
    if not isinstance(first, (pa.RecordBatch, pa.Table)):
        raise _not_data(first)
    return StreamSource(first.schema, _flat(chain([first], items)))


def _flat(items: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    for item in items:
        if isinstance(item, pa.Table):
            yield from item.to_batches()
        elif isinstance(item, pa.RecordBatch):
            yield item
        else:
            raise _not_data(item)


def _not_data(data: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"cannot write {type(data).__name__} objects",
        field="data",
        hint="use an Arrow table, reader or batches, a pandas DataFrame, or paths of Parquet or CSV files",
    )
