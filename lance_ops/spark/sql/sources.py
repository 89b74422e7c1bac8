"""Sources of statements: tables and queries that MERGE INTO and ADD COLUMNS take rows from."""

from typing import Any

import pyarrow as pa

from lance_ops.errors import UnsupportedError
from lance_ops.spark.sql.statements import Name
from lance_ops.spark.sql.tables import Tables
from lance_ops.table.dataset import Dataset


def source_frame(tables: Tables, source: Name | str) -> Any:
    """A source as a DataFrame: a table, or what a query gives; there is a session."""
    assert tables.spark is not None
    if isinstance(source, str):
        return tables.spark.sql(source)
    return tables.spark.table(".".join(f"`{part}`" for part in source))


def source_rows(tables: Tables, source: Name | str, columns: list[str] | None) -> pa.Table:
    """The rows of a source, here.

    Raises:
        UnsupportedError: It is a query, and there is no session; or addresses of another dataset.
    """
    if tables.spark is not None:
        df = source_frame(tables, source)
        found: pa.Table = (df if columns is None else df.select(*columns)).toArrow()
        return found
    if isinstance(source, str):
        raise UnsupportedError(
            "a query as the source needs a session", field="statement", hint="give spark=..."
        )
    table = tables.find(source)
    dataset = Dataset.open(table.uri, storage_options=table.storage_options)
    if columns is not None and "_rowaddr" in columns and "_rowaddr" not in dataset.schema.names:
        raise UnsupportedError(
            "the addresses of a dataset's rows are its own, and say nothing of rows of the table",
            path=table.uri,
            field="_rowaddr",
            hint="give spark=... and a view with _rowaddr of the table, or use merge_insert by a key"
            " or lance_ops.add_columns",
        )
    return dataset.to_table(columns)
