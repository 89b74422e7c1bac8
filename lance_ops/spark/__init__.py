"""Spark integration: session, task runner, and the `lance` data source.

Public names are loaded on first use: executors import parts of this package for every task.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lance_ops.extras import require_extra

if TYPE_CHECKING:
    from lance_ops.spark.catalog import catalog_jar
    from lance_ops.spark.changes import changes_dataframe
    from lance_ops.spark.datasource import register
    from lance_ops.spark.facade import LanceTable
    from lance_ops.spark.merge import merge_dataframe
    from lance_ops.spark.runner import SparkRunner
    from lance_ops.spark.scan import read_dataset
    from lance_ops.spark.session import build_session, prepare_environment, spark_conf
    from lance_ops.spark.writing.dataframe import append_dataframe

_HOMES = {
    "LanceTable": "lance_ops.spark.facade",
    "SparkRunner": "lance_ops.spark.runner",
    "append_dataframe": "lance_ops.spark.writing.dataframe",
    "catalog_jar": "lance_ops.spark.catalog",
    "changes_dataframe": "lance_ops.spark.changes",
    "build_session": "lance_ops.spark.session",
    "merge_dataframe": "lance_ops.spark.merge",
    "prepare_environment": "lance_ops.spark.session",
    "read_dataset": "lance_ops.spark.scan",
    "register": "lance_ops.spark.datasource",
    "spark_conf": "lance_ops.spark.session",
}

__all__ = [
    "LanceTable",
    "SparkRunner",
    "append_dataframe",
    "build_session",
    "catalog_jar",
    "changes_dataframe",
    "merge_dataframe",
    "prepare_environment",
    "read_dataset",
    "register",
    "spark_conf",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'lance_ops.spark' has no attribute {name!r}")
    # Here and not above: statements of maintenance and SELECT by DuckDB are run without Spark.
    require_extra("pyspark", "py4j")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
