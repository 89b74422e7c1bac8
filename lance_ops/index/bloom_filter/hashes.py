"""Hashes of values in a Bloom filter: xxHash64 of their bytes."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.arrays import Offsets, Words64
from lance_ops.encoding.kernels.index.xxhash64 import hash_parts

N = TypeVar("N", np.int32, np.int64)


def hash_values(values: pa.Array) -> Words64:
    """Hashes of values without nulls, by their bytes: strings as UTF-8, numbers little-endian in their width.

    Args:
        values: Strings, bytes, or a type of fixed width of whole bytes.
    """
    if not len(values):
        return np.zeros(0, np.uint64)
    offsets: Offsets
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        offsets = _offsets(values, np.int32)
    elif pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type):
        offsets = _offsets(values, np.int64)
    else:
        width = values.type.bit_width // 8
        offsets = (np.arange(len(values) + 1, dtype=np.int64) + values.offset) * width
    content = values.buffers()[-1]
    data = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    hashes = np.empty(len(values), np.uint64)
    hash_parts(data=data, offsets=offsets, hashes=hashes)
    return hashes


def _offsets(values: pa.Array, integer: type[N]) -> npt.NDArray[N]:
    return np.frombuffer(values.buffers()[1], integer)[values.offset : values.offset + len(values) + 1]
