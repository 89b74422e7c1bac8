"""Fixed-size lists: the items of all rows one after the other, also those under null rows."""

import pyarrow as pa

from lance_ops.errors import CorruptFileError


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
    """The items of an array, also those under null rows; zero-copy.

    Args:
        array: May be a slice.
    """
    size = array.type.list_size
    return array.values.slice(array.offset * size, len(array) * size)
