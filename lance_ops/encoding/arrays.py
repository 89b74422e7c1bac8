"""Arrays that loops take and fill, by what is in them; all of one dimension unless a signature says more."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

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
