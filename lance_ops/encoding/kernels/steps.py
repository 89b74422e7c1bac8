"""The compiled loop that tells whether numbers rise in equal steps."""

from typing import Any

from numba import njit, types

_WORDS = (types.int32, types.int64)


@njit(
    [types.boolean(types.Array(word, 1, "C", readonly=True), types.int64) for word in _WORDS],
    cache=True,
    nogil=True,
)
def rises_by(numbers: Any, step: Any) -> Any:
    """Return whether each number is the one before and the step."""
    difference = 0
    for index in range(1, len(numbers)):
        # Without a way out of the loop it is vectorised.
        difference |= (numbers[index] - numbers[index - 1]) ^ step
    return difference == 0
