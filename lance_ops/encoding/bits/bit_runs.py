"""Bit runs: integers of any width in sequence, the lowest bit first, across the borders of bytes.

The oldest packing of integers; later ones pack blocks of 1024 so that many can be unpacked at once.
"""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.bits.bitpacking import word_type
from lance_ops.errors import CorruptFileError

# Values unpacked at once: each takes as many bytes as its word has bits while that lasts.
_STEP = 1 << 16


def unpack_bit_run(
    data: npt.NDArray[np.uint8], first: int, count: int, width: int, bits: int, *, signed: bool
) -> npt.NDArray[np.unsignedinteger]:
    """Unpack integers.

    Args:
        data: Bytes that hold them.
        first: Number of the first value, counted from the first bit.
        count: Number of values.
        width: Bits of a packed value.
        bits: Bits of a word: 8, 16, 32 or 64.
        signed: True if the highest packed bit is a sign.

    Returns:
        Words, whose bits are those of signed integers where they were signed.

    Raises:
        CorruptFileError: The width is impossible, or there are too few bytes.
    """
    word = word_type(bits)
    if not 0 < width <= bits:
        raise CorruptFileError(f"integers of {bits} bits packed into {width}")
    if (first + count) * width > len(data) * 8:
        raise CorruptFileError(f"{count} integers of {width} bits do not fit into {len(data)} bytes")
    values = np.empty(count, dtype=word)
    for start in range(0, count, _STEP):
        size = min(_STEP, count - start)
        low = (first + start) * width
        high = low + size * width
        flags = np.unpackbits(data[low // 8 : (high + 7) // 8], bitorder="little")
        rows = np.zeros((size, bits), dtype=np.uint8)
        rows[:, :width] = flags[low % 8 : low % 8 + size * width].reshape(size, width)
        if signed:
            rows[:, width:] = rows[:, width - 1 : width]
        values[start : start + size] = np.packbits(rows, axis=1, bitorder="little").reshape(-1).view(word)
    return values
