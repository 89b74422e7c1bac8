"""The order of an ordered index: nulls first, then ascending, floats by the IEEE total order (NaN last).

Arrow's own sort puts NaN beside the nulls; a search of the peer in pages so ordered would lose rows.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_SIGNED = {2: np.int16, 4: np.int32, 8: np.int64}


def sort_order(values: pa.Array) -> npt.NDArray[np.int64]:
    """Positions of `values` in index order, int64, as many as values. Equal values come in any order.

    Args:
        values: Any type Arrow can sort, and floats.
    """
    if not _sorts_as_number(values.type):
        ordered = pc.array_sort_indices(values, order="ascending", null_placement="at_start")
        return np.asarray(ordered.to_numpy(zero_copy_only=False), dtype=np.int64)
    valid = np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
    positions = np.flatnonzero(valid)
    keys = _keys(values.drop_null())
    return np.concatenate([np.flatnonzero(~valid), positions[np.argsort(keys)]])


def _sorts_as_number(arrow_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(arrow_type)
        or pa.types.is_floating(arrow_type)
        or pa.types.is_date(arrow_type)
        or pa.types.is_time(arrow_type)
        or pa.types.is_timestamp(arrow_type)
        or pa.types.is_duration(arrow_type)
    )


def _keys(values: pa.Array) -> npt.NDArray[np.generic]:
    """Numbers that compare as the values do."""
    width = values.type.bit_width // 8
    if pa.types.is_floating(values.type):
        bits = np.asarray(values.to_numpy(zero_copy_only=False)).view(_SIGNED[width])
        # Below zero the magnitude counts downwards: flipping all but the sign makes the bits ascend.
        keys: npt.NDArray[np.generic] = bits ^ ((bits >> (8 * width - 1)) & np.iinfo(bits.dtype).max)
        return keys
    if pa.types.is_integer(values.type):
        return np.asarray(values.to_numpy(zero_copy_only=False))
    return np.asarray(values.view(pa.int32() if width == 4 else pa.int64()).to_numpy(zero_copy_only=False))
