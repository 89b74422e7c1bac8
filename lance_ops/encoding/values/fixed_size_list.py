"""Fixed-size lists: the items of all rows in sequence, also those under null rows."""

import pyarrow as pa

from lance_ops.errors import CorruptFileError

_FEW_COLUMNS = 16


def decode_fixed_size_list(items: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Group items into rows without copying them.

    Args:
        items: A multiple of the list size.
        data_type: The fixed-size list type.

    Raises:
        CorruptFileError: The last row would not be full.
    """
    length, rest = divmod(len(items), data_type.list_size)
    if rest:
        raise CorruptFileError(f"{len(items)} items do not make rows of {data_type.list_size}")
    return pa.Array.from_buffers(data_type, length, [None], null_count=0, children=[items])


def encode_fixed_size_list(array: pa.Array) -> pa.Array:
    """Return the items of an array, also those under null rows; zero-copy.

    Args:
        array: May be a slice.
    """
    size = array.type.list_size
    return array.values.slice(array.offset * size, len(array) * size)


def contains_nested(data_type: pa.DataType) -> bool:
    """Return whether a type has a fixed-size list of fixed-size lists at any depth."""
    if pa.types.is_fixed_size_list(data_type) and pa.types.is_fixed_size_list(data_type.value_type):
        return True
    if not pa.types.is_nested(data_type):
        return False
    return any(contains_nested(data_type.field(number).type) for number in range(data_type.num_fields))


def rebase_nested(array: pa.Array) -> pa.Array:
    """Copy nested fixed-size lists into an array without offsets; other arrays pass through.

    Arrow's take and filter return wrong rows for nested fixed-size lists with an offset at any depth (seen in
    26.0).
    """
    if not contains_nested(array.type):
        return array
    return pa.concat_arrays([array, array.slice(0, 0)])


def filter_rows(table: pa.Table, keep: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The rows of a table where a mask is true; see `rebase_nested` for what Arrow's filter does instead.

    Columns that are cut into chunks differently get offsets within Arrow's filter, even if none had one.
    """
    if not any(contains_nested(data_type) for data_type in table.schema.types):
        return table.filter(keep)
    mask = keep.combine_chunks() if isinstance(keep, pa.ChunkedArray) else keep
    columns = [_without_offsets(column).filter(mask) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def rearrange_rows(table: pa.Table, positions: pa.Array) -> pa.Table:
    """Return the rows of a table at some positions; Arrow's take differs, see `rebase_nested`."""
    columns = table.columns
    if not any(contains_nested(column.type) for column in columns):
        if len(columns) > _FEW_COLUMNS or any(column.num_chunks != 1 for column in columns):
            return table.take(positions)
        # Of few rows, most of what a table's own take costs is spent on their chunks.
        return pa.Table.from_arrays(
            [column.chunk(0).take(positions) for column in columns], schema=table.schema
        )
    columns = [_without_offsets(column).take(positions) for column in columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _without_offsets(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if not contains_nested(column.type) or not column.num_chunks:
        return column
    return pa.concat_arrays([*column.chunks, column.chunk(0).slice(0, 0)])
