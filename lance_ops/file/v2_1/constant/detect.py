"""Constant values: finding out that all values of a page are the same."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.kernels import steps
from lance_ops.encoding.pages.ravel import Raveled
from lance_ops.encoding.values.values import Fixed, Values, Variable, as_bits, as_bytes

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

# Longer values are seldom equal, and dictionaries hold them as well.
_MAX_BYTES = 1 << 20
# Most columns differ within the first values, and nothing else is then read.
_FIRST_VALUES = 64
_FIRST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Constant:
    """The value of a page.

    Attributes:
        parts: Its Arrow buffers; of a boolean a byte.
        is_fixed: True if it is of fixed width.
    """

    parts: tuple[bytes, ...]
    is_fixed: bool

    def repeat(self, values: Fixed) -> Fixed:
        """Return values that are this one also where they were null."""
        one = np.frombuffer(self.parts[-1], dtype=np.uint8)
        if values.bits == 1:
            return Fixed(1, values.length, np.full(values.length, one[0] != 0))
        return Fixed(values.bits, values.length, np.tile(one, values.length))


def find_constant(raveled: Raveled, values: Values, width: int) -> Constant | None:
    """Return the value that all values are, None if they differ.

    Args:
        raveled: Says which of the values are null and do not count.
        values: The values; null slots are blank.
        width: Bits of an offset, for values of variable width.
    """
    if not isinstance(values, Fixed | Variable) or values.length == 0:
        return None
    for count in (min(_first_count(values), values.length), values.length):
        present = None
        if raveled.null is not None:
            present = np.flatnonzero(~raveled.null[:count])
            if len(present) == 0:
                continue
        if isinstance(values, Fixed):
            found = _same_fixed(_first(values, count), present)
        else:
            found = _same_variable(Variable(values.offsets[: count + 1], values.data), present, width)
        if found is None or count == values.length:
            return found
    return None


def _first_count(values: Fixed | Variable) -> int:
    size = values.bits // 8 if isinstance(values, Fixed) else int(values.offsets[1] - values.offsets[0])
    return max(min(_FIRST_VALUES, _FIRST_BYTES // max(size, 1)), 2)


def _first(values: Fixed, count: int) -> Fixed:
    if values.bits == 1 and isinstance(values.data, np.ndarray):
        return Fixed(1, count, values.data[:count])
    return Fixed(values.bits, count, values.data)


def _same_fixed(values: Fixed, present: Integers | None) -> Constant | None:
    if values.bits == 1:
        return _same_bits(values, present)
    width = values.bits // 8
    if width > _MAX_BYTES:
        return None
    data = as_bytes(values)
    if present is not None:
        data = data.reshape(values.length, width)[present].reshape(-1)
    if not _repeats(data, width):
        return None
    return Constant((data[:width].tobytes(),), is_fixed=True)


def _same_bits(values: Fixed, present: Integers | None) -> Constant | None:
    bits = as_bits(values)
    if present is None:
        full, rest = divmod(values.length, 8)
        tail = np.unpackbits(bits[full : full + 1], count=rest, bitorder="little")
        found = np.concatenate([bits[:full] // np.uint8(255), tail])
        if bool(((bits[:full] != 0) & (bits[:full] != 255)).any()):
            return None
    else:
        found = np.unpackbits(bits, count=values.length, bitorder="little")[present]
    return Constant((found[:1].tobytes(),), is_fixed=True) if _repeats(found, 1) else None


def _same_variable(values: Variable, present: Integers | None, width: int) -> Constant | None:
    offsets = values.offsets - values.offsets[0] if values.offsets[0] else values.offsets
    # Null slots have no bytes, so the others are contiguous.
    first = 0 if present is None else int(present[0])
    size = int(offsets[first + 1] - offsets[first])
    if size > _MAX_BYTES:
        return None
    if present is None:
        if not _rises_by(offsets, size):
            return None
    elif bool((np.diff(offsets)[present] != size).any()):
        return None
    data = np.frombuffer(values.data, dtype=np.uint8)[: int(offsets[-1])]
    if size and not _repeats(data, size):
        return None
    ends = np.array([0, size], dtype=f"<i{width // 8}").tobytes()
    return Constant((ends, data[:size].tobytes()), is_fixed=False)


def _repeats(data: Bytes, width: int) -> bool:
    return np.array_equal(data[width:], data[:-width])


def _rises_by(numbers: npt.NDArray[Any], step: int) -> bool:
    return steps.rises_by(numbers=np.ascontiguousarray(numbers), step=step)
