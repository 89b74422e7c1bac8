"""The order of an ordered index: nulls first, then ascending, floats by the IEEE total order (NaN last).

Arrow's own sort puts NaN beside the nulls; a search of pylance in pages so ordered would lose rows.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_ops.encoding.arrow_arrays import from_numpy, to_numpy

_SAMPLE = 1 << 16
_MANY = 1 << 12
_DIGIT_BITS, _MOST_BITS = 16, 32

_SIGNED = {2: np.int16, 4: np.int32, 8: np.int64}


def sort_order(values: pa.Array, *, in_runs: bool = False) -> npt.NDArray[np.int64]:
    """Return positions of `values` in index order, int64, as many as values. Equal values are in any order.

    Args:
        values: Any type Arrow can sort, and floats.
        in_runs: True if they are a few runs in order, in sequence.
    """
    if _sorts_as_number(values.type):
        keys = _keys(values.drop_null())
    elif _repeats(values):
        keys = _ranks(values.drop_null())
    else:
        ordered = pc.array_sort_indices(values, order="ascending", null_placement="at_start")
        return to_numpy(ordered).astype(np.int64)
    if values.null_count == 0:
        return _argsort(keys, in_runs=in_runs)
    valid = np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
    return np.concatenate([np.flatnonzero(~valid), np.flatnonzero(valid)[_argsort(keys, in_runs=in_runs)]])


def _argsort(keys: npt.NDArray[np.generic], *, in_runs: bool) -> npt.NDArray[np.int64]:
    """Return the result of `np.argsort` by the fastest method for these keys."""
    if in_runs:
        # It finds them.
        return np.argsort(keys, kind="stable")
    if len(keys) < _MANY:
        return np.argsort(keys)
    low, high = int(keys.min()), int(keys.max())
    width = (high - low).bit_length()
    if width > _MOST_BITS:
        return np.argsort(keys)
    # Digit by digit, for which numpy has a sort in linear time. Differences wrap around, and are right then.
    rest = (keys.astype(np.uint64) - np.uint64(low & 0xFFFF_FFFF_FFFF_FFFF)).astype(np.uint32)
    order = np.argsort(rest.astype(np.uint16), kind="stable")
    if width > _DIGIT_BITS:
        digits = (rest >> np.uint32(_DIGIT_BITS)).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def _sorts_as_number(arrow_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(arrow_type)
        or pa.types.is_floating(arrow_type)
        or pa.types.is_date(arrow_type)
        or pa.types.is_time(arrow_type)
        or pa.types.is_timestamp(arrow_type)
        or pa.types.is_duration(arrow_type)
    )


def _repeats(values: pa.Array) -> bool:
    """Return whether a sample has so few distinct values that sorting those alone pays."""
    if not (pa.types.is_large_string(values.type) or pa.types.is_string(values.type)):
        return False
    step = max(1, len(values) // _SAMPLE)
    sample = values.take(from_numpy(np.arange(0, len(values), step)))
    return len(sample) >= _SAMPLE and len(sample.unique()) * 2 < len(sample)


def _ranks(values: pa.Array) -> npt.NDArray[np.generic]:
    """Return the position of each value among the distinct ones."""
    encoded = values.dictionary_encode()
    ranks = pc.rank(encoded.dictionary, tiebreaker="first").to_numpy().astype(np.uint32)
    keys: npt.NDArray[np.generic] = ranks[encoded.indices.to_numpy(zero_copy_only=False)]
    return keys


def _keys(values: pa.Array) -> npt.NDArray[np.generic]:
    """Return numbers that compare as the values do."""
    width = values.type.bit_width // 8
    if pa.types.is_floating(values.type):
        bits = to_numpy(values).view(_SIGNED[width])
        # Below zero the magnitude counts downwards: flipping all but the sign makes the bits ascend.
        keys: npt.NDArray[np.generic] = bits ^ ((bits >> (8 * width - 1)) & np.iinfo(bits.dtype).max)
        return keys
    if pa.types.is_integer(values.type):
        return to_numpy(values)
    return to_numpy(values.view(pa.int32() if width == 4 else pa.int64()))
