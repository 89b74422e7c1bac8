"""pyarrow expression: a filter of `pyarrow.compute`, translated to SQL.

pyarrow exports its expressions as Substrait, as pylance reads them too. The SQL is then parsed like any other
filter, so that types are checked and indices are used in the same way. A float32 column is compared with the
number that it would hold, as in SQL and not as in pyarrow, which widens the column.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pat

from lance_ops.errors import InvalidArgumentError, PredicateError, UnsupportedError
from lance_ops.filter.spelling import render_column, render_literal
from lance_ops.filter.types.coercion import is_bytes, is_text

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from lance_ops.pb import substrait_pb2 as pb

_BINARY = {
    "equal": "=",
    "not_equal": "<>",
    "lt": "<",
    "lte": "<=",
    "gt": ">",
    "gte": ">=",
    "and": "AND",
    "or": "OR",
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
}
_UNARY = {
    "not": "NOT ({})",
    "is_null": "({}) IS NULL",
    "is_not_null": "({}) IS NOT NULL",
    "is_nan": "isnan({})",
}
_FUNCTIONS = frozenset({"starts_with", "ends_with", "abs", "ceil", "floor", "exp", "ln", "sqrt", "power"})
_MICROSECONDS = pa.timestamp("us")
_LITERALS: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    # Without a type of their own, as in a text: they take that of what they are compared with.
    "i8": pa.int64(),
    "i16": pa.int64(),
    "i32": pa.int64(),
    "i64": pa.int64(),
    "fp32": pa.float64(),
    "fp64": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "fixed_binary": pa.binary(),
    "timestamp": _MICROSECONDS,
    "timestamp_tz": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "time": pa.time64("us"),
}
_UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}
_HINT = "write the condition as SQL"


def arrow_expression_sql(expression: "pc.Expression", schema: pa.Schema) -> str:
    """Return the SQL of a filter of pyarrow.

    Args:
        expression: Such as `pyarrow.compute.field("id") > 1`.
        schema: Columns that it may name.

    Raises:
        InvalidArgumentError: It is no expression of pyarrow.
        PredicateError: It names an unknown column, or compares types that do not fit.
        UnsupportedError: It has a function or a constant that cannot be translated.

    Examples:
        >>> import pyarrow.compute as pc
        >>> arrow_expression_sql(pc.field("id").isin([1, 2]), pa.schema([("id", pa.int64())]))
        '(id IN (1, 2))'
    """
    if type(expression).__name__ != "Expression" or not type(expression).__module__.startswith("pyarrow."):
        raise InvalidArgumentError(
            f"the filter must be an SQL condition or an expression of pyarrow, got {expression!r}",
            field="filter",
            hint="write \"id > 1\", or pyarrow.compute.field('id') > 1",
        )
    known = pa.schema([pa.field(field.name, _exported(field.type)) for field in schema])
    try:
        exported = bytes(expression.to_substrait(known))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        why = str(error).partition("\n")[0]
        if "No match for FieldRef" in why or "has no kernel matching" in why:
            raise PredicateError(
                f"the filter {expression} does not fit the columns: {why}",
                field="filter",
                hint=f"columns: {', '.join(schema.names)}",
            ) from error
        raise UnsupportedError(
            f"the filter {expression} cannot be translated: {why}", field="filter", hint=_HINT
        ) from error
    # Only callers with such a filter load the messages.
    from lance_ops.pb import substrait_pb2

    message = substrait_pb2.ExtendedExpression.FromString(exported)
    names = {
        item.extension_function.function_anchor: item.extension_function.name for item in message.extensions
    }
    return _Translation(known, names, str(expression)).sql(message.referred_expr[0].expression)


def _exported(data_type: pa.DataType) -> pa.DataType:
    """Return the type that stands for one that Substrait does not have, or that would be cast to the other.

    pyarrow cannot export the casts that it puts around a column, as around an int32 beside an int64.
    """
    if pat.is_dictionary(data_type):
        return _exported(data_type.value_type)
    if isinstance(data_type, pa.BaseExtensionType):
        return _exported(data_type.storage_type)
    if is_text(data_type):
        return pa.string()
    if is_bytes(data_type):
        return pa.binary()
    if pat.is_floating(data_type):
        return pa.float64()
    if pat.is_integer(data_type):
        return pa.int64()
    if pat.is_date64(data_type):
        return pa.date32()
    if pat.is_timestamp(data_type):
        return pa.timestamp("us", data_type.tz)
    if pat.is_struct(data_type):
        return pa.struct([pa.field(member.name, _exported(member.type)) for member in data_type])
    if pat.is_time(data_type):
        return pa.time64("us")
    # Of other columns a filter can only ask whether they are null.
    return data_type if pat.is_decimal(data_type) or pat.is_date32(data_type) else pa.bool_()


class _Translation:
    """Translation of one filter.

    Args:
        schema: Columns by position.
        functions: Names of the functions by anchor.
        text: The filter, for errors.
    """

    def __init__(self, schema: pa.Schema, functions: Mapping[int, str], text: str) -> None:
        self._schema = schema
        self._functions = functions
        self._text = text

    def sql(self, node: "pb.Expression") -> str:
        """Return the SQL of a node, in brackets where it has operators."""
        kind = node.WhichOneof("rex_type")
        parts: Mapping[str | None, Callable[[Any], str]] = {
            "literal": self._literal,
            "selection": self._column,
            "scalar_function": self._call,
            "singular_or_list": self._membership,
            # pyarrow casts a side of a comparison to the type of the other, as the parser of filters does.
            "cast": lambda cast: self.sql(cast.input),
        }
        if kind not in parts:
            raise self._unsupported("a part of it")
        return parts[kind](getattr(node, str(kind)))

    def _column(self, reference: "pb.Expression.FieldReference") -> str:
        segment = reference.direct_reference
        members: Sequence[pa.Field] = list(self._schema)
        path = []
        while True:
            field = members[segment.struct_field.field]
            path.append(field.name)
            if not segment.struct_field.HasField("child"):
                return render_column(tuple(path))
            segment, members = segment.struct_field.child, list(field.type)

    def _call(self, call: "pb.Expression.ScalarFunction") -> str:
        name = self._functions.get(call.function_reference, "")
        given = [self.sql(argument.value) for argument in call.arguments]
        if name in _BINARY and len(given) > 1:
            return reduce(lambda left, right: f"({left} {_BINARY[name]} {right})", given)
        if name in _UNARY and len(given) == 1:
            return f"({_UNARY[name].format(given[0])})"
        if name in _FUNCTIONS:
            return f"{name}({', '.join(given)})"
        raise self._unsupported(f"the function {name!r}")

    def _membership(self, node: "pb.Expression.SingularOrList") -> str:
        values = ", ".join(self.sql(option) for option in node.options)
        return f"({self.sql(node.value)} IN ({values}))" if values else "FALSE"

    def _literal(self, literal: "pb.Expression.Literal") -> str:
        kind = str(literal.WhichOneof("literal_type"))
        if kind == "null":
            return "NULL"
        value: Any = getattr(literal, kind, None)
        if kind == "decimal":
            whole = int.from_bytes(value.value, "little", signed=True)
            digits = pa.scalar(whole, pa.decimal128(38, 0)).as_py().scaleb(-value.scale)
            return render_literal(digits, pa.decimal128(value.precision, value.scale))
        if kind in ("precision_timestamp", "precision_timestamp_tz") and value.precision in _UNITS:
            zone = "UTC" if kind.endswith("tz") else None
            return render_literal(value.value, pa.timestamp(_UNITS[value.precision], zone))
        if kind not in _LITERALS:
            raise self._unsupported("a constant")
        return render_literal(value, _LITERALS[kind])

    def _unsupported(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"{what} in the filter {self._text} cannot be translated", field="filter", hint=_HINT
        )
