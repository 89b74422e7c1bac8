"""Reader of blob pages, which have the position of each value in the file."""

import numpy as np
import pyarrow as pa

from lance_ops.encoding.values.binary import decode_binary, is_binary_like
from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.io.fetch import Request, Steps
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType, build_piece
from lance_ops.file.v2_1.columns import LayoutPage, parse_layers
from lance_ops.pb import encodings21_pb2 as pb

DESCRIPTION = pa.struct([pa.field("position", pa.uint64()), pa.field("size", pa.uint64())])
"""Struct in the pages."""

LEVEL_BITS = 16
"""Bits of the position of a null that hold its repetition level; the definition level is above."""


def read_blobs(
    page: LayoutPage, layout: pb.BlobLayout, leaf: LeafType, described: ColumnRows
) -> Steps[ColumnRows]:
    """Fetch the values of rows.

    Args:
        page: The page.
        layout: Of the page.
        leaf: What the column holds.
        described: Positions and sizes of the rows, without nulls.
    """
    layers = parse_layers(layout.layers)
    leaf.check(layers)
    if leaf.is_repeated or leaf.span > 1:
        raise UnsupportedError("blobs within lists are not supported")
    if not is_binary_like(leaf.data_type):
        raise CorruptFileError(f"values outside of their page must be binary, got {leaf.data_type}")
    values = described.values
    positions, sizes = (values.field(number).to_numpy().astype(np.int64) for number in (0, 1))
    # Without a size, position 0 is the empty value, and anything else holds the levels of a null.
    levels = np.where((sizes == 0) & (positions != 0), positions >> LEVEL_BITS, 0)
    if bool((sizes < 0).any()) or int(sizes.sum()) > page.file_size:
        raise CorruptFileError("values overlap each other")
    if bool(((positions < 0) | (positions + sizes > page.file_size))[sizes > 0].any()):
        raise CorruptFileError("a value is outside of the file")
    requests: list[Request] = [
        (position, size) for position, size in zip(positions.tolist(), sizes.tolist(), strict=True) if size
    ]
    found = yield requests
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    array = decode_binary(offsets, None, pa.py_buffer(b"".join(found)), leaf.data_type)
    definition = (levels & 0xFFFF).astype(np.uint16)
    return build_piece(leaf, layers, None, definition if definition.any() else None, len(sizes), array)
