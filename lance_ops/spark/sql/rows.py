"""Statements that change rows, with the conditions' meaning in Spark."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_ops.errors import UnsupportedError
from lance_ops.filter import Expression, parse_filter
from lance_ops.maintenance.merge_insert.clauses import merge_condition
from lance_ops.maintenance.merge_insert.operation import merge_insert
from lance_ops.spark.sql import results
from lance_ops.spark.sql.expressions import Translated
from lance_ops.spark.sql.names import own_names
from lance_ops.spark.sql.sources import source_frame, source_rows
from lance_ops.spark.sql.statements import Merge, Replace
from lance_ops.spark.sql.tables import Tables
from lance_ops.table.dataset import Dataset
from lance_ops.table.scan.pruner import Pruner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def searches(spark: "SparkSession | None", condition: str | None) -> Sequence[Pruner]:
    """Return the search for a condition that a filter may read differently; None without a session."""
    if spark is None or not isinstance(condition, Translated):
        return ()
    from lance_ops.spark.sql.conditions import SparkSearch

    return (SparkSearch(spark, condition.original, condition.alias),)


def check_values(spark: "SparkSession | None", values: Mapping[str, str], dataset: Dataset) -> None:
    """Check that values do not depend on the time zone of a session; see `refuse_local_values`."""
    if spark is not None:
        from lance_ops.spark.sql.conditions import refuse_local_values

        refuse_local_values(values, dataset, spark)


def replace_rows(replace: Replace, tables: Tables, dataset: Dataset, options: Mapping[str, Any]) -> pa.Table:
    """Replace rows by those of a query, which must match the condition.

    Raises:
        UnsupportedError: There is no session, or the condition may select other rows than in Spark.
    """
    if tables.spark is None:
        raise UnsupportedError(
            "REPLACE requires a session for its query", field="statement", hint="give spark=..."
        )
    from lance_ops.spark.writing.dataframe import append_dataframe

    _check(
        tables.spark,
        replace.condition,
        lambda: parse_filter(replace.condition, dataset.schema),
        "use DELETE FROM and INSERT INTO",
    )
    append_dataframe(
        tables.spark.sql(replace.query),
        dataset.uri,
        mode="replace_where",
        predicate=str(replace.condition),
        allow_empty=True,
        **options,
    )
    return results.rows(results.NOTHING, [])


def merge_rows(merge: Merge, tables: Tables, dataset: Dataset, options: Mapping[str, Any]) -> pa.Table:
    """Merge the rows of a source into a table.

    Raises:
        UnsupportedError: A condition may select other rows than in Spark.
    """
    names = dataset.schema.names
    clauses: dict[str, Any] = {
        "when_matched": {"update": "update_all", "delete": "delete", None: None}[merge.matched],
        "when_not_matched": "insert_all" if merge.not_matched else None,
        "when_not_matched_by_source": "delete"
        if merge.not_matched_by_source == "true"
        else merge.not_matched_by_source and str(merge.not_matched_by_source),
    }
    if merge.condition is not None:
        clauses.update(when_matched="update_if", condition=str(merge.condition))
    columns = None if merge.columns is None else list(merge.columns)
    on = list(own_names(names, merge.on).values())
    if tables.spark is not None:
        from lance_ops.spark.merge import merge_dataframe
        from lance_ops.spark.types import arrow_schema

        df = source_frame(tables, merge.source, columns)
        df = df.toDF(*own_names(names, df.columns).values())
        _check_merge(tables.spark, merge, arrow_schema(df.schema), dataset.schema)
        done = merge_dataframe(df, dataset.uri, on, **clauses, **options)
    else:
        rows = source_rows(tables, merge.source, columns)
        rows = rows.rename_columns(list(own_names(names, rows.schema.names).values()))
        done = merge_insert(dataset.uri, rows, on, **clauses, **options)
    counts = (done.rows_updated, done.rows_deleted, done.rows_inserted)
    return results.one_row(results.MERGED, sum(counts), *counts)


def _check_merge(spark: "SparkSession", merge: Merge, source: pa.Schema, target: pa.Schema) -> None:
    condition, unmatched = merge.condition, merge.not_matched_by_source
    if condition is not None:
        hint = "compute a condition on the source in the query after USING"
        _check(spark, condition, lambda: merge_condition(condition, source, target), hint)
    if unmatched is not None:
        _check(spark, unmatched, lambda: parse_filter(unmatched, target), "use DELETE FROM for these rows")


def _check(spark: "SparkSession", condition: str, parse: Callable[[], Expression], hint: str) -> None:
    if isinstance(condition, Translated):
        from lance_ops.spark.sql.conditions import refuse_other_meaning

        refuse_other_meaning(condition.original, parse(), spark, hint=hint)
