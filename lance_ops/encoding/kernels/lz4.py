"""Compiled loops of LZ4 blocks."""

from numba import njit, types

from lance_ops.encoding.reference import lz4

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)

is_whole = njit(types.boolean(_BYTES, types.int64, types.int64), cache=True, nogil=True)(lz4.is_whole)
