"""Random access to full-zip pages: scattered rows of plain values in all pages of a column."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lance_ops.errors import CorruptFileError, UnsupportedError
from lance_ops.file.io.extents import fetch_extents, gather_fixed
from lance_ops.file.io.fetch import Steps
from lance_ops.file.io.row_selection import Integers
from lance_ops.file.v2_1.column_rows import ColumnRows, LeafType, build_piece, leaf_array
from lance_ops.file.v2_1.columns import LayoutPage, parse_layers
from lance_ops.file.v2_1.compression.decode_rows import as_bytes, decode_fixed_rows, fixed_bits
from lance_ops.pb import encodings21_pb2 as pb

_MOST_PAGES = 1 << 12


@dataclass(frozen=True, slots=True, eq=False)
class ZippedColumn:
    """Pages of a column with individually stored values of equal width, without nulls.

    Attributes:
        layout: Of the first page; the others differ in only their numbers.
        stride: Bytes of a value.
        starts: First row of each page.
        positions: First byte of each.
    """

    layout: pb.FullZipLayout
    stride: int
    starts: Integers
    positions: Integers

    @property
    def size(self) -> int:
        """About the bytes it takes."""
        return 512 + self.starts.nbytes + self.positions.nbytes


def find_zipped(pages: Sequence[LayoutPage], leaf: LeafType) -> ZippedColumn | None:
    """Return the pages of a column together; None where they are not so, or are to be read page by page."""
    if leaf.is_repeated or leaf.span > 1 or not 0 < len(pages) <= _MOST_PAGES:
        return None
    first: pb.FullZipLayout | None = None
    for page in pages:
        layout = page.layout.full_zip_layout
        if (
            page.layout.WhichOneof("layout") != "full_zip_layout"
            or layout.WhichOneof("details") != "bits_per_value"
        ):
            return None
        first = layout if first is None else first
        alike = layout is first or (layout.bits_per_value, layout.layers, layout.value_compression) == (
            first.bits_per_value,
            first.layers,
            first.value_compression,
        )
        if layout.bits_rep or layout.bits_def or not alike:
            return None
    assert first is not None
    try:
        bits = fixed_bits(first.value_compression)
        places = [page.buffer(0) for page in pages]
    except (CorruptFileError, UnsupportedError):
        return None
    stride, rest = divmod(bits, 8)
    sizes = [page.length * stride for page in pages]
    # Errors are reported by the page by page reader.
    if rest or not stride or bits != first.bits_per_value or sizes != [size for _, size in places]:
        return None
    starts = np.array([page.start for page in pages], dtype=np.int64)
    return ZippedColumn(first, stride, starts, np.array([place for place, _ in places], dtype=np.int64))


def take_zipped(column: ZippedColumn, leaf: LeafType, rows: Integers, gap: int) -> Steps[ColumnRows]:
    """Read single rows.

    Args:
        column: The pages.
        leaf: What their column holds.
        rows: Their numbers in the column, ascending, all of them there.
        gap: Bytes that may be read for nothing.

    Raises:
        CorruptFileError: The values are not of the column's type.
    """
    layers = parse_layers(column.layout.layers)
    leaf.check(layers)
    pages = np.searchsorted(column.starts, rows, side="right") - 1
    starts = column.positions[pages] + (rows - column.starts[pages]) * column.stride
    data, found = yield from fetch_extents(starts, starts + column.stride, gap)
    values = gather_fixed(as_bytes(data), found, column.stride)
    fixed = decode_fixed_rows(column.layout.value_compression, values, len(rows))
    return build_piece(leaf, layers, None, None, len(rows), leaf_array(fixed, leaf.data_type))
