"""Queries: SELECT by DuckDB in this process, or by Spark with the same names of tables."""

from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa

from lance_ops.answers.select import run_select
from lance_ops.errors import InvalidArgumentError
from lance_ops.spark.sql.statements import Name
from lance_ops.spark.sql.tables import Tables
from lance_ops.table.dataset import Dataset


def run_in_duckdb(statement: str, tables: Tables) -> AbstractContextManager[pa.RecordBatchReader]:
    """Run a query in DuckDB; its rows can be read while the context is open.

    Args:
        statement: The query.
        tables: Resolves the names of its tables.

    Raises:
        MissingExtraError: DuckDB is not installed.
        InvalidArgumentError: The statement does not parse, is no query, or names an unknown table.
        UnsupportedTypeError: DuckDB has no type for a column.
    """

    def find(name: Name) -> Dataset:
        table = tables.find(name)
        return Dataset.open(table.uri, storage_options=table.storage_options)

    return run_select(statement, find)


def run_on_spark(statement: str, tables: Tables) -> pa.Table:
    """Run a query on the session of `tables`; datasets that its catalog lacks become temporary views.

    Raises:
        InvalidArgumentError: The statement does not parse, or names an unknown table.
    """
    import sqlglot
    from sqlglot import exp

    from lance_ops.spark.scan import read_dataset

    spark: Any = tables.spark
    try:
        tree = sqlglot.parse_one(statement, read="spark")
    except sqlglot.errors.SqlglotError as error:
        raise InvalidArgumentError(
            f"the statement does not parse: {str(error).splitlines()[0]}", field="statement"
        ) from error
    defined = {cte.alias for cte in tree.find_all(exp.CTE)}
    views = []
    for number, node in enumerate(list(tree.find_all(exp.Table))):
        name = tuple(part.name for part in node.parts)
        if name[0] in defined:
            continue
        found = tables.find(name)
        if found.quoted is not None:
            continue
        view = f"_lance_ops_{number}"
        read_dataset(spark, found.uri, storage_options=found.storage_options).createOrReplaceTempView(view)
        views.append(view)
        alias = node.alias or name[-1].rpartition("/")[2].removesuffix(".lance")
        node.replace(exp.to_table(view).as_(alias, quoted=True))
    try:
        rows: pa.Table = spark.sql(tree.sql(dialect="spark")).toArrow()
    finally:
        for view in views:
            spark.catalog.dropTempView(view)
    return rows
