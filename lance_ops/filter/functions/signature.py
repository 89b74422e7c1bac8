"""Function signatures: argument types and result type of the functions of a filter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from lance_ops.errors import PredicateError
from lance_ops.filter.expression import Expression
from lance_ops.filter.types.casting import can_cast
from lance_ops.filter.types.coercion import (
    BOOL,
    FLOAT64,
    INT64,
    JSON,
    NULL,
    UTF8,
    is_list,
    is_number,
    is_text,
    union_type,
)
from lance_ops.filter.types.text_casts import each_distinct

Datum = Any
"""A `pyarrow.Array` or a `pyarrow.Scalar`."""

Result = Callable[[Sequence[Expression], Sequence[pa.DataType]], pa.DataType]


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """A scalar function.

    Args:
        kinds: Kind of each argument: a key of `_KINDS` ("word" is a case-insensitive string), followed by "?"
            if it is optional, "*" if it may be repeated; or "same" if all arguments are cast to one type.
        result: The type of the value, from the arguments and the types that they are cast to.
        kernel: The computation; at least one of its arguments is an array. Where the result has another type
            than `result` says it is cast.
        can_fail: True if some values are refused, so that the rows of a guard like `x <> 0 AND ...` matter.
        subject: The argument that represents the rows if all of them are constants.
        stays: True if a call of constants stays a call, because no literal has its value.
    """

    name: str
    kinds: tuple[str, ...]
    result: Result
    kernel: Callable[..., Datum]
    can_fail: bool = False
    subject: int = 0
    stays: bool = False

    def bind(self, arguments: Sequence[Expression]) -> tuple[list[pa.DataType], pa.DataType]:
        """Return the types that the arguments are cast to, and the type of the result.

        Raises:
            PredicateError: The number or the types of the arguments are wrong.
        """
        kinds = self._kinds_of(len(arguments))
        if "same" in kinds:
            targets = [self._shared_type(arguments)] * len(arguments)
            return targets, self.result(arguments, targets)
        targets = []
        for kind, argument in zip(kinds, arguments, strict=True):
            target = _KINDS[kind](argument.type)
            if target is None:
                raise PredicateError(f"{self.name}() does not take a value of type {argument.type}")
            targets.append(target)
        return targets, self.result(arguments, targets)

    def _shared_type(self, arguments: Sequence[Expression]) -> pa.DataType:
        common = union_type([argument.type for argument in arguments])
        if common is None:
            types = " and ".join(str(argument.type) for argument in arguments)
            raise PredicateError(f"{self.name}() cannot compare values of the types {types}")
        return common

    def _kinds_of(self, count: int) -> list[str]:
        required = [kind for kind in self.kinds if kind[-1] not in "?*"]
        if self.kinds and self.kinds[-1].endswith("*"):
            last = self.kinds[-1].rstrip("*")
            if count >= len(required):
                return [*required, *[last] * (count - len(required))]
            raise PredicateError(f"{self.name}() takes at least {len(required)} arguments, not {count}")
        if not len(required) <= count <= len(self.kinds):
            wanted = " to ".join(str(number) for number in sorted({len(required), len(self.kinds)}))
            raise PredicateError(f"{self.name}() takes {wanted} arguments, not {count}")
        return [kind.rstrip("?") for kind in self.kinds[:count]]


def _text(data_type: pa.DataType) -> pa.DataType | None:
    return UTF8 if data_type == NULL else data_type if is_text(data_type) else None


def _printable(data_type: pa.DataType) -> pa.DataType | None:
    if data_type == NULL or is_text(data_type):
        return _text(data_type)
    return UTF8 if can_cast(data_type, UTF8) else None


def _int(data_type: pa.DataType) -> pa.DataType | None:
    return INT64 if data_type == NULL or pat.is_integer(data_type) else None


def _real(data_type: pa.DataType) -> pa.DataType | None:
    if data_type == NULL or pat.is_integer(data_type) or pat.is_decimal(data_type):
        return FLOAT64
    return data_type if pat.is_floating(data_type) else None


def _number(data_type: pa.DataType) -> pa.DataType | None:
    return FLOAT64 if data_type == NULL else data_type if is_number(data_type) else None


def _double(data_type: pa.DataType) -> pa.DataType | None:
    return FLOAT64 if data_type == NULL or is_number(data_type) else None


def _moment(data_type: pa.DataType) -> pa.DataType | None:
    if data_type == NULL:
        return pa.timestamp("us")
    return data_type if pat.is_timestamp(data_type) or pat.is_date(data_type) else None


def _clock(data_type: pa.DataType) -> pa.DataType | None:
    return data_type if pat.is_time(data_type) else _moment(data_type)


def _stampable(data_type: pa.DataType) -> pa.DataType | None:
    known = is_text(data_type) or pat.is_integer(data_type) or pat.is_floating(data_type)
    return data_type if known else _moment(data_type)


def _json(data_type: pa.DataType) -> pa.DataType | None:
    return JSON if data_type in (NULL, JSON) else None


def _list(data_type: pa.DataType) -> pa.DataType | None:
    return pa.list_(NULL) if data_type == NULL else data_type if is_list(data_type) else None


def _geometry(data_type: pa.DataType) -> pa.DataType | None:
    """WKB, or a point or a box as GeoArrow has them."""
    if data_type == NULL or data_type == pa.binary():
        return pa.binary()
    if not pat.is_struct(data_type) or not all(pat.is_float64(field.type) for field in data_type):
        return None
    names = tuple(field.name for field in data_type)
    return data_type if names in (("x", "y"), ("xmin", "ymin", "xmax", "ymax")) else None


_KINDS: dict[str, Callable[[pa.DataType], pa.DataType | None]] = {
    "any": lambda data_type: data_type,
    "text": _text,
    "word": _text,
    "printable": _printable,
    "int": _int,
    "real": _real,
    "number": _number,
    "double": _double,
    "moment": _moment,
    "clock": _clock,
    "stampable": _stampable,
    "list": _list,
    "json": _json,
    "geometry": _geometry,
}


# --- results


def always(data_type: pa.DataType) -> Result:
    """Return a result type that is independent of the arguments."""
    return lambda _arguments, _targets: data_type


def like_first(_arguments: Sequence[Expression], targets: Sequence[pa.DataType]) -> pa.DataType:
    """Return the value has the type of the first argument."""
    return targets[0]


TRUTH = always(BOOL)


# --- kernels


def by_value(
    row: Callable[..., Any], vector: Callable[..., pa.Array] | None = None
) -> Callable[..., pa.Array]:
    """Return a kernel out of a Python function.

    Args:
        row: The function of Python values, none of them None. It serves where an argument besides the first
            varies from row to row, for which Arrow has no kernels.
        vector: The same for an array and constants; without it `row` is called once for each distinct value.
    """

    def kernel(subject: Datum, *others: Datum) -> pa.Array:
        if isinstance(subject, pa.Array) and all(isinstance(other, pa.Scalar) for other in others):
            constants = [other.as_py() for other in others]
            if any(constant is None for constant in constants):
                return pa.nulls(len(subject))
            if vector is not None:
                return vector(subject, *constants)
            return each_distinct(subject, lambda value: row(value, *constants), None)
        return _row_by_row(row, [subject, *others])

    return kernel


def _row_by_row(row: Callable[..., Any], arguments: list[Datum]) -> pa.Array:
    rows = next(len(argument) for argument in arguments if isinstance(argument, pa.Array))
    columns = [
        argument.to_pylist() if isinstance(argument, pa.Array) else [argument.as_py()] * rows
        for argument in arguments
    ]
    values = zip(*columns, strict=True)
    return pa.array([None if any(part is None for part in parts) else row(*parts) for parts in values])


def as_array(datum: Datum, rows: int) -> pa.Array:
    """Return the datum as an array of `rows` values."""
    return datum if isinstance(datum, pa.Array) else pa.repeat(datum, rows)


def plain(array: Any) -> pa.Array:
    """Return the result of a kernel, which may be chunked, as one array."""
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def if_null(datum: Datum, otherwise: Datum) -> Datum:
    """Return the first of the two that is not null, row by row."""
    return pc.coalesce(datum, otherwise)
