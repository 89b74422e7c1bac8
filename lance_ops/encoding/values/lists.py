"""Lists: the extents of the rows, and their items in sequence.

The items live in pages of their own; this module only joins and splits the two.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.values.binary import is_large
from lance_ops.encoding.values.end_offsets import Extents, narrow_offsets
from lance_ops.errors import CorruptFileError


def decode_list(
    offsets: npt.NDArray[np.int64], validity: pa.Buffer | None, items: pa.Array, data_type: pa.DataType
) -> pa.Array:
    """Build a list array over its items, which are not copied.

    Args:
        offsets: Shape (n + 1,), not decreasing; only the differences count.
        validity: Bitmap of the n rows, None if none is null.
        items: The items from `offsets[0]` to `offsets[-1]`.
        data_type: list or large_list.

    Raises:
        CorruptFileError: The number of items is not what the offsets say.
    """
    if len(items) != int(offsets[-1] - offsets[0]):
        raise CorruptFileError(f"a list column has {len(items)} items, not {int(offsets[-1] - offsets[0])}")
    buffers = [validity, narrow_offsets(offsets, large=is_large(data_type))]
    null_count = 0 if validity is None else -1
    return pa.Array.from_buffers(
        data_type, len(offsets) - 1, buffers, null_count=null_count, children=[items]
    )


def encode_list(array: pa.Array) -> tuple[Extents, pa.Array]:
    """Split a list array into the extents of its rows and its items.

    Args:
        array: list or large_list, may be a slice; items that lie under null rows are dropped.

    Returns:
        The extents, and exactly the items of the rows that are not null.
    """
    extents = Extents.of_array(array, large=is_large(array.type))
    if extents.measure() < extents.span:
        return extents, array.flatten()
    return extents, array.values.slice(int(extents.offsets[0]), extents.span)
