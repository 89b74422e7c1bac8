"""Finding a function by the name that a filter gives it."""

import difflib

from lance_ops.filter.functions.build import BUILD_FUNCTIONS
from lance_ops.filter.functions.geo import GEO_FUNCTIONS
from lance_ops.filter.functions.json import JSON_FUNCTIONS
from lance_ops.filter.functions.list import LIST_FUNCTIONS
from lance_ops.filter.functions.number import NUMBER_FUNCTIONS
from lance_ops.filter.functions.signature import FunctionSpec
from lance_ops.filter.functions.text import TEXT_FUNCTIONS
from lance_ops.filter.functions.time import TIME_FUNCTIONS

_GROUPS = (
    TEXT_FUNCTIONS,
    NUMBER_FUNCTIONS,
    TIME_FUNCTIONS,
    LIST_FUNCTIONS,
    BUILD_FUNCTIONS,
    JSON_FUNCTIONS,
    GEO_FUNCTIONS,
)
FUNCTIONS = {spec.name: spec for group in _GROUPS for spec in group}
"""Every function by its canonical name."""

ALIASES = {
    "character_length": "length",
    "char_length": "length",
    "trim": "btrim",
    "substring": "substr",
    "instr": "strpos",
    "position": "strpos",
    "pow": "power",
    "date_format": "to_char",
    "datepart": "date_part",
    "datetrunc": "date_trunc",
    "list_has": "array_has",
    "array_contains": "array_has",
    "list_contains": "array_has",
    "list_has_any": "array_has_any",
    "list_has_all": "array_has_all",
    "arrays_overlap": "array_has_any",
    "array": "make_array",
    "make_list": "make_array",
    "list_length": "array_length",
    "array_empty": "empty",
    "list_empty": "empty",
    "list_element": "array_element",
    "array_extract": "array_element",
    "list_extract": "array_element",
}
"""Other names of functions."""

UNSTABLE = frozenset(
    {
        *("now", "current_time", "current_timestamp", "localtime", "localtimestamp"),
        *("random", "rand", "uuid", "gen_random_uuid", "current_user", "session_user", "version"),
    }
)
"""Functions whose value depends on when or where they are called."""

TODAY = frozenset({"current_date", "today"})
"""Functions that are the date in UTC at which the filter is parsed."""

STAMPS = frozenset(
    spec.name for spec in TIME_FUNCTIONS if spec.name.startswith(("to_timestamp", "from_", "to_date"))
)
"""Functions that make a date or a timestamp of a number."""

AGGREGATES = frozenset(
    {
        *("count", "sum", "avg", "mean", "min", "max", "median", "stddev", "var", "variance", "array_agg"),
        *("first_value", "last_value", "approx_distinct", "bool_and", "bool_or", "string_agg", "corr"),
        *("row_number", "rank", "dense_rank", "lag", "lead", "ntile"),
    }
)
"""Functions of many rows."""

# Not in the table because they have no kernels: the parser makes other nodes of them.
_SPECIAL = ("coalesce", "nvl", "ifnull", "nvl2", "is_valid", "regexp_match", "get_field", "arrow_cast")


def find_function(name: str) -> FunctionSpec | None:
    """Return the function of this lower-case name or alias."""
    return FUNCTIONS.get(ALIASES.get(name, name))


def similar_names(name: str) -> list[str]:
    """Return function names similar to `name`."""
    return difflib.get_close_matches(name, [*FUNCTIONS, *ALIASES, *_SPECIAL], n=3)
