"""Phrases: whether words follow each other in a text as they do in a query."""

from collections.abc import Sequence

import numpy as np

from lance_ops.encoding.distinct import distinct
from lance_ops.index.inverted.packing import Ints

_STRIDE = 1 << 32
"""More than any position: a text and a position in it become one number."""


def holds_phrase(occurrences: Sequence[tuple[Ints, Ints]], places: Sequence[int], slop: int) -> Ints:
    """Texts in which words follow each other.

    Args:
        occurrences: For each word of the phrase the texts (ascending) and the positions in them where it is.
        places: The position of each word in the query.
        slop: How much later than there a word may come, counted from the one before.

    Returns:
        Numbers of texts, ascending.
    """
    texts, positions = occurrences[0]
    reached = texts * _STRIDE + positions
    for number in range(1, len(occurrences)):
        texts, positions = occurrences[number]
        step = places[number] - places[number - 1]
        here = texts * _STRIDE + positions
        # A word counts when the one before is at `step` to `step + slop` positions in front of it.
        first = np.searchsorted(reached, here - step - slop, side="left")
        behind = np.searchsorted(reached, here - step, side="right")
        reached = here[behind > first]
        # Within one text only: what lies in the text before would need a step as long as the stride.
    return distinct(reached // _STRIDE)
