"""Schema conformance: reorder and cast data to the schema of a dataset."""

import pyarrow as pa

from lance_ops.errors import SchemaMismatchError
from lance_ops.file.schema.model import Schema
from lance_ops.file.schema.prepared import prepare_schema
from lance_ops.table.assemble import as_it_is, assemble, forbidden_nulls


def conform(batch: pa.RecordBatch | pa.Table, schema: Schema, *, path: str | None = None) -> pa.RecordBatch:
    """Reorder and cast compatible data to a schema.

    Args:
        batch: Data whose columns include those of `schema`.
        schema: The part of the dataset's schema that the data have.
        path: URI of the dataset, for the error.

    Raises:
        SchemaMismatchError: There are nulls in required columns; it lists all of them.
    """
    target = prepare_schema(schema).arrow
    ready = as_it_is(batch, target) if isinstance(batch, pa.RecordBatch) else None
    if ready is not None:
        return ready
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
        raise SchemaMismatchError("the data do not match the schema of the dataset", problems, path=path)
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=target)
