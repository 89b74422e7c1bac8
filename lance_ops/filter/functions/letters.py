"""Alphanumeric characters as defined by pylance, which tokens consist of.

Python has another version of Unicode and another definition of letters.
`tests/index/inverted/test_analyzer.py` compares all of Unicode.
"""

from functools import cache
from importlib import resources

import numpy as np
import numpy.typing as npt

_CODE_POINTS = 0x110000


@cache
def alphanumeric() -> npt.NDArray[np.bool_]:
    """Return whether each code point is alphanumeric."""
    found = np.zeros(_CODE_POINTS, np.bool_)
    for line in _lines("alphanumeric.txt"):
        first, last = line.split()
        found[int(first, 16) : int(last, 16) + 1] = True
    return found


@cache
def newer_lower_case() -> dict[int, str]:
    """Return lower case of characters that Python's Unicode may lack, for `str.translate`."""
    pairs = (line.split() for line in _lines("lower_case.txt"))
    return {int(upper, 16): chr(int(lower, 16)) for upper, lower in pairs}


def _lines(name: str) -> list[str]:
    return (resources.files(__package__) / "data" / name).read_text("utf-8").split("\n")[:-1]


def words_of(text: str) -> list[str]:
    """Return runs of alphanumeric characters of a string, in their original case."""
    if text.isascii():
        letters = (letter if letter.isalnum() else " " for letter in text)
    else:
        known = alphanumeric()
        letters = (letter if known[ord(letter)] else " " for letter in text)
    return "".join(letters).split()
