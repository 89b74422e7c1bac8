"""Words of an index that differ from a word of a query by a few letters."""

from collections.abc import Iterable


def similar_words(word: str, known: Iterable[str], distance: int, prefix_bytes: int) -> Iterable[str]:
    """Words that differ by `distance` letters at most and begin with the first bytes of a word."""
    prefix = word.encode()[:prefix_bytes]
    for candidate in known:
        if abs(len(candidate) - len(word)) > distance:
            continue
        if prefix and not candidate.encode().startswith(prefix):
            continue
        if _within(word, candidate, distance):
            yield candidate


def _within(one: str, other: str, distance: int) -> bool:
    """Whether so many letters changed, left out or put in make one word the other."""
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
