"""Rows of several fields of a file as a table."""

from collections.abc import Callable, Mapping

import pyarrow as pa

from lance_ops.errors import CorruptFileError
from lance_ops.file.fetch import Request, gather, run
from lance_ops.file.layout import ColumnSource, Layout
from lance_ops.file.prepared_schema import PreparedSchema
from lance_ops.file.row_selection import RowSelection


def read_fields(
    source: ColumnSource,
    layout: Layout,
    prepared: PreparedSchema,
    columns: Mapping[int, int],
    rows: RowSelection,
    read_ranges: Callable[[list[Request]], list[pa.Buffer]],
) -> pa.Table:
    """Read rows of the fields of a schema.

    Args:
        source: The columns.
        layout: Of the storage version.
        prepared: The fields.
        columns: Physical column of each field id; fields without one are null.
        rows: Which rows.
        read_ranges: Fetches bytes of the file.

    Raises:
        CorruptFileError: The file is damaged.
        UnsupportedError: A column uses an encoding that is not implemented.
    """
    fields, arrow = prepared.schema.fields, prepared.arrow
    parts = run(gather([layout.read_field(source, field, columns, rows) for field in fields]), read_ranges)
    arrays = []
    for chunks, field, data_type in zip(parts, fields, arrow.types, strict=True):
        column = pa.chunked_array(chunks, type=data_type)
        if len(column) != rows.count:
            raise CorruptFileError(
                f"{rows.count} rows are expected, but there are {len(column)}",
                path=source.path,
                field=field.name,
            )
        arrays.append(column)
    return pa.Table.from_arrays(arrays, schema=arrow)
