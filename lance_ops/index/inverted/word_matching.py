"""Word matching: words that are similar to one, and words that follow each other as in a phrase."""

from collections.abc import Iterable, Sequence

import numpy as np

from lance_ops.encoding.distinct import distinct
from lance_ops.index.inverted.packing import Ints

_STRIDE = 1 << 32
"""More than any position: a text and a position in it become one number."""


def holds_phrase(occurrences: Sequence[tuple[Ints, Ints]], places: Sequence[int], slop: int) -> Ints:
    """Strings in which words follow each other.

    Args:
        occurrences: For each word of the phrase the strings (ascending) and the positions in them where it
            is.
        places: The position of each word in the query.
        slop: How much later than there a word may come, counted from the one before.

    Returns:
        Numbers of strings, ascending.
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
        # Within one string only: positions in the previous string would need a step as long as the stride.
    return distinct(reached // _STRIDE)


def similar_words(word: str, known: Iterable[str], distance: int, prefix_bytes: int) -> Iterable[str]:
    """Return words within an edit distance that share the first bytes of a word."""
    prefix = word.encode()[:prefix_bytes]
    for candidate in known:
        if abs(len(candidate) - len(word)) > distance:
            continue
        if prefix and not candidate.encode().startswith(prefix):
            continue
        if _within(word, candidate, distance):
            yield candidate


def _within(one: str, other: str, distance: int) -> bool:
    """Return whether two words are within an edit distance."""
    if distance == 0:
        return one == other
    row = list(range(len(other) + 1))
    for number, letter in enumerate(one, 1):
        before, row[0] = row[0], number
        least = number
        for place, candidate in enumerate(other, 1):
            change = before + (letter != candidate)
            before = row[place]
            row[place] = min(change, before + 1, row[place - 1] + 1)
            least = min(least, row[place])
        if least > distance:
            return False
    return row[-1] <= distance
