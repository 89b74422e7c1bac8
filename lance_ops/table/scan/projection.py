"""Projection: columns by name or nested path, and row columns, with the result schema of pylance."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.cache import Cache, IdentityCache
from lance_ops.errors import InvalidArgumentError, check_type
from lance_ops.file.schema.model import Field, Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.table.scan.row_columns import (
    ROW_ADDRESS,
    ROW_COLUMNS,
    ROW_ID,
    ROW_OFFSET,
    RowColumnSource,
    Rows,
    row_column_field,
)

_FEW_COLUMNS, _MOST_PROJECTIONS = 64, 64


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of the result.

    Attributes:
        field: Name, type, nullability and metadata in the result.
        path: Names from the top-level column down; empty for a row column.
    """

    field: pa.Field
    path: tuple[str, ...]

    @property
    def is_row_column(self) -> bool:
        """Return whether no file holds it."""
        return not self.path


@dataclass(frozen=True, slots=True)
class Projection:
    """The columns of a result.

    Attributes:
        outputs: In the order of the result.
        schema: The part of the dataset's schema to read.
        arrow_schema: Schema of the result, with the schema metadata of the dataset.
    """

    outputs: tuple[OutputColumn, ...]
    schema: Schema
    arrow_schema: pa.Schema

    @property
    def has_row_columns(self) -> bool:
        """Return whether some columns of the result are row columns."""
        return any(output.is_row_column for output in self.outputs)

    def build(self, tables: Sequence[pa.Table], row_columns: RowColumnSource | None, rows: Rows) -> pa.Table:
        """Assemble the result.

        Args:
            tables: Top-level columns that were read, all of the same rows.
            row_columns: Of the rows; None for a result without.
            rows: The rows.
        """
        if (
            len(tables) == 1
            and self.outputs
            and tables[0].schema.equals(self.arrow_schema, check_metadata=True)
        ):
            # In wide tables each access to a column by name may cost more than its values.
            return tables[0]
        found = {name: table.column(name) for table in tables for name in table.column_names}
        columns = []
        for output in self.outputs:
            if output.is_row_column:
                assert row_columns is not None
                columns.append(row_columns.column(output.field.name, rows))
            else:
                column = found[output.path[0]]
                columns.append(pc.struct_field(column, list(output.path[1:])) if output.path[1:] else column)
        if not columns:
            return rows_without_columns(len(rows), self.arrow_schema)
        return pa.Table.from_arrays(columns, schema=self.arrow_schema)


def rows_without_columns(count: int, schema: pa.Schema) -> pa.Table:
    """Return a table of `count` rows and no columns."""
    # Most ways to create such a table lose the row count; dropping the only column does not.
    marked = pa.schema([pa.field("", pa.null())], metadata=schema.metadata)
    return pa.Table.from_arrays([pa.nulls(count)], schema=marked).select([])


def check_columns(columns: object) -> None:
    """Check that columns are a list of names.

    Raises:
        InvalidArgumentError: They are not; the hint shows the correct form.
    """
    if isinstance(columns, str):
        raise InvalidArgumentError(
            f"columns must be a list of names, got the text {columns!r}",
            field="columns",
            hint=f"write columns=[{columns!r}]",
        )
    check_type(columns, Iterable, "a list of names", field="columns")


def build_projection(
    schema: Schema,
    columns: Iterable[str] | None,
    *,
    with_row_id: bool = False,
    with_row_address: bool = False,
) -> Projection:
    """Resolve the columns of a scan.

    Args:
        schema: Schema of the dataset.
        columns: Top-level names, nested paths such as `a.b` (returned flat, under that name), or row
            columns; all top-level columns when None.
        with_row_id: Add `_rowid` at the end.
        with_row_address: Add `_rowaddr` at the end.

    Raises:
        InvalidArgumentError: A column does not exist or is listed twice.
    """
    if columns is None:
        if not with_row_id and not with_row_address:
            return _project_everything(schema)
        return _build(schema, None, with_row_id, with_row_address)
    check_columns(columns)
    names = tuple(columns)
    if len(names) > _FEW_COLUMNS or any(type(name) is not str for name in names):
        return _build(schema, names, with_row_id, with_row_address)
    key = names, with_row_id, with_row_address
    return _projections(schema).load(key, lambda: _build(schema, names, with_row_id, with_row_address))


def _build(
    schema: Schema, columns: tuple[str, ...] | None, with_row_id: bool, with_row_address: bool
) -> Projection:
    if columns is None:
        outputs = list(_project_everything(schema).outputs)
    else:
        outputs = [_output(schema, name) for name in columns]
    names = [output.field.name for output in outputs]
    for wanted, name in ((with_row_id, ROW_ID), (with_row_address, ROW_ADDRESS)):
        if wanted and name not in names:
            outputs.append(_output(schema, name))
    _refuse_repeated(names)
    paths = [output.field.name for output in outputs if output.path]
    return Projection(
        tuple(outputs),
        schema if columns is None else schema.project(paths),
        pa.schema([output.field for output in outputs], metadata=_metadata(schema.metadata)),
    )


def _refuse_repeated(names: Sequence[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InvalidArgumentError(f"column {twice[0]!r} is listed twice", field="columns")


def _all_columns(schema: Schema) -> Projection:
    # Used unparsed: a name with a backtick, or an empty one, is not a valid path.
    arrow = prepare_schema(schema).arrow
    _refuse_repeated(arrow.names)
    return Projection(tuple([OutputColumn(field, (field.name,)) for field in arrow]), schema, arrow)


_project_everything = IdentityCache("whole projections", _all_columns, 16)


def _no_projections(schema: Schema) -> Cache[Hashable, Projection]:
    del schema
    return Cache("projections", _MOST_PROJECTIONS)


_projections = IdentityCache("projected schemas", _no_projections, 16)
"""What was asked of a schema: the same objects again, of which more is known than of new ones."""

_take_projections = IdentityCache("projected schemas", _no_projections, 16)
"""The same of single rows."""


def build_take_projection(
    schema: Schema,
    columns: Iterable[str] | None,
    *,
    with_row_id: bool = False,
    with_row_address: bool = False,
) -> Projection:
    """Resolve the columns of single rows, whose result schema differs from that of a scan, as in pylance.

    A nested path is returned as its struct with only that member, members of one struct together; a repeated
    column is returned once, a repeated row column repeatedly; row offsets are never null.

    Args:
        schema: Schema of the dataset.
        columns: See `build_projection`.
        with_row_id: Add `_rowid` at the end, unless present.
        with_row_address: Add `_rowaddr` at the end, unless present.

    Raises:
        InvalidArgumentError: A column does not exist.
    """
    if columns is None:
        return build_projection(schema, None, with_row_id=with_row_id, with_row_address=with_row_address)
    check_columns(columns)
    names = list(columns)
    for wanted, name in ((with_row_id, ROW_ID), (with_row_address, ROW_ADDRESS)):
        if wanted and name not in names:
            names.append(name)
    if len(names) > _FEW_COLUMNS or any(type(name) is not str for name in names):
        return _build_take(schema, names)
    return _take_projections(schema).load(tuple(names), lambda: _build_take(schema, names))


def _build_take(schema: Schema, names: Sequence[str]) -> Projection:
    asked = [_output(schema, name) for name in names]
    projected = schema.project([output.field.name for output in asked if not output.is_row_column])
    whole = {field.name: _member((field,), field.name) for field in projected.fields}
    outputs: list[OutputColumn] = []
    for output in asked:
        if output.is_row_column:
            nullable = output.field.name != ROW_OFFSET
            outputs.append(OutputColumn(output.field.with_nullable(nullable), ()))
        elif (top := whole.pop(output.path[0], None)) is not None:
            outputs.append(top)
    return Projection(
        tuple(outputs),
        projected,
        pa.schema([output.field for output in outputs], metadata=_metadata(schema.metadata)),
    )


def _output(schema: Schema, name: str) -> OutputColumn:
    if name in ROW_COLUMNS and name not in schema.names:
        return OutputColumn(row_column_field(name), ())
    line = schema.ancestry(name)
    if any(parent.logical_type != "struct" for parent in line[:-1]):
        raise InvalidArgumentError(
            f"{name!r} is inside of a list or map; only members of structs can be selected", field="columns"
        )
    return _member(line, name)


def _member(line: Sequence[Field], name: str) -> OutputColumn:
    field = line[-1].to_arrow().with_name(name)
    return OutputColumn(
        field.with_nullable(any(node.nullable for node in line)), tuple(node.name for node in line)
    )


def _metadata(metadata: Mapping[str, bytes]) -> dict[bytes, bytes] | None:
    return {key.encode(): value for key, value in metadata.items()} or None
