"""Numbers that rise in equal steps."""

from lance_ops.encoding.arrays import Offsets
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference import steps as reference


def rises_by(*, numbers: Offsets, step: int) -> bool:
    """Return whether each number is the one before and the step.

    Args:
        numbers: Shape (n,), any n.
        step: Of as many bits.
    """
    kernel = load("steps")
    if kernel is None:
        return reference.rises_by(numbers=numbers, step=step)
    return bool(kernel.rises_by(numbers, step))
