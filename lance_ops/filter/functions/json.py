"""Functions of JSON columns, with pylance's rules of what a document gives and what it refuses."""

import json
import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from lance_ops.encoding.values.jsonb import number_text
from lance_ops.errors import PredicateError
from lance_ops.filter.functions.json_path import follow, parse_path
from lance_ops.filter.functions.signature import Datum, FunctionSpec, always
from lance_ops.filter.types.coercion import BOOL, FLOAT64, INT64, JSON, UTF8
from lance_ops.filter.types.text_casts import each_distinct

_INT64_LIMIT = 2**63
_FLOAT_TEXT = re.compile(r"[+-]?(?i:([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)", re.ASCII)
_INTEGER_TEXT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_POSITION_TEXT = re.compile(r"\+?[0-9]+", re.ASCII)
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
_MISSING = object()


def to_text(value: Any) -> str:
    """Return a value as JSON, without white space, members in the order that the format keeps them in."""
    if isinstance(value, dict):
        members = (f"{to_text(name)}:{to_text(value[name])}" for name in sorted(value, key=str.encode))
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(to_text(item) for item in value)}]"
    if _is_number(value):
        # JSON has no word for these.
        return _number_text(value) if math.isfinite(value) else "null"
    return json.dumps(value, ensure_ascii=False)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number_text(value: float) -> str:
    return number_text(value) if math.isfinite(value) else str(value).replace("nan", "NaN")


def _read(text: str) -> Any:
    return json.loads(text, strict=False, parse_int=_read_int)


def _read_int(digits: str) -> int | float:
    value = int(digits) if len(digits) <= 20 else 2**64
    # The format keeps what no 64-bit integer holds as a double.
    return value if -_INT64_LIMIT <= value < 2**64 else float(digits)


# --- values out of a document


def _member(document: Any, key: str) -> Any:
    """Return the member of that name, or the element at that position."""
    if isinstance(document, dict):
        return document.get(key, _MISSING)
    if isinstance(document, list) and _POSITION_TEXT.fullmatch(key):
        position = int(key) if len(key) < 20 else len(document)
        return document[position] if position < len(document) else _MISSING
    return _MISSING


def _as_string(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return _number_text(value)


def _as_int(value: Any) -> int:
    if isinstance(value, str) and _INTEGER_TEXT.fullmatch(value) and abs(int(value)) < _INT64_LIMIT:
        return int(value)
    if isinstance(value, int):
        number = int(value)
    else:
        exact = _as_float(value)
        if not math.isfinite(exact):
            raise ValueError(value)
        # Halves are rounded away from zero.
        number = int(math.copysign(math.floor(abs(exact) + 0.5), exact)) if abs(exact) < 2**52 else int(exact)
    if not -_INT64_LIMIT <= number < _INT64_LIMIT:
        raise ValueError(value)
    return number


def _as_float(value: Any) -> float:
    if isinstance(value, str) and not _FLOAT_TEXT.fullmatch(value):
        raise ValueError(value)
    return float(value)


def _as_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _TRUTHS:
        return _TRUTHS[value.lower()]
    raise ValueError(value)


def _getter(name: str, convert: Callable[[Any], Any]) -> Callable[[Any, str], Any]:
    """Return a member in another type; null if it is null or not there."""

    def get(document: Any, key: str) -> Any:
        value = _member(document, key)
        return None if value is _MISSING else _converted(value, key, name, convert)

    return get


def _converted(value: Any, place: str, name: str, convert: Callable[[Any], Any]) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict | list):
        with suppress(ValueError):
            return convert(value)
    raise PredicateError(
        f"{name}() cannot convert the value {to_text(value)[:50]} at {place!r}",
        hint="check it with json_extract(), or exclude such rows with another condition",
    )


def _get(document: Any, key: str) -> str | None:
    value = _member(document, key)
    return None if value is _MISSING else to_text(value)


def _extract(document: Any, path: str) -> str | None:
    found = follow(document, parse_path(path))
    if not found:
        return None
    return to_text(found[0] if len(found) == 1 else found)


def _exists(document: Any, path: str) -> bool:
    return bool(follow(document, parse_path(path)))


def _contains(document: Any, path: str, wanted: str) -> bool:
    return any(
        item == wanted or to_text(item) == wanted
        for value in follow(document, parse_path(path))
        if isinstance(value, list)
        for item in value
    )


def _length(document: Any, path: str) -> int | None:
    found = follow(document, parse_path(path))
    if not found:
        return None
    return len(found[0]) if isinstance(found[0], list) else 0


# --- values at a path, for an index of them


def values_at(documents: pa.Array, path: str, result: pa.DataType) -> pa.Array:
    """The values at a path of documents, as the function for this type gives members; null where none is.

    Args:
        documents: JSON as text.
        path: Leads to one value at most.
        result: A key of `MEMBER_FUNCTIONS`.

    Raises:
        PredicateError: It is no path, leads to several values of a document, or a value is not of the type.
    """
    name, convert = _CONVERSIONS[result]
    steps = parse_path(path)

    def look(document: Any) -> Any:
        found = follow(document, steps)
        if len(found) > 1:
            raise PredicateError(f"{path!r} leads to {len(found)} values of a document")
        return _converted(found[0], path, name, convert) if found else None

    return each_distinct(documents, lambda text: _look(look, text, ()), result)


def type_at(documents: pa.Array, path: str) -> pa.DataType | None:
    """Return the type of the first string, number or boolean at a path; None if there is none.

    Raises:
        PredicateError: It is not a path, or the first value that is not null is of another type.
    """
    steps = parse_path(path)
    for text in documents.drop_null():
        for value in _look(lambda document: follow(document, steps), text.as_py(), ()):
            if value is not None:
                return _type_of(value, path)
    return None


def _type_of(value: Any, path: str) -> pa.DataType:
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT64 if value < _INT64_LIMIT else FLOAT64
    if isinstance(value, float):
        return FLOAT64
    if isinstance(value, str):
        return UTF8
    raise PredicateError(f"{path!r} leads to {to_text(value)[:50]}, which is neither text, number nor truth")


def member_value(text: str, result: pa.DataType) -> Any:
    """Return a document that is a single value, as `values_at` gives it; None if it does not convert.

    Raises:
        ValueError: It is no JSON, null, or an object or array.
    """
    value = _read(text)
    if value is None or isinstance(value, dict | list):
        raise ValueError(text)
    with suppress(ValueError):
        return _CONVERSIONS[result][1](value)
    return None


# --- kernels


def _look(look: Callable[..., Any], text: str, arguments: Sequence[Any]) -> Any:
    try:
        return look(_read(text), *arguments)
    except RecursionError:
        raise PredicateError("a JSON document is nested too deeply") from None


def _kernel(
    look: Callable[..., Any], result: pa.DataType, check: Callable[[str], object]
) -> Callable[..., Datum]:
    """Evaluate once per document if the other arguments are constants, else once per row."""

    def kernel(documents: Datum, *others: Datum) -> Datum:
        if isinstance(documents, pa.Array) and all(isinstance(other, pa.Scalar) for other in others):
            constants = [other.as_py() for other in others]
            if any(constant is None for constant in constants):
                return pa.nulls(len(documents), result)
            check(constants[0])
            return each_distinct(documents, lambda text: _look(look, text, constants), result)
        rows = next(len(datum) for datum in (documents, *others) if isinstance(datum, pa.Array))
        columns = [
            datum.to_pylist() if isinstance(datum, pa.Array) else [datum.as_py()] * rows
            for datum in (documents, *others)
        ]
        found = [
            None if any(part is None for part in row) else _look(look, row[0], row[1:])
            for row in zip(*columns, strict=True)
        ]
        return pa.array(found, result)

    return kernel


def _spec(
    name: str,
    look: Callable[..., Any],
    result: pa.DataType,
    kinds: Sequence[str] = ("json", "printable"),
    *,
    check: Callable[[str], object] = parse_path,
    can_fail: bool = False,
) -> FunctionSpec:
    stored = UTF8 if result == JSON else result
    return FunctionSpec(name, tuple(kinds), always(result), _kernel(look, stored, check), can_fail)


def _any_key(_key: str) -> None:
    """Every text may be the name of a member."""


_CONVERSIONS: dict[pa.DataType, tuple[str, Callable[[Any], Any]]] = {
    UTF8: ("json_get_string", _as_string),
    INT64: ("json_get_int", _as_int),
    FLOAT64: ("json_get_float", _as_float),
    BOOL: ("json_get_bool", _as_bool),
}
MEMBER_FUNCTIONS = {result: name for result, (name, _) in _CONVERSIONS.items()}
"""The function that gives a member in a type, by the type."""

JSON_FUNCTIONS = (
    _spec("json_get", _get, JSON, check=_any_key),
    *(
        _spec(name, _getter(name, convert), result, check=_any_key, can_fail=True)
        for result, (name, convert) in _CONVERSIONS.items()
    ),
    _spec("json_extract", _extract, UTF8, can_fail=True),
    _spec("json_exists", _exists, BOOL, can_fail=True),
    _spec("json_array_contains", _contains, BOOL, ("json", "printable", "printable"), can_fail=True),
    _spec("json_array_length", _length, INT64, can_fail=True),
)
