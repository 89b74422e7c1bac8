"""Tables of fields: read rows of several fields of a file."""

from collections.abc import Callable, Mapping

import pyarrow as pa

from lance_ops.errors import CorruptFileError
from lance_ops.file.io.fetch import Request, run
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.layout import ColumnSource, Layout
from lance_ops.file.schema.prepared import PreparedSchema


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
        rows: The rows.
        read_ranges: Fetches bytes of the file.

    Raises:
        CorruptFileError: The file is damaged.
        UnsupportedError: A column uses an encoding that is not implemented.
    """
    fields, arrow = prepared.schema.fields, prepared.arrow
    arrays: list[pa.Array | pa.ChunkedArray] = [
        layout.read_told(source, field, columns, rows) for field in fields
    ]
    rest = [number for number, array in enumerate(arrays) if array is None]
    if not rest:
        return pa.Table.from_arrays(arrays, schema=arrow)
    steps = layout.read_fields(source, [fields[number] for number in rest], columns, rows)
    for number, chunks in zip(rest, run(steps, read_ranges), strict=True):
        field = fields[number]
        column = pa.chunked_array(chunks, type=arrow.field(number).type)
        if len(column) != rows.count:
            raise CorruptFileError(
                f"row count does not match (expected {rows.count}, got {len(column)})",
                path=source.path,
                field=field.name,
            )
        arrays[number] = column
    return pa.Table.from_arrays(arrays, schema=arrow)
