"""Assignments of an update: an SQL expression for each changed column.

All of them read the old values, so that `{"a": "b", "b": "a"}` swaps two columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, PredicateError, SchemaMismatchError, check_type
from lance_ops.filter import Expression, evaluate_values, parse_value
from lance_ops.maintenance.fit import first_misfit, fit, fits_type
from lance_ops.table.assemble import forbidden_nulls


@dataclass(frozen=True, slots=True)
class Assignment:
    """New value of one column.

    Attributes:
        field: The column.
        sql: The expression as written.
        expression: The parsed expression.
    """

    field: pa.Field
    sql: str
    expression: Expression

    @property
    def column(self) -> str:
        """Name of the column."""
        return str(self.field.name)


def parse_assignments(
    values: Mapping[str, str], columns: pa.Schema, named: pa.Schema
) -> tuple[Assignment, ...]:
    """Parse what the columns become.

    Args:
        values: SQL by column.
        columns: The columns of the dataset.
        named: What the expressions may name.

    Raises:
        InvalidArgumentError: There are none, or one is for a column that is not there.
        PredicateError: An expression does not parse, or has a type that the column cannot take.
    """
    check_type(values, Mapping, "a mapping of columns to SQL expressions", field="values")
    if not values:
        raise InvalidArgumentError("no columns were assigned", field="values")
    return tuple(_parse(name, sql, columns, named) for name, sql in values.items())


def _parse(name: str, sql: str, columns: pa.Schema, named: pa.Schema) -> Assignment:
    check_type(name, str, "the name of a column", field="values")
    position = columns.get_field_index(name)
    if position < 0:
        nested = name.partition(".")[0] in columns.names
        raise InvalidArgumentError(
            f"column {name!r} not found",
            field="values",
            hint="only whole columns can be assigned" if nested else f"there are {', '.join(columns.names)}",
        )
    check_type(sql, str, f"the SQL of column {name!r}", field="values")
    if not sql.strip():
        raise InvalidArgumentError(
            f"the expression of column {name!r} is empty", field="values", hint="write NULL"
        )
    field = columns.field(position)
    expression = parse_value(sql, named, field.type)
    if not fits_type(expression.type, field.type):
        raise PredicateError(
            f"column {name!r} has type {field.type}, but the expression {sql!r} has type {expression.type}",
            field=name,
        )
    return Assignment(field, sql, expression)


def changed_rows(
    batch: pa.RecordBatch, assignments: Sequence[Assignment], addresses: pa.Array
) -> pa.RecordBatch:
    """The rows with their new values.

    Args:
        batch: The rows as they were, with all that the expressions name.
        assignments: What becomes of them.
        addresses: Of the rows, for errors.

    Raises:
        SchemaMismatchError: A value does not fit its column; names the column and the first such row of each.
        PredicateError: An expression cannot be computed.
    """
    changed = batch
    problems: list[str] = []
    for item in assignments:
        values = evaluate_values(item.expression, batch, wraps=False)
        misfit = first_misfit(values, item.field.type)
        if misfit is not None:
            at, why = misfit
            problems.append(f"{item.column}: {why} in the row with address {addresses[at]} ({item.sql})")
            continue
        column = fit(values, item.field.type)
        nulls = [name for name, _ in forbidden_nulls(item.field, column)]
        if nulls:
            missing = column.is_null().index(pa.scalar(True)).as_py() if column.null_count else -1
            where = f" in the row with address {addresses[missing]}" if missing >= 0 else ""
            problems.append(f"{nulls[0]}: null{where} in a non-nullable column ({item.sql})")
            continue
        changed = changed.set_column(batch.schema.get_field_index(item.column), item.field, column)
    if problems:
        raise SchemaMismatchError("new values do not fit their columns", problems)
    return changed
