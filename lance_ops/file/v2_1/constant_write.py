"""Writing constant pages: pages of nulls, and since 2.2 pages of one value that is repeated."""

import struct

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.levels import Levels
from lance_ops.encoding.ravel import Raveled
from lance_ops.encoding.values import Fixed, Values, Variable, as_bits, as_bytes
from lance_ops.file.v2_1.columns import layer_codes
from lance_ops.file.v2_1.compress_levels import compress_level_block
from lance_ops.file.v2_1.compressed import EncodedPage
from lance_ops.pb import encodings21_pb2 as pb

Bytes = npt.NDArray[np.uint8]

_MAX_INLINE_BYTES = 32
# Longer values are seldom equal, and dictionaries hold them as well.
_MAX_STORED_BYTES = 1 << 20
_FIRST_VALUES = 4096


def is_all_null(raveled: Raveled) -> bool:
    """Whether no entry has a value that is not null."""
    if raveled.definition is None:
        return raveled.num_entries == 0
    return not bool((raveled.definition == 0).any())


def encode_null_page(raveled: Raveled, version: str) -> EncodedPage:
    """Build a page without any value.

    Args:
        raveled: Its levels.
        version: "2.1" or "2.2".
    """
    if raveled.rep is None and len(raveled.layers) == 1:
        return encode_empty_page(raveled)
    layout = pb.ConstantLayout(layers=layer_codes(raveled.layers))
    return _page(layout, _levels(layout, raveled, version), raveled)


def encode_empty_page(raveled: Raveled) -> EncodedPage:
    """Build a page that says nothing but its length: of nulls at the top, or of empty structs anywhere."""
    layout = pb.ConstantLayout(layers=[pb.REPDEF_NULLABLE_ITEM])
    return _page(layout, (), raveled)


def encode_constant_page(raveled: Raveled, value: "Constant") -> EncodedPage:
    """Build a page of one value.

    Args:
        raveled: Its levels, which stay plain: beside a value, readers know no others.
        value: As `find_constant` found it.
    """
    layout = pb.ConstantLayout(layers=layer_codes(raveled.layers))
    buffers: tuple[Bytes, ...] = ()
    if value.inline is not None:
        layout.inline_value = value.inline
    else:
        buffers = (value.stored,)
    if raveled.rep is not None or raveled.definition is not None:
        buffers += (_plain(raveled.rep), _plain(raveled.definition))
    return _page(layout, buffers, raveled)


class Constant:
    """The value of a constant page.

    Args:
        parts: Its Arrow buffers.
        fits_inline: Whether it can stand in the description of the page.
    """

    def __init__(self, parts: tuple[bytes, ...], *, fits_inline: bool) -> None:
        self.inline = parts[0] if fits_inline else None
        sizes = struct.pack(f"<{len(parts) + 1}I", len(parts), *map(len, parts))
        self.stored = np.frombuffer(sizes + b"".join(parts), dtype=np.uint8)
        self._last = parts[-1]

    def repeat(self, values: Fixed) -> Fixed:
        """Values that are this one also where they were null."""
        if values.bits == 1:
            return Fixed(1, values.length, np.full(values.length, self._last != b"\x00"))
        one = np.frombuffer(self._last, dtype=np.uint8)
        return Fixed(values.bits, values.length, np.tile(one, values.length))


def find_constant(raveled: Raveled, values: Values, width: int) -> Constant | None:
    """The value that all values are, None if they differ.

    Args:
        raveled: Says which of the values are null and do not count.
        values: The values.
        width: Bits of an offset, for values of variable width.
    """
    if not isinstance(values, Fixed | Variable) or values.length == 0:
        return None
    if raveled.null is None:
        return _find_constant(values, None, width)
    # Most columns differ early, and nothing else is then looked at.
    for count in (_FIRST_VALUES, values.length):
        present = np.flatnonzero(~raveled.null[:count])
        found = _find_constant(values, present, width) if len(present) else None
        if count >= values.length or (len(present) and found is None):
            return found
    return None


def _find_constant(
    values: Fixed | Variable, present: npt.NDArray[np.int64] | None, width: int
) -> Constant | None:
    if isinstance(values, Fixed):
        return _constant_fixed(values, present)
    return _constant_variable(values, present, width)


def _constant_fixed(values: Fixed, present: npt.NDArray[np.int64] | None) -> Constant | None:
    if values.bits == 1:
        flags = np.unpackbits(as_bits(values), count=values.length, bitorder="little")
        found = flags if present is None else flags[present]
        return Constant((bytes([int(found[0])]),), fits_inline=True) if _all_equal(found) else None
    width = values.bits // 8
    if width > _MAX_STORED_BYTES:
        return None
    data = as_bytes(values)
    rows = data.view(f"<u{width}") if width in (1, 2, 4, 8) else data.reshape(values.length, width)
    first = rows[0 if present is None else present[0]]
    if not _all_equal(rows if present is None else rows[present[:64]]):
        return None
    if present is not None and not _all_equal(rows[present]):
        return None
    return Constant((first.tobytes(),), fits_inline=width <= _MAX_INLINE_BYTES)


def _all_equal(rows: npt.NDArray[np.generic]) -> bool:
    # Most columns differ early, and nothing else is then looked at.
    return bool((rows[:64] == rows[0]).all()) and bool((rows == rows[0]).all())


def _constant_variable(
    values: Variable, present: npt.NDArray[np.int64] | None, width: int
) -> Constant | None:
    starts = values.offsets[:-1] - values.offsets[0]
    lengths = np.diff(values.offsets)
    if present is not None:
        starts, lengths = starts[present], lengths[present]
    if int(lengths[0]) > _MAX_STORED_BYTES or not _all_equal(lengths):
        return None
    size = int(lengths[0])
    data = np.frombuffer(values.data, dtype=np.uint8)
    value = data[int(starts[0]) : int(starts[0]) + size]
    # Null slots have no bytes, so that the others lie one after the other.
    rows = data[: size * len(lengths)].reshape(len(lengths), size)
    if size and not (len(data) >= size * len(lengths) and _all_equal(rows)):
        return None
    offsets = np.array([0, size], dtype=f"<i{width // 8}").tobytes()
    return Constant((offsets, value.tobytes()), fits_inline=False)


def _levels(layout: pb.ConstantLayout, raveled: Raveled, version: str) -> tuple[Bytes, Bytes]:
    parts = []
    for which, levels in (("rep", raveled.rep), ("def", raveled.definition)):
        if levels is None or version == "2.1":
            # The first readers of 2.1 know plain levels only.
            parts.append(_plain(levels))
        else:
            block = compress_level_block(levels, version)
            getattr(layout, f"{which}_compression").CopyFrom(block.encoding)
            setattr(layout, f"num_{which}_values", block.count)
            parts.append(block.data)
    return parts[0], parts[1]


def _plain(levels: Levels | None) -> Bytes:
    if levels is None:
        return np.empty(0, dtype=np.uint8)
    return np.ascontiguousarray(levels, dtype="<u2").view(np.uint8)


def _page(layout: pb.ConstantLayout, buffers: tuple[Bytes, ...], raveled: Raveled) -> EncodedPage:
    return EncodedPage(pb.PageLayout(constant_layout=layout), buffers, raveled.num_rows)
