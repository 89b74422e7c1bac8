"""Numbers that rise in equal steps."""

from typing import Any

from lance_ops.encoding.arrays import Offsets
from lance_ops.encoding.kernels.loops import loop, types

_WORDS = (types.int32, types.int64)


@loop([types.boolean(types.Array(word, 1, "C", readonly=True), types.int64) for word in _WORDS])
def _rises_by(numbers: Any, step: Any) -> Any:
    difference = 0
    for index in range(1, len(numbers)):
        # Without a way out of the loop it is vectorised.
        difference |= (numbers[index] - numbers[index - 1]) ^ step
    return difference == 0


def rises_by(*, numbers: Offsets, step: int) -> bool:
    """Return whether each number is the one before and the step.

    Args:
        numbers: Shape (n,), any n.
        step: Of as many bits.
    """
    return bool(_rises_by(numbers, step))
