"""SQL query: rows of a SELECT in DuckDB, or in a database by ADBC or SQLAlchemy, as a source.

A DuckDB query can read files and attached databases itself. Other databases are named by a URL: where the
ADBC driver of its kind is installed, it returns Arrow data; else SQLAlchemy returns rows. Nothing is changed.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, check_type
from lance_ops.extras import load_extra
from lance_ops.maintenance.sources.source import LazySource, StreamSource
from lance_ops.uri_secrets import hide_credentials

_ROWS = 10_000
# Of a stream of batches, whose failures arrive as those of Arrow.
_STREAM_FAILURES = (pa.ArrowException, OSError)
# Rows in which values of columns that are null so far are looked for.
_INFERRED_PARTS = 20
# How DuckDB begins its messages.
_KIND = re.compile(r"^(?:\w+ )+Error: ")
_SQLITE = b"SQLite format 3\x00"
_ADBC = {
    "postgresql": "adbc_driver_postgresql",
    "postgres": "adbc_driver_postgresql",
    "sqlite": "adbc_driver_sqlite",
    "snowflake": "adbc_driver_snowflake",
    "grpc": "adbc_driver_flightsql",
    "grpc+tls": "adbc_driver_flightsql",
}
"""ADBC driver of each kind of URL."""


def open_query(sql: str, database: str | None = None) -> LazySource:
    """Open a source of the rows of a query, which runs when the source is read.

    Args:
        sql: A SELECT.
        database: None for DuckDB in memory; path of a DuckDB or SQLite file; or a URL such as
            `postgresql://user@host/name`.

    Raises:
        InvalidArgumentError: The query fails, or returns no rows. Raised when the source is read.
        MissingExtraError: DuckDB, SQLAlchemy or a driver is not installed. Likewise.
    """
    check_type(sql, str, "an SQL query", field="query")
    if database is not None:
        check_type(database, (str, Path), "a path or URL", field="database")
    return LazySource(lambda: _open(sql, None if database is None else str(database)))


def _open(sql: str, database: str | None) -> StreamSource:
    if database is None or database in ("duckdb", ":memory:"):
        return _duckdb(sql, ":memory:")
    kind, mark, rest = database.partition("://")
    if mark and kind == "duckdb":
        return _duckdb(sql, rest.removeprefix("/") or ":memory:")
    if not mark:
        return _file(sql, Path(database))
    driver = _ADBC.get(kind)
    if driver is not None and find_spec(driver) is not None:
        return _adbc(sql, database, driver)
    return _sqlalchemy(sql, database)


def _file(sql: str, path: Path) -> StreamSource:
    if not path.is_file():
        raise InvalidArgumentError(
            "no such database file", path=str(path), field="database", hint="a server is named by its URL"
        )
    with path.open("rb") as file:
        is_sqlite = file.read(len(_SQLITE)) == _SQLITE
    return _sqlalchemy(sql, f"sqlite:///{path}") if is_sqlite else _duckdb(sql, str(path))


def _duckdb(sql: str, path: str) -> StreamSource:
    duckdb = load_extra("duckdb")
    with _failures(duckdb.Error, path):
        # Names of tables are not looked up among the variables of this function.
        connection = duckdb.connect(
            path, read_only=path != ":memory:", config={"python_enable_replacements": False}
        )
        relation = connection.sql(sql)
        if relation is None:
            raise _no_rows()
        to_reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
        reader = to_reader(_ROWS)

    def batches() -> Iterator[pa.RecordBatch]:
        with _failures((duckdb.Error, *_STREAM_FAILURES), path):
            yield from reader
        connection.close()

    return StreamSource(reader.schema, batches(), what="the query")


def _adbc(sql: str, database: str, driver: str) -> StreamSource:
    dbapi = load_extra(f"{driver}.dbapi")
    target = database.removeprefix("sqlite:///") if driver == "adbc_driver_sqlite" else database
    with _failures(dbapi.Error, database):
        connection = dbapi.connect(target)
        cursor = connection.cursor()
        cursor.execute(sql)
        reader = cursor.fetch_record_batch()

    def batches() -> Iterator[pa.RecordBatch]:
        with _failures((dbapi.Error, *_STREAM_FAILURES), database):
            yield from reader
        cursor.close()
        connection.close()

    return StreamSource(reader.schema, batches(), what="the query")


def _sqlalchemy(sql: str, database: str) -> StreamSource:
    sqlalchemy = load_extra("sqlalchemy")
    failures = (sqlalchemy.exc.SQLAlchemyError,)
    with _failures(failures, database):
        try:
            engine = sqlalchemy.create_engine(database)
        except ImportError as error:
            raise InvalidArgumentError(
                f"the driver of the database is not installed: {error}",
                field="database",
                hint=f"pip install {error.name or 'it'}; or name another one in the URL",
            ) from error
        except sqlalchemy.exc.NoSuchModuleError as error:
            raise InvalidArgumentError(
                f"unknown kind of database {database.partition('://')[0]!r}",
                field="database",
                hint="for example postgresql://user@host/name, mysql+pymysql://user@host/name or sqlite:///file",
            ) from error
        connection = engine.connect().execution_options(stream_results=True, max_row_buffer=_ROWS)
        result = connection.exec_driver_sql(sql)
        if not result.returns_rows:
            connection.close()
            raise _no_rows()
        names = list(result.keys())
        _check_names(names)
        parts = iter(result.partitions(_ROWS))
        first, schema = _first_parts(parts, names)

    def batches() -> Iterator[pa.RecordBatch]:
        with _failures(failures, database):
            for rows in chain(first, parts):
                yield _batch(rows, schema)
        connection.close()
        engine.dispose()

    return StreamSource(schema, batches(), what="the query")


def _first_parts(parts: Iterator[Sequence[Any]], names: list[str]) -> tuple[list[Sequence[Any]], pa.Schema]:
    """Return rows until each column has a value, and the schema; decimals get all digits that fit."""
    kept: list[Sequence[Any]] = []
    types: list[pa.DataType] = [pa.null()] * len(names)
    for rows in parts:
        kept.append(rows)
        for number, kind in enumerate(types):
            if pa.types.is_null(kind):
                types[number] = _type_of(names[number], [row[number] for row in rows])
        if len(kept) == _INFERRED_PARTS or not any(map(pa.types.is_null, types)):
            break
    return kept, pa.schema(list(zip(names, types, strict=True)))


def _type_of(name: str, values: list[Any]) -> pa.DataType:
    try:
        kind = pa.array(_plain(values)).type
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise _unfit(name, error) from error
    if not pa.types.is_decimal(kind):
        return kind
    scale = max(-int(value.as_tuple().exponent) for value in values if isinstance(value, Decimal))
    return pa.decimal128(38, max(0, scale))


def _batch(rows: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for number, item in enumerate(schema):
        try:
            arrays.append(pa.array(_plain([row[number] for row in rows]), item.type))
        except (pa.ArrowException, OverflowError, TypeError) as error:
            raise _unfit(item.name, error) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _plain(values: list[Any]) -> list[Any]:
    """Return values without objects of drivers that Arrow does not know: UUIDs are strings."""
    return [str(value) if type(value).__name__ == "UUID" else value for value in values]


def _unfit(name: str, error: Exception) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the values of column {name!r} of the query have no common type: {error}",
        field=name,
        hint="cast the column in the query",
    )


def _check_names(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidArgumentError(
                f"the query returns two columns named {name!r}", field="query", hint="rename one with AS"
            )
        seen.add(name)


def _no_rows() -> InvalidArgumentError:
    return InvalidArgumentError("the statement returns no rows", field="query", hint="use a SELECT")


@contextmanager
def _failures(kinds: type[Exception] | tuple[type[Exception], ...], database: str) -> Iterator[None]:
    """Turn errors of a database into one with the query as its field."""
    try:
        yield
    except kinds as error:
        text = hide_credentials(str(getattr(error, "orig", None) or error)).strip()
        lines = [line.strip() for line in text.splitlines() if line.strip(" ^")]
        place = next((line.partition(": ")[2] for line in lines if line.startswith("LINE ")), None)
        hint = "check the names and the syntax" if place is None else f"near {place}"
        if database == ":memory:" and "does not exist" in lines[0]:
            hint = "name a file in single quotes, as in FROM 'events.parquet'; or a database with --database"
        raise InvalidArgumentError(
            f"the query failed: {_KIND.sub('', lines[0]) if lines else type(error).__name__}",
            path=None if database == ":memory:" else database,
            field="query",
            hint=hint,
        ) from error
