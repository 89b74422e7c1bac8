"""Row removal from full-zip pages: each row is a range of bytes, which is copied unchanged."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.pages.levels import visible_below
from lance_ops.encoding.values.filter_values import count_entries, gather_ranges
from lance_ops.encoding.values.variable import check_offsets
from lance_ops.errors import CorruptFileError
from lance_ops.file.v2_1.columns import parse_layers
from lance_ops.file.v2_1.compression.decode_rows import fixed_bits
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

_WIDTHS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class EntryFormat:
    """Format of an entry of a full-zip page.

    Attributes:
        control_bytes: Of the levels before a value.
        length_bytes: Of the length before a value, 0 for values of fixed width.
        value_bytes: Of a value of fixed width.
        is_repeated: True if a row can have any number of entries.
    """

    control_bytes: int
    length_bytes: int
    value_bytes: int
    is_repeated: bool

    @property
    def stride(self) -> int:
        """Bytes of a row if all rows are equally long, else 0."""
        return 0 if self.length_bytes or self.is_repeated else self.control_bytes + self.value_bytes


def entry_format(layout: pb.FullZipLayout) -> EntryFormat:
    """Read the format of entries.

    Raises:
        CorruptFileError: The widths are impossible.
        UnsupportedError: A layer or compression that is not implemented.
    """
    bits = layout.bits_rep + layout.bits_def
    if bits > 32 or layout.bits_rep > 16 or layout.bits_def > 16:
        raise CorruptFileError(
            f"levels must have at most 16 bits, got {layout.bits_rep} and {layout.bits_def}"
        )
    control_bytes = 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4
    is_repeated = any(layer.is_list for layer in parse_layers(layout.layers))
    if layout.WhichOneof("details") == "bits_per_offset":
        if layout.bits_per_offset not in (32, 64):
            raise CorruptFileError(f"lengths must have 32 or 64 bits, got {layout.bits_per_offset}")
        return EntryFormat(control_bytes, layout.bits_per_offset // 8, 0, is_repeated)
    width = fixed_bits(layout.value_compression)
    if layout.bits_per_value != width or width % 8:
        raise CorruptFileError(f"full-zip values must have whole bytes, got {layout.bits_per_value} bits")
    return EntryFormat(control_bytes, 0, width // 8, is_repeated)


def decode_row_index(data: Bytes, num_rows: int, limit: int) -> Integers:
    """Decode the start of each row, with the end of the last.

    Args:
        data: The second buffer of a page.
        num_rows: Of the page.
        limit: Bytes of all rows.

    Raises:
        CorruptFileError: The index has another number of rows, or positions outside of the page.
    """
    width, rest = divmod(len(data), num_rows + 1)
    if rest or width not in _WIDTHS:
        raise CorruptFileError(f"an index of {len(data)} bytes does not match {num_rows} rows")
    starts = np.frombuffer(data.tobytes(), dtype=f"<u{width}").astype(np.int64)
    check_offsets(starts, limit)
    return starts


def encode_row_index(starts: Integers) -> Bytes:
    """Encode the index in the smallest width that fits."""
    bits = int(starts[-1]).bit_length()
    width = next(width for width in _WIDTHS if bits <= 8 * width)
    return starts.astype(f"<u{width}").view(np.uint8)


def keep_rows(
    layout: pb.FullZipLayout, rows: Bytes, index: Bytes, keep: npt.NDArray[np.bool_]
) -> tuple[pb.FullZipLayout, Integers, Integers, Bytes]:
    """Return which bytes of a page with an index are kept.

    Args:
        layout: Of the page.
        rows: Its entries.
        index: Starts of its rows.
        keep: The kept rows, at least one.

    Returns:
        The layout, starts and ends of the kept ranges of entries, and the index.

    Raises:
        CorruptFileError: The bytes do not match the layout.
    """
    form = entry_format(layout)
    starts = decode_row_index(index, len(keep), len(rows))
    removed = ~keep
    visible = visible_below(parse_layers(layout.layers))
    # The removed part is usually smaller, and the index does not record the number of entries.
    entries, shown = count_entries(
        rows,
        starts[:-1][removed],
        starts[1:][removed],
        control_bytes=form.control_bytes,
        def_bits=layout.bits_def,
        length_bytes=form.length_bytes,
        value_bytes=form.value_bytes,
        visible_below=visible,
    )
    kept = pb.FullZipLayout()
    kept.CopyFrom(layout)
    # No reader depends on these.
    kept.num_items = max(layout.num_items - entries, 0)
    kept.num_visible_items = max(layout.num_visible_items - shown, 0)
    lengths = np.diff(starts)[keep]
    new_starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=new_starts[1:])
    edges = np.flatnonzero(np.diff(keep.astype(np.int8), prepend=0, append=0))
    return kept, starts[edges[0::2]], starts[edges[1::2]], encode_row_index(new_starts)


def keep_full_zip(
    layout: pb.FullZipLayout, buffers: list[Bytes], keep: npt.NDArray[np.bool_]
) -> tuple[pb.FullZipLayout, tuple[Bytes, ...]]:
    """Drop rows from a full-zip page."""
    if len(buffers) < 2:
        raise CorruptFileError("a full-zip page has no index")
    kept, starts, stops, index = keep_rows(layout, buffers[0], buffers[1], keep)
    return kept, (gather_ranges(buffers[0], starts, stops), index)
