"""Extras: libraries that the core does without. What needs one says what to install where it is missing."""

import importlib
import importlib.util
from typing import Any

from lance_ops.errors import MissingExtraError

_KNOWN = {
    "airflow": ("Airflow", "airflow"),
    "dagster": ("Dagster", "dagster"),
    "dagster_pipes": ("Dagster Pipes", "pipes"),
    "faiss": ("faiss, with which vector indices are trained,", "vector"),
    "pandas": ("pandas", "pandas"),
    "lindera": ("Lindera, which the tokenizer lindera needs,", "lindera"),
    "py4j": ("Spark (its py4j)", "spark"),
    "pyspark": ("Spark", "spark"),
    "shapely": ("shapely, which conditions on geometries need,", "geo"),
    "rjieba": ("rjieba, which the tokenizer jieba needs,", "jieba"),
    "Stemmer": ("PyStemmer, which stems of words need,", "text"),
}
"""By module: what it is called, and the extra that brings it along; others have their own name."""


def require_extra(*modules: str) -> None:
    """Refuse to go on without some modules, none of which is loaded.

    Raises:
        MissingExtraError: Says what to install.
    """
    for module in modules:
        spec = importlib.util.find_spec(module)
        # A folder of that name in the working directory is no library.
        if spec is None or spec.origin is None:
            raise _missing(module)


def load_extra(module: str) -> Any:
    """A module that is loaded when it is used.

    Raises:
        MissingExtraError: It cannot be; says what to install.
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
