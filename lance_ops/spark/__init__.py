"""Spark: the session, the runner that executes tasks on executors, and the `lance` data source.

Public names are loaded when they are first used: executors import parts of this package for every task.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lance_ops.spark.datasource import register
    from lance_ops.spark.runner import SparkRunner
    from lance_ops.spark.session import build_session
    from lance_ops.spark.write import append_dataframe

_HOMES = {
    "SparkRunner": "lance_ops.spark.runner",
    "append_dataframe": "lance_ops.spark.write",
    "build_session": "lance_ops.spark.session",
    "register": "lance_ops.spark.datasource",
}

__all__ = ["SparkRunner", "append_dataframe", "build_session", "register"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'lance_ops.spark' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
