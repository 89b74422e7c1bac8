"""Single rows: the only row of a file, whose values are stored in page descriptions.

Wide tables with single-row appends have thousands of such pages. Columns of one type are encoded together,
with the same result as `encode_page`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from lance_ops.file.container.read import Encoding
from lance_ops.file.v2_1.columns import PAGE_LAYOUT_URL
from lance_ops.file.v2_1.leaf_plan import ToldGroup
from lance_ops.pb import encodings21_pb2 as pb

_NULL = Encoding(
    PAGE_LAYOUT_URL,
    pb.PageLayout(constant_layout=pb.ConstantLayout(layers=[pb.REPDEF_NULLABLE_ITEM])).SerializeToString(),
)


@dataclass(frozen=True, slots=True)
class SingleRow:
    """Values of the columns of some groups.

    Attributes:
        groups: The groups.
        values: One array for each, with a value for each of its columns.
    """

    groups: tuple[ToldGroup, ...]
    values: tuple[pa.Array, ...]

    @property
    def nbytes(self) -> int:
        """Return the memory of the values."""
        return sum(array.nbytes for array in self.values)

    def tops(self) -> Iterator[tuple[int, pa.Array]]:
        """Yield each top-level field by its number, and its row."""
        for group, values in zip(self.groups, self.values, strict=True):
            for place, number in enumerate(group.tops):
                yield number, values.slice(place, 1)

    def describe(self) -> Iterator[tuple[int, Encoding]]:
        """Yield each physical column, and how its only page is encoded."""
        for group, values in zip(self.groups, self.values, strict=True):
            width = group.width
            head, tail = _around(width)
            data = values.buffers()[1].slice(values.offset * width, len(values) * width).to_pybytes()
            valid = np.asarray(values.is_valid()).tolist()
            for place, column in enumerate(group.columns):
                if valid[place]:
                    value = data[place * width : (place + 1) * width]
                    yield column, Encoding(PAGE_LAYOUT_URL, b"".join((head, value, tail)))
                else:
                    yield column, _NULL


def hold_row(groups: Sequence[ToldGroup], arrays: Sequence[pa.Array]) -> SingleRow | None:
    """Return the values of a row, copied.

    Args:
        groups: Of the schema.
        arrays: The row: of each top-level field an array of one value or null.

    Returns:
        The values; None where one is not as the schema wants it.
    """
    held = []
    for group in groups:
        mine = [arrays[number] for number in group.tops]
        if any(array.type != group.data_type for array in mine):
            return None
        values = pa.concat_arrays([*mine, mine[0].slice(0, 0)])
        if values.null_count and bool(np.any(np.asarray(values.is_null()) & np.asarray(group.required))):
            return None
        held.append(values)
    return SingleRow(tuple(groups), tuple(held))


@lru_cache(maxsize=16)
def _around(width: int) -> tuple[bytes, bytes]:
    """Return the bytes before and after a value in the layout of its page."""
    first, second = (_layout(bytes([byte]) * width) for byte in (0, 255))
    start = next(place for place, (one, other) in enumerate(zip(first, second, strict=True)) if one != other)
    return first[:start], first[start + width :]


def _layout(value: bytes) -> bytes:
    layout = pb.ConstantLayout(layers=[pb.REPDEF_ALL_VALID_ITEM], inline_value=value)
    return pb.PageLayout(constant_layout=layout).SerializeToString()
