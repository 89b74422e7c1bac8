"""Does incoming data fit the schema of a dataset, and how is it brought into shape."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, SchemaMismatchError, UnsupportedTypeError
from lance_ops.file.schema import Field, Schema
from lance_ops.table.columns import assemble, forbidden_nulls


def check_compatible(schema: Schema, incoming: pa.Schema, *, path: str | None = None) -> Schema:
    """Check data that is to be appended, and say which fields of the dataset it brings.

    Columns are matched by name, in any order, and so are members of structs. Nullable ones may be missing:
    they read as null. A nullable column may go into a required one; `conform` then checks the values.

    Args:
        schema: Schema of the dataset.
        incoming: Schema of the data.
        path: URI of the dataset, for the error.

    Returns:
        The part of `schema` that the data fill, in the order of the dataset.

    Raises:
        SchemaMismatchError: It lists every difference.
    """
    try:
        offered = Schema.from_arrow(incoming)
    except (UnsupportedTypeError, InvalidArgumentError) as error:
        raise SchemaMismatchError("the data do not fit the dataset", [error.message], path=path) from error
    mismatches = list(_compare(schema.fields, offered.fields, ""))
    if mismatches:
        raise SchemaMismatchError("the data do not fit the dataset", mismatches, path=path)
    return Schema(tuple(_present(schema.fields, offered.fields)), schema.metadata)


def conform(batch: pa.RecordBatch | pa.Table, schema: Schema, *, path: str | None = None) -> pa.RecordBatch:
    """Bring data that passed `check_compatible` into the order and the types of a schema.

    Args:
        batch: Data whose columns include those of `schema`.
        schema: What `check_compatible` returned.
        path: URI of the dataset, for the error.

    Raises:
        SchemaMismatchError: There are nulls in required columns; it lists all of them.
    """
    target = schema.to_arrow()
    columns = []
    problems: list[str] = []
    for field in target:
        column = batch.column(field.name)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        column = assemble(field.type, [column], batch.num_rows)
        problems += [
            f"{name}: {count} nulls in a required column" for name, count in forbidden_nulls(field, column)
        ]
        columns.append(column)
    if problems:
        raise SchemaMismatchError("the data do not fit the dataset", problems, path=path)
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _compare(expected: Iterable[Field], offered: Iterable[Field], prefix: str) -> Iterator[str]:
    by_name = {field.name: field for field in offered}
    for field in expected:
        path = prefix + field.name
        other = by_name.pop(field.name, None)
        if other is None:
            if not field.nullable:
                yield f"{path}: missing, and it is required ({_describe(field)})"
        elif other.logical_type != field.logical_type:
            yield f"{path}: expected {_describe(field)}, found {_describe(other)}"
        else:
            yield from _compare(field.children, other.children, f"{path}.")
    for name, other in by_name.items():
        yield f"{prefix}{name}: not in the dataset ({_describe(other)})"


def _describe(field: Field) -> str:
    try:
        return str(field.arrow_type)
    except UnsupportedTypeError:
        return field.logical_type


def _present(expected: Iterable[Field], offered: Iterable[Field]) -> Iterator[Field]:
    by_name = {field.name: field for field in offered}
    for field in expected:
        other = by_name.get(field.name)
        if other is not None:
            yield replace(field, children=tuple(_present(field.children, other.children)))
