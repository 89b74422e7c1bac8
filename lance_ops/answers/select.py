"""Queries by DuckDB: SELECT over datasets, in this process, without Java.

DuckDB scans a dataset as a pyarrow dataset: only the columns of the query are read, and comparisons narrow
the scan by indices and statistics. Other tables of the statement, such as `'prices.parquet'`, are
read by DuckDB.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, LanceOpsError, UnsupportedError, UnsupportedTypeError
from lance_ops.extras import load_extra
from lance_ops.table.arrow_dataset import ArrowDataset
from lance_ops.table.dataset import Dataset

FindDataset = Callable[[tuple[str, ...]], Dataset]
"""Returns the dataset of a table name in parts; raises `InvalidArgumentError` for an unknown one."""

_QUOTED = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$(\w*)\$.*?\$\1\$ | `((?:[^`]|``)*)`""",
    re.VERBOSE | re.DOTALL,
)
_EXPLAIN = re.compile(r"\s*EXPLAIN(?:\s+ANALYZE)?\s+", re.IGNORECASE)
# Files and addresses that DuckDB reads itself.
_FOREIGN = re.compile(r".*(?:\.(?:parquet|pq|csv|tsv|json|jsonl|ndjson)(?:\.\w+)?|[*?\[].*)", re.DOTALL)
_VERBS = {
    "INSERT": "append or merge-insert adds rows",
    "CREATE": "append creates a dataset from files, and clone from another dataset",
    "COPY": "export, or --output, writes rows to a file",
    "DROP": "delete the folder of the dataset",
    "CALL": "write a SELECT",
    "MULTI": "list the values of a PIVOT, as in PIVOT t ON kind IN ('a', 'b')",
}


@contextmanager
def run_select(statement: str, find: FindDataset) -> Iterator[pa.RecordBatchReader]:
    """Run a query and stream its rows, while the context is open.

    Args:
        statement: One SELECT, or EXPLAIN, DESCRIBE, SUMMARIZE, VALUES or FROM of DuckDB. Names with other
            characters are in double quotes or backticks.
        find: Returns the dataset of a name.

    Raises:
        MissingExtraError: DuckDB is not installed.
        InvalidArgumentError: The statement does not parse, is not a query, or names an unknown table.
        UnsupportedTypeError: DuckDB has no type for a column.
    """
    duckdb = load_extra("duckdb")
    config = {"python_enable_replacements": False, "autoinstall_known_extensions": False}
    connection = duckdb.connect(":memory:", config=config)
    try:
        text = _with_double_quotes(statement)
        failures: list[LanceOpsError] = []
        with _translated(duckdb, failures):
            _check_query(duckdb, connection, text)
            _register(connection, _table_names(connection, text), find, failures)
            found = connection.sql(text)
            if found is None:
                raise InvalidArgumentError("the statement returns no rows", field="statement")
            rows = _reader(found)
        yield pa.RecordBatchReader.from_batches(rows.schema, _batches(duckdb, rows, failures))
        rows.close()
    finally:
        connection.close()


def _batches(
    duckdb: Any, rows: pa.RecordBatchReader, failures: list[LanceOpsError]
) -> Iterator[pa.RecordBatch]:
    with _translated(duckdb, failures):
        yield from rows


def _reader(found: Any) -> pa.RecordBatchReader:
    # The newer name; older releases warn about neither.
    read = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
    rows: pa.RecordBatchReader = read()
    return rows


def _with_double_quotes(statement: str) -> str:
    """Return the statement with names in double quotes, where Spark has backticks."""

    def quoted(match: re.Match[str]) -> str:
        name = match[2]
        return match[0] if name is None else '"' + name.replace("``", "`").replace('"', '""') + '"'

    return _QUOTED.sub(quoted, statement)


def _check_query(duckdb: Any, connection: Any, text: str) -> None:
    statements = connection.extract_statements(text)
    if not statements:
        raise InvalidArgumentError("the statement is empty", field="statement", hint="write a SELECT")
    if len(statements) != 1:
        raise InvalidArgumentError(
            f"expected one statement, got {len(statements)}", field="statement", hint="run them one by one"
        )
    kind = statements[0].type
    if kind not in {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}:
        raise InvalidArgumentError(
            f"{kind.name} is neither a query nor a maintenance statement",
            field="statement",
            hint=_VERBS.get(kind.name, "write a SELECT, or a statement such as OPTIMIZE or DELETE FROM"),
        )


def _table_names(connection: Any, text: str) -> list[tuple[str, ...]]:
    """Return the names of tables in a query that it does not define itself, in parts."""
    text = _EXPLAIN.sub("", text, count=1)
    tree = json.loads(connection.execute("SELECT json_serialize_sql(?)", [text]).fetchall()[0][0])
    if tree.get("error"):
        raise InvalidArgumentError(
            f"DuckDB cannot describe this statement: {tree.get('error_message')}",
            field="statement",
            hint="write a SELECT",
        )
    names: dict[tuple[str, ...], None] = {}
    defined: set[str] = set()
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            if node.get("type") == "BASE_TABLE":
                parts = (node.get("catalog_name"), node.get("schema_name"), node.get("table_name"))
                names[tuple(part for part in parts if part)] = None
            defined.update(entry["key"].lower() for entry in (node.get("cte_map") or {}).get("map", ()))
            waiting += node.values()
    return [name for name in names if len(name) > 1 or name[0].lower() not in defined]


class _Watched:
    """A dataset whose errors are kept: DuckDB passes on their text only.

    Args:
        dataset: The version.
        failures: Receives its errors.
    """

    def __init__(self, dataset: Dataset, failures: list[LanceOpsError]) -> None:
        self._dataset = dataset
        self._failures = failures
        self.schema = dataset.schema
        self.uri = dataset.uri

    def count_rows(self) -> int:
        return self._dataset.count_rows()

    def to_batches(self, *args: Any, **options: Any) -> pa.RecordBatchReader:
        rows = self._dataset.to_batches(*args, **options)
        return pa.RecordBatchReader.from_batches(rows.schema, self._watch(rows))

    def _watch(self, rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        try:
            yield from rows
        except LanceOpsError as error:
            self._failures.append(error)
            raise


def _register(
    connection: Any, names: Sequence[tuple[str, ...]], find: FindDataset, failures: list[LanceOpsError]
) -> None:
    for number, name in enumerate(names):
        if _FOREIGN.fullmatch(name[-1].lower()) or name[0].lower() == "information_schema":
            continue
        if len(name) > 2:
            raise InvalidArgumentError(
                f"table {'.'.join(name)} has {len(name)} parts, expected one or two", field="statement"
            )
        dataset = find(name)
        _check_types(dataset)
        source = f"_lance_ops_{number}"
        connection.register(source, ArrowDataset(cast("Dataset", _Watched(dataset, failures))))
        if len(name) == 2:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(name[:1])}")
        connection.execute(f"CREATE VIEW {_quoted(name)} AS FROM {source}")


def _check_types(dataset: Dataset) -> None:
    refused = [field for field in dataset.schema if _is_refused(field.type)]
    if refused:
        columns = ", ".join(f"{field.name} ({field.type})" for field in refused)
        raise UnsupportedTypeError(
            f"DuckDB has no type for {columns}",
            path=dataset.uri,
            field=", ".join(field.name for field in refused),
            hint="read the rows with lance-ops query, or to_table() in Python",
        )


def _is_refused(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _is_refused(kind.storage_type)
    if pa.types.is_nested(kind):
        return any(_is_refused(kind.field(number).type) for number in range(kind.num_fields))
    return bool(pa.types.is_float16(kind) or pa.types.is_decimal256(kind))


def _quoted(name: Sequence[str]) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in name)


@contextmanager
def _translated(duckdb: Any, failures: Sequence[LanceOpsError]) -> Iterator[None]:
    try:
        yield
    except (duckdb.Error, pa.ArrowException) as error:
        if failures:
            raise failures[0] from None
        if isinstance(error, duckdb.InterruptException):
            raise KeyboardInterrupt from error
        if isinstance(error, duckdb.Error):
            raise _error_of(duckdb, error) from error
        raise InvalidArgumentError(f"the query failed: {_first_line(error)}", field="statement") from error


def _error_of(duckdb: Any, error: Exception) -> LanceOpsError:
    text = _first_line(error)
    if isinstance(error, duckdb.NotImplementedException):
        return UnsupportedError(f"DuckDB: {text}", field="statement")
    more = [line.strip() for line in str(error).splitlines()[1:] if line.strip()]
    told = [line for line in more if not line.startswith(("LINE", "^"))]
    place = next((line for line in more if line.startswith("LINE")), "")
    if told and told[0].startswith("Candidate functions"):
        # There are hundreds of an operator.
        told = ["compare and combine values of one type: convert one with CAST(... AS ...)"]
    hint = " ".join([*told, *([f"near {place.partition(': ')[2]}"] if place else [])])
    if ".lance" in str(error) and "syntax error" in text:
        hint = (
            f'{hint}; write paths of datasets in double quotes or backticks, as in FROM "lake/events.lance"'
        )
    return InvalidArgumentError(text, field="statement", hint=hint or None)


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return re.sub(r"^(?:Binder|Catalog|Parser|Invalid Input|Conversion|Out of Range) Error: ", "", text)
