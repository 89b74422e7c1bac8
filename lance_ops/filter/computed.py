"""Computed columns: type and nullability of what an expression gives, as pylance declares them.

A table to which one library adds a column and the other appends rows needs the same schema from both.
"""

import pyarrow as pa
import pyarrow.types as pat

from lance_ops.filter.expression import Case, Cast, Coalesce, Column, Expression, Function, Literal
from lance_ops.filter.predicates import InList, IsNull


def computed_field(name: str, expression: Expression, schema: pa.Schema) -> pa.Field:
    """Return the column that holds the values of an expression.

    Args:
        name: Of the column.
        expression: From `parse_value` with `narrow`.
        schema: The columns that it was parsed against.
    """
    data_type = expression.type
    if isinstance(expression, Column) and pat.is_dictionary(source := _fields(expression, schema)[-1].type):
        data_type = source
    # Rows that are deleted have no value, which a list or a struct that takes no null cannot store.
    return pa.field(name, data_type, pat.is_nested(data_type) or is_nullable(expression, schema))


def is_nullable(expression: Expression, schema: pa.Schema) -> bool:
    """Return whether pylance declares that an expression may be null; functions of columns always may."""
    match expression:
        case Literal(value):
            return value is None
        case Column():
            return any(field.nullable for field in _fields(expression, schema))
        case IsNull():
            return False
        case Cast(lenient=True):
            return True
        case InList(operand, _, has_null):
            return has_null or is_nullable(operand, schema)
        case Coalesce(operands):
            return all(is_nullable(operand, schema) for operand in operands)
        case Case(branches, otherwise):
            return any(is_nullable(value, schema) for value in (*(then for _, then in branches), otherwise))
        case Function(name) if name not in ("||", "round"):
            return True
        case _:
            return any(is_nullable(part, schema) for part in expression.children())


def _fields(column: Column, schema: pa.Schema) -> list[pa.Field]:
    """Return the fields on the way to a column, outermost first."""
    fields = [schema.field(column.path[0])]
    for part in column.path[1:]:
        data_type = fields[-1].type
        storage = data_type.storage_type if isinstance(data_type, pa.BaseExtensionType) else data_type
        fields.append(storage.field(part))
    return fields
