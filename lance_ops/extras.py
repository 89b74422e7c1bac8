"""Optional dependencies; a missing one raises an error with install instructions."""

import importlib
import importlib.util
from typing import Any

from lance_ops.errors import MissingExtraError

_KNOWN = {
    "airflow": ("Airflow", "airflow"),
    "boto3": ("boto3, which queries DynamoDB,", "dynamodb"),
    "botocore.exceptions": ("botocore, which queries DynamoDB,", "dynamodb"),
    "dagster": ("Dagster", "dagster"),
    "dagster_pipes": ("Dagster Pipes", "pipes"),
    "duckdb": ("DuckDB", "duckdb"),
    "faiss": ("faiss, which trains vector indices,", "vector"),
    "fastavro": ("fastavro, which reads Avro files,", "avro"),
    "pandas": ("pandas", "pandas"),
    "lindera": ("Lindera, which the tokenizer lindera requires,", "lindera"),
    "py4j": ("Spark (its py4j)", "spark"),
    "pyspark": ("Spark", "spark"),
    "pyarrow.orc": ("ORC support of pyarrow", None),
    "sqlalchemy": ("SQLAlchemy, which queries databases,", "sql"),
    "sqlalchemy.exc": ("SQLAlchemy, which queries databases,", "sql"),
    "shapely": ("shapely, which conditions on geometries require,", "geo"),
    "rjieba": ("rjieba, which the tokenizer jieba requires,", "jieba"),
    "Stemmer": ("PyStemmer, which stemming requires,", "text"),
}
"""By module: its display name and the extra that installs it; others have their own name."""


def require_extra(*modules: str) -> None:
    """Check that modules are installed, without importing them.

    Raises:
        MissingExtraError: One is missing; the hint names the extra.
    """
    for module in modules:
        spec = importlib.util.find_spec(module)
        # A folder of that name in the working directory is not a library.
        if spec is None or spec.origin is None:
            raise _missing(module)


def load_extra(module: str) -> Any:
    """Import an optional module.

    Raises:
        MissingExtraError: It is not installed; the hint names the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise _missing(module) from error


def _missing(module: str) -> MissingExtraError:
    called, extra = _KNOWN.get(module, (module, None))
    wanted = module if extra is None else f"'lance-ops[{extra}]'"
    error = MissingExtraError(f"{called} is not installed", hint=f"pip install {wanted}")
    error.name = module
    return error
