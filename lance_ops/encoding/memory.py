"""Memory that decoders fill.

NumPy gives large arrays back to the operating system, which hands out fresh pages for the next ones and has
to zero them at the first touch: that costs more than most decoders. Arrow's memory pool keeps what was freed.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def empty(count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array of anything, from Arrow's memory pool.

    Args:
        count: Number of elements.
        dtype: Of an element.
    """
    kind = np.dtype(dtype)
    if not count:
        return np.empty(0, dtype=kind)
    return np.frombuffer(pa.allocate_buffer(count * kind.itemsize), dtype=kind)
