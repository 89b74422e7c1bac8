"""Numbers that rise in equal steps."""

import numpy as np

from lance_ops.encoding.arrays import Offsets


def rises_by(*, numbers: Offsets, step: int) -> bool:
    """Return whether each number is the one before and the step."""
    return bool((np.diff(numbers) == step).all())
