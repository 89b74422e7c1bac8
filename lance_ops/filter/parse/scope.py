"""Scope: state of the resolution of one filter, passed from node to node.

Finding the column that a name in a filter means.
"""

import datetime as dt
import difflib
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.types as pat
from sqlglot import exp

from lance_ops.errors import PredicateError
from lance_ops.filter.evaluate.evaluate import constant
from lance_ops.filter.expression import Cast, Coerce, Column, Expression, Function, Literal, format_path
from lance_ops.filter.functions.registry import FUNCTIONS
from lance_ops.filter.literals import narrowed
from lance_ops.filter.parse.mismatch import bare_date, remedy
from lance_ops.filter.parse.syntax import Syntax
from lance_ops.filter.types.casting import can_cast
from lance_ops.filter.types.coercion import NULL, is_number, is_text, plain_type, reads_as, union_type
from lance_ops.filter.types.sql_names import sql_type


def find_column(schema: pa.Schema, names: Sequence[tuple[str, bool]]) -> Column:
    """Resolve a column name or a path into a struct.

    Args:
        schema: The columns.
        names: The parts of the path, each with a flag for backticks. Without backticks the first
            part is also found in another case, if only one column has that name; the parts behind it are
            always exact.

    Raises:
        PredicateError: There is no such column, or more than one; the message has no position yet.
    """
    root = _root_name(schema, *names[0])
    data_type = schema.field(root).type
    path = [root]
    for name, _quoted in names[1:]:
        data_type = plain_type(data_type)
        if not pat.is_struct(data_type):
            raise PredicateError(
                f"column {format_path(tuple(path))!r} has the type {data_type}, which has no fields"
            )
        fields = [data_type.field(index).name for index in range(data_type.num_fields)]
        if name not in fields:
            raise PredicateError(
                f"column {format_path(tuple(path))!r} has no field {name!r}", hint=_suggestion(name, fields)
            )
        data_type = data_type.field(name).type
        path.append(name)
    return Column(tuple(path), plain_type(data_type))


def _root_name(schema: pa.Schema, name: str, quoted: bool) -> str:
    found = [name] if name in schema.names else []
    if not found and not quoted:
        found = [candidate for candidate in schema.names if candidate.lower() == name.lower()]
    if not found:
        hint = _suggestion(name, schema.names)
        if not quoted and not hint.endswith("?"):
            hint += f"; use single quotes for a string: '{name}'"
        raise PredicateError(f"there is no column {name!r}", hint=hint)
    if len(found) > 1 or schema.names.count(found[0]) > 1:
        raise PredicateError(f"{name!r} means more than one column: {', '.join(found)}", hint="use backticks")
    return found[0]


def _suggestion(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(
        name.lower(), [candidate.lower() for candidate in names], n=3, cutoff=0.6
    )
    shown = [candidate for candidate in names if candidate.lower() in close]
    if shown:
        return f"did you mean {' or '.join(f'`{candidate}`' for candidate in shown[:3])}?"
    listed = ", ".join(names[:20])
    return f"there are {listed}{', ...' if len(names) > 20 else ''}"


MAX_DEPTH = 100
"""Levels of an expression; a chain of AND or OR is one level."""

Handler = Callable[["Scope", Any, pa.DataType | None], Expression]
"""Resolves one kind of syntax node; the last argument is a hint, see `Scope.expression`."""


class Scope:
    """The text, the schema and the way down the syntax tree.

    Args:
        syntax: The parsed filter.
        schema: The columns that it may name.
        handlers: What resolves each kind of node.
        narrow: See `parse_value`.
    """

    def __init__(
        self,
        syntax: Syntax,
        schema: pa.Schema,
        handlers: Mapping[type[exp.Expr], Handler],
        *,
        narrow: bool = False,
    ) -> None:
        self.syntax = syntax
        self.schema = schema
        self.narrow = narrow
        self._handlers = handlers
        self._depth = 0
        self._today: Literal | None = None

    @property
    def today(self) -> Literal:
        """The date in UTC; constant for the whole filter."""
        if self._today is None:
            days = (dt.datetime.now(dt.UTC).date() - dt.date(1970, 1, 1)).days
            self._today = Literal(days, pa.date32())
        return self._today

    def expression(self, node: exp.Expr, hint: pa.DataType | None = None) -> Expression:
        """Resolve any node.

        Args:
            node: The syntax.
            hint: The type of the column that it is compared with, for numbers and strings without a type.
        """
        handler = self._handlers.get(type(node))
        if handler is None:
            self.fail(f"{described(node)} is not supported in a filter", node)
        if self._depth == MAX_DEPTH:
            self.fail(
                "the expression is nested too deeply", node, f"at most {MAX_DEPTH} levels are supported"
            )
        self._depth += 1
        try:
            return handler(self, node, hint)
        finally:
            self._depth -= 1

    def fail(self, message: str, at: exp.Expr | int | None, hint: str | None = None) -> NoReturn:
        """Raise a `PredicateError` that shows the place."""
        self.syntax.fail(message, at, hint)

    def only(self, node: exp.Expr, *names: str) -> None:
        """Refuse unsupported parts of a node."""
        for name, part in node.args.items():
            if part and name not in names and not name.startswith("_"):
                self.fail(f"{name.upper()} is not supported in {described(node)}", node)

    def column(self, names: Sequence[tuple[str, bool]], node: exp.Expr | int) -> Column:
        """Return the column of a path; see `find_column`."""
        try:
            return find_column(self.schema, names)
        except PredicateError as error:
            self.fail(error.message, node, error.hint)

    def folded(self, expression: Expression, at: exp.Expr | int) -> Expression:
        """Return the value of a constant expression; the expression if it has none, like 1 / 0."""
        children = expression.children()
        if isinstance(expression, Literal) or not all(isinstance(child, Literal) for child in children):
            return expression
        stays = isinstance(expression, Function) and FUNCTIONS[expression.name].stays
        try:
            value = constant(expression)
        except PredicateError as error:
            if stays or isinstance(expression, (Cast, Coerce)):
                self.fail(error.message, at, error.hint)
            return expression
        return expression if stays else value

    def refuse_bare_date(self, node: exp.Expr, target: pa.DataType) -> None:
        """Refuse `CAST(2024-05-01 AS DATE)`, which is day 2018 after 1970-01-01."""
        date = bare_date(node)
        if date is not None and (reads_as(target) or is_text(target)):
            self.fail("a date without quotes is a subtraction of numbers", node, f"write '{date}'")

    def coerced(self, expression: Expression, target: pa.DataType, at: exp.Expr | int) -> Expression:
        """Return the expression in another type."""
        if expression.type == target:
            return expression
        if isinstance(expression, Literal) and expression.value is None:
            return Literal(None, target)
        if not can_cast(expression.type, target):
            self.fail(f"a value of type {expression.type} cannot be converted to {target}", at)
        converted = Coerce(expression, target)
        # A literal of these types would be parsed as another type: SQL has no name for half floats and
        # 256-bit decimals, and a timestamp means another time than a date if there is a time zone.
        unnamed = is_number(expression.type) and is_number(target) and sql_type(target) is None
        dated = pat.is_date(expression.type) and pat.is_timestamp(target)
        return converted if unnamed or dated else self.folded(converted, at)

    def read(self, expression: Expression, target: pa.DataType, at: exp.Expr | int) -> Expression:
        """Parse a string constant next to a value of type `target` if it is a date or a time."""
        text = isinstance(expression, Literal) and is_text(expression.type) and expression.value is not None
        return self.coerced(expression, target, at) if text and reads_as(target) else expression

    def together(
        self, expressions: Sequence[Expression], node: exp.Expr, *, as_text: bool = False
    ) -> tuple[list[Expression], pa.DataType]:
        """Convert several values to their common type.

        Args:
            expressions: The values.
            node: Their syntax node.
            as_text: Convert numbers to strings if there is a string; otherwise parse string constants next to
                numbers.

        Raises:
            PredicateError: They have no type in common, or a constant cannot be converted.
        """
        texts = [isinstance(item, Literal) and is_text(item.type) for item in expressions]
        rest = union_type(
            (item.type for item, text in zip(expressions, texts, strict=True) if not text), as_text=as_text
        )
        columns = [item.type for item in expressions if not isinstance(item, Literal)]
        unit = (union_type(columns) if columns else rest) or NULL
        known: list[Expression] = []
        for item, text in zip(expressions, texts, strict=True):
            if text and rest is not None and is_number(rest) and not as_text:
                known.append(self.coerced(item, rest, node))
            elif rest is None:
                known.append(item)
            else:
                known.append(_in_unit(self.read(item, rest, node), unit))
        common = union_type((item.type for item in known), as_text=as_text)
        if common is None:
            types = ", ".join(dict.fromkeys(str(item.type) for item in known))
            self.fail(f"the values have no common type: {types}", node, self._remedy(known))
        return [self.coerced(item, common, node) for item in known], common

    def _remedy(self, expressions: Sequence[Expression]) -> str | None:
        pairs = itertools.combinations(expressions, 2)
        return next((remedy(a, b) for a, b in pairs if union_type((a.type, b.type)) is None), None)


def _in_unit(expression: Expression, target: pa.DataType) -> Expression:
    """Return a constant date or timestamp in the unit of the other operand, if that is exact."""
    if not isinstance(expression, Literal) or not pat.is_timestamp(target):
        return expression
    return narrowed(expression, target) or expression


def described(node: exp.Expr) -> str:
    """Return a syntax node in words."""
    return _DESCRIPTIONS.get(type(node), type(node).__name__.upper())


_DESCRIPTIONS: dict[type[exp.Expr], str] = {
    exp.Window: "a window function",
    exp.Star: "*",
    exp.Select: "a subquery",
    exp.Subquery: "a subquery",
    exp.Tuple: "a list of values in parentheses",
    exp.Concat: "concatenating adjacent strings",
    exp.AtTimeZone: "AT TIME ZONE",
    exp.Parameter: "a parameter",
    exp.Placeholder: "a parameter",
}
