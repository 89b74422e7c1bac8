"""Lists: the extents of the rows, and their items one after the other.

The items live in pages of their own; this module only joins and splits the two.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.binary import is_large
from lance_ops.encoding.end_offsets import narrow_offsets
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


def encode_list(
    array: pa.Array,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_] | None, pa.Array]:
    """Split a list array into lengths, validity and items.

    Args:
        array: list or large_list, may be a slice; items that lie under null rows are dropped.

    Returns:
        Lengths (0 for null rows), validity (None if no row is null), and exactly the items of the valid rows.
    """
    valid = None if array.null_count == 0 else np.asarray(array.is_valid())
    offsets = array.offsets.to_numpy().astype(np.int64, copy=False)
    lengths = np.diff(offsets)
    if len(offsets) < 2:
        return lengths, valid, array.values.slice(0, 0)
    if valid is not None and bool(lengths[~valid].any()):
        return np.where(valid, lengths, 0), valid, array.flatten()
    return lengths, valid, array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
