"""Constant columns: columns whose page description has one value, or null, for all rows.

Most columns of files with few rows are constant. Wide tables have thousands of them, where the fixed cost per
column dominates: only the array is built here. All other pages, and damaged ones, are left to the page
reader, which reports errors.
"""

from functools import lru_cache

import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_ops.encoding.values.values import null_array
from lance_ops.errors import UnsupportedTypeError
from lance_ops.file.io.row_selection import RowSelection
from lance_ops.file.schema.logical_types import EXTENSION_NAME_KEY, JSON_TYPE, decode_logical_type
from lance_ops.file.schema.model import Field
from lance_ops.file.v2_1.columns import PAGE_LAYOUT_URL
from lance_ops.pb import encodings21_pb2 as pb
from lance_ops.pb import file2_pb2

# Longer descriptions have buffers, or many pages.
_MAX_BYTES = 256
# More is better repeated where it takes no memory twice.
_MAX_REPEATED = 1 << 16
_MAX_ROWS = 2**31 - 1
# Any byte string is at an address that suits values up to here.
_MAX_WIDTH = 8
# How a page's encoding begins: a message of another name and of less than 128 bytes, its length right behind.
_PREFIX = bytes([0x0A, len(PAGE_LAYOUT_URL)]) + PAGE_LAYOUT_URL.encode() + b"\x12"
_VALID = [pb.REPDEF_ALL_VALID_ITEM]
_NULL = [pb.REPDEF_NULLABLE_ITEM]


def read_told_column(description: bytes, field: Field, rows: RowSelection) -> pa.Array | None:
    """Return rows of a column, of its description alone.

    Args:
        description: The metadata message of the column.
        field: A field without children that has the column.
        rows: Which rows.

    Returns:
        The rows; None when their bytes have to be read, or when anything is unusual.
    """
    if len(description) > _MAX_BYTES or field.extension_name or EXTENSION_NAME_KEY in field.metadata:
        return None
    kind = told_type(field.logical_type)
    if kind is None:
        return None
    data_type, width = kind
    count = rows.count
    if count * width > _MAX_REPEATED:
        return None
    layout = _layout_of(description, rows.stop)
    if layout is None:
        return None
    layers = layout.layers
    if layout.HasField("inline_value"):
        value = layout.inline_value
        if len(value) != width or layers != _VALID:
            return None
        return pa.Array.from_buffers(data_type, count, [None, pa.py_buffer(value * count)], null_count=0)
    return null_array(data_type, count) if layers == _NULL else None


def _layout_of(description: bytes, stop: int) -> pb.ConstantLayout | None:
    """Return the layout of the only page of a column, if it has no buffers and enough rows."""
    try:
        column = file2_pb2.ColumnMetadata.FromString(description)
        if len(column.pages) != 1 or column.buffer_offsets or column.buffer_sizes:
            return None
        page = column.pages[0]
        if page.buffer_offsets or page.buffer_sizes or not stop <= page.length <= _MAX_ROWS:
            return None
        encoding = page.encoding.direct.encoding
        size = len(encoding) - len(_PREFIX) - 1
        if not encoding.startswith(_PREFIX) or not 0 <= size < 128 or encoding[len(_PREFIX)] != size:
            return None
        layout = pb.PageLayout.FromString(encoding[len(_PREFIX) + 1 :])
    except DecodeError:
        return None
    return layout.constant_layout if layout.WhichOneof("layout") == "constant_layout" else None


@lru_cache(maxsize=256)
def told_type(logical_type: str) -> tuple[pa.DataType, int] | None:
    """Arrow type and bytes of the values that a page's description can hold; None for other types."""
    if logical_type == JSON_TYPE:
        return None
    try:
        data_type = decode_logical_type(logical_type)
    except UnsupportedTypeError:
        return None
    types = pa.types
    if not types.is_primitive(data_type) or types.is_boolean(data_type):
        return None
    width = data_type.bit_width // 8
    return (data_type, width) if width <= _MAX_WIDTH else None
