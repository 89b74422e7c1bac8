"""Arrays that loops take and fill, by what is in them; all of one dimension unless a signature says more."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes: TypeAlias = npt.NDArray[np.uint8]
"""Bytes, or 8-bit lengths, codes and flags."""

Integers: TypeAlias = npt.NDArray[np.int64]
"""Positions, sizes and counts."""

Floats: TypeAlias = npt.NDArray[np.float32]
"""Distances and scores."""

Offsets: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]
"""Offsets of Arrow arrays: one more than there are values."""

Words: TypeAlias = npt.NDArray[np.unsignedinteger]
"""Unsigned integers of 8, 16, 32 or 64 bits."""

Words64: TypeAlias = npt.NDArray[np.uint64]
"""Words of 64 bits, which need not be aligned in memory where they are only read."""

Levels: TypeAlias = npt.NDArray[np.uint16]
"""Repetition or definition levels."""

_DTYPES: dict[pa.DataType, np.dtype[np.generic]] = {
    pa.bool_(): np.dtype(np.bool_),
    pa.int8(): np.dtype(np.int8),
    pa.int16(): np.dtype(np.int16),
    pa.int32(): np.dtype(np.int32),
    pa.int64(): np.dtype(np.int64),
    pa.uint8(): np.dtype(np.uint8),
    pa.uint16(): np.dtype(np.uint16),
    pa.uint32(): np.dtype(np.uint32),
    pa.uint64(): np.dtype(np.uint64),
    pa.float16(): np.dtype(np.float16),
    pa.float32(): np.dtype(np.float32),
    pa.float64(): np.dtype(np.float64),
}


def number_dtype(data_type: pa.DataType) -> np.dtype[Any]:
    """Return the numpy dtype of an Arrow boolean, integer or floating-point type.

    `DataType.to_pandas_dtype` imports pandas in pyarrow 19 to 22, which is not a dependency.

    Args:
        data_type: Arrow type of numbers.

    Raises:
        KeyError: The type is none of these.
    """
    return _DTYPES[data_type]
