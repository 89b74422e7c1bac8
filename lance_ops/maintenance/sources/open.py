"""Opening of sources: what a caller passes as data becomes a source, by its kind."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, public
from lance_ops.maintenance.sources.file_source import open_files
from lance_ops.maintenance.sources.lance_table import is_lance_table, open_table
from lance_ops.maintenance.sources.pandas_frame import table_of_frame
from lance_ops.maintenance.sources.python_objects import batches_of_rows, open_frame, open_hugging_face
from lance_ops.maintenance.sources.read_options import ReadOptions
from lance_ops.maintenance.sources.source import Source, StreamSource
from lance_ops.maintenance.sources.sql_query import open_query
from lance_ops.maintenance.sources.standard_input import STANDARD_INPUT, open_standard_input

_ROWS = 65_536
_READ_AHEAD = 2


def open_source(data: Any) -> Source:
    """Open a source for data of the caller.

    Args:
        data: A pyarrow Table, RecordBatch, RecordBatchReader or Dataset; an iterable of record batches (at
            least one) or of rows as dicts; a dict of columns; a pandas DataFrame, whose named index levels
            become columns; a Polars frame, lazy or not; a dataset of Hugging Face; any object that exports an
            Arrow stream (DuckDB, a Lance dataset or scan); a source of `read_files` or `read_query`; or one
            or several paths, directories or globs of files.

    Raises:
        InvalidArgumentError: it is none of these, or a column that Arrow does not support.
        NotFoundError: a path matches nothing.
    """
    if isinstance(data, (str, Path)):
        return open_paths([data])
    if isinstance(data, pa.Table):
        return StreamSource(data.schema, data.to_batches())
    if isinstance(data, pa.RecordBatch):
        return StreamSource(data.schema, [data])
    if isinstance(data, pa.RecordBatchReader):
        return StreamSource(data.schema, data)
    if isinstance(data, Source):
        return data
    if _is_arrow_dataset(data):
        return StreamSource(data.schema, scan(data))
    found = _of_library(data)
    if found is not None:
        return found
    if hasattr(data, "__arrow_c_stream__"):
        return open_source(_reader_of(data))
    if isinstance(data, Mapping):
        return batches_of_columns(data)
    if isinstance(data, Iterable):
        return _open_iterable(iter(data))
    raise _not_data(data)


@public()
def read_files(
    paths: str | Path | Iterable[str | Path],
    *,
    format: str | None = None,  # noqa: A002 - as DuckDB, Spark and pyarrow name it
    delimiter: str | None = None,
    encoding: str | None = None,
    column_types: Mapping[str, str | pa.DataType] | None = None,
    null_values: Iterable[str] | None = None,
    column_names: Iterable[str] | None = None,
    decimal_point: str | None = None,
    timestamp_format: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Source:
    r"""Return files with options as data for `write_dataset`, `append`, `merge_insert` and the others.

    Args:
        paths: Paths, URIs, directories or globs of Parquet, Arrow IPC, CSV, TSV, JSON, ORC or Avro files,
            also compressed (.gz, .zst, .bz2, .lz4), all of one format; or a Lance table; or "-" for standard
            input.
        format: "parquet", "arrow", "csv", "tsv", "json" (lines or arrays), "orc" or "avro"; by the names of
            the files if None.
        delimiter: Character between the columns of a CSV file.
        encoding: Encoding of CSV and JSON, such as "latin-1"; UTF-8 if None.
        column_types: Types of columns of CSV and JSON instead of inferred ones: names of Arrow, such as
            "string", "date32" or "decimal128(10, 2)", or data types.
        null_values: Texts of a CSV file that are null.
        column_names: Names of the columns of a CSV file without a header.
        decimal_point: Character of decimal numbers in a CSV file.
        timestamp_format: Format of dates and timestamps in a CSV file, such as "%d.%m.%Y".
        storage_options: Options of the store of a Lance table.

    Raises:
        InvalidArgumentError: An option makes no sense, or the files are of several formats.
        NotFoundError: A path matches nothing.

    Examples:
        >>> with open("people.csv", "w") as file:
        ...     _ = file.write("id;zip\n1;01234\n")
        >>> people = lo.read_files("people.csv", delimiter=";", column_types={"zip": "string"})
        >>> lo.append("people.lance", people).rows_added
        1
    """
    options = ReadOptions.of(
        format=format,
        delimiter=delimiter,
        encoding=encoding,
        column_types=column_types,
        null_values=null_values,
        column_names=column_names,
        decimal_point=decimal_point,
        timestamp_format=timestamp_format,
    )
    return open_paths([paths] if isinstance(paths, (str, Path)) else paths, options, storage_options)


@public()
def read_query(sql: str, database: str | Path | None = None) -> Source:
    """Return the rows of an SQL query as data for `write_dataset`, `append`, `merge_insert` and the others.

    Args:
        sql: A SELECT. It runs when the data are read; nothing is changed in the database.
        database: DuckDB in memory if None, whose queries read files themselves; the path of a DuckDB or
            SQLite file; or a URL such as "postgresql://user@host/name", read by the ADBC driver of its kind
            if that is installed, else by SQLAlchemy.

    Raises:
        InvalidArgumentError: The query fails, when it is read.
        MissingExtraError: The extra `sql` is not installed.

    Examples:
        >>> numbers = lo.read_query("SELECT range AS id FROM range(3)")
        >>> lo.append("numbers.lance", numbers).rows_added
        3
    """
    return open_query(sql, None if database is None else str(database))


def described_input(
    paths: Sequence[str] = (),
    read_options: Mapping[str, Any] | None = None,
    query: str | None = None,
    database: str | None = None,
) -> Source:
    """Return the source of an input that schedulers describe by values.

    Args:
        paths: Input files, see `read_files`.
        read_options: Their options.
        query: Or an SQL query, see `read_query`.
        database: Its database.

    Raises:
        InvalidArgumentError: There are both files and a query, or neither; or standard input, which tasks of
            schedulers lack.
    """
    if bool(paths) == (query is not None):
        raise InvalidArgumentError("the input is either files or a query", field="paths")
    if query is not None:
        if read_options:
            raise InvalidArgumentError("options of files do not apply to a query", field="read_options")
        return read_query(query, database)
    if database is not None:
        raise InvalidArgumentError("a database requires a query", field="database")
    if STANDARD_INPUT in paths:
        raise InvalidArgumentError("a task of a scheduler has no standard input", field="paths")
    return read_files(paths, **(read_options or {}))


def open_paths(
    paths: Iterable[str | Path],
    options: ReadOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Source:
    """Open a source of files, of a Lance table, or of standard input (`-`).

    Args:
        paths: Paths, URIs, directories or globs; or one Lance table; or `-`.
        options: How files are read.
        storage_options: Options of the store of a Lance table.

    Raises:
        InvalidArgumentError: They are of several kinds or formats.
        NotFoundError: A path matches nothing.
    """
    named = [str(path) for path in paths]
    if STANDARD_INPUT in named:
        if len(named) > 1:
            raise InvalidArgumentError("standard input (-) cannot be read beside files", field="data")
        return open_standard_input(options)
    tables = [path for path in named if is_lance_table(path)]
    if not tables:
        return open_files(named, options)
    if len(named) > 1:
        raise InvalidArgumentError(
            "a Lance table cannot be read beside other input",
            path=tables[0],
            hint="write one after the other",
        )
    return open_table(tables[0], storage_options=storage_options)


def scan(data: Any) -> Iterator[pa.RecordBatch]:
    """Yield batches of a pyarrow dataset, in bounded memory."""
    batches: Iterator[pa.RecordBatch] = data.scanner(
        batch_size=_ROWS, batch_readahead=_READ_AHEAD, fragment_readahead=1
    ).to_batches()
    return batches


def batches_of_columns(data: Mapping[Any, Any]) -> StreamSource:
    """Return a source of a dict of columns."""
    for name, values in data.items():
        if not isinstance(name, str) or isinstance(values, (str, bytes, Mapping)) or not _is_column(values):
            raise InvalidArgumentError(
                f"a dict has to map names of columns to their values, {name!r} has {type(values).__name__}",
                field="data",
                hint="for example {'id': [1, 2]}; a single row is a list with one dict: [{'id': 1}]",
            )
    try:
        table = pa.table({name: _values(values) for name, values in data.items()})
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise InvalidArgumentError(f"the columns are no table: {error}", field="data") from error
    return StreamSource(table.schema, table.to_batches())


def _is_column(values: object) -> bool:
    return isinstance(values, (Iterable, pa.Array, pa.ChunkedArray)) or hasattr(values, "__array__")


def _values(values: Any) -> Any:
    is_array = isinstance(values, (pa.Array, pa.ChunkedArray)) or hasattr(values, "__array__")
    return values if is_array or isinstance(values, (list, tuple)) else list(values)


def _of_library(data: Any) -> Source | None:
    """Return the source of an object of a known library; None for another one."""
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
    if library == "datasets":
        return open_hugging_face(data)
    if library == "polars" and hasattr(data, "collect_schema") and hasattr(data, "collect"):
        return open_frame(data)
    return None


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


def _is_arrow_dataset(data: object) -> bool:
    # Callers with such an object have imported its module, which imports pandas if it is installed.
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(data, module.Dataset)


def _open_iterable(items: Iterator[Any]) -> Source:
    first = next(items, None)
    whole = chain([first], items)
    if isinstance(first, (str, Path)):
        return open_paths(whole)
    if isinstance(first, Mapping):
        return batches_of_rows(whole)
    if not isinstance(first, (pa.RecordBatch, pa.Table)):
        raise _not_data(first)
    return StreamSource(first.schema, _flat(whole))


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
        hint="use paths of files, an Arrow table, reader or batches, a pandas or Polars DataFrame, a DuckDB "
        "relation, a list of dicts, or a dict of columns",
    )
