"""Sources of statements: tables and queries that MERGE INTO and ADD COLUMNS read."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lance_ops.errors import UnsupportedError
from lance_ops.file.schema.field_path import format_field_path
from lance_ops.spark.sql.names import own_names
from lance_ops.spark.sql.statements import Name
from lance_ops.spark.sql.tables import Tables, quoted_name
from lance_ops.table.dataset import Dataset


def source_frame(tables: Tables, source: Name | str, columns: Sequence[str] | None) -> Any:
    """Return columns of a source as a DataFrame: of a table, or of a query; requires a session."""
    assert tables.spark is not None
    if isinstance(source, str):
        df = tables.spark.sql(source)
    elif tables.spark.catalog.tableExists(quoted_name(source)):
        df = tables.spark.table(quoted_name(source))
    else:
        from lance_ops.spark.scan import read_dataset

        found = tables.find(source)
        df = read_dataset(tables.spark, found.uri, storage_options=found.storage_options)
    return df if columns is None else df.select(*(quoted_name((column,)) for column in columns))


def source_rows(tables: Tables, source: Name | str, columns: Sequence[str] | None) -> pa.Table:
    """Return the rows of a source in this process.

    Raises:
        UnsupportedError: It is a query, and there is no session; or it has addresses of another dataset.
    """
    if tables.spark is not None:
        found: pa.Table = source_frame(tables, source, columns).toArrow()
        return found
    if isinstance(source, str):
        raise UnsupportedError(
            "a query as the source requires a session", field="statement", hint="give spark=..."
        )
    table = tables.find(source)
    dataset = Dataset.open(table.uri, storage_options=table.storage_options)
    if columns is not None and "_rowaddr" in columns and "_rowaddr" not in dataset.schema.names:
        raise UnsupportedError(
            "row addresses of another dataset do not match rows of the table",
            path=table.uri,
            field="_rowaddr",
            hint="use spark=... and a view with _rowaddr of the table, or merge_insert by a key or "
            "lance_ops.add_columns",
        )
    if columns is None:
        return dataset.to_table()
    # A path in backticks names its column with them.
    paths = [format_field_path([name]) for name in own_names(dataset.schema.names, columns).values()]
    return dataset.to_table(paths).rename_columns(list(columns))
