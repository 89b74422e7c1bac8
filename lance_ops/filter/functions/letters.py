"""Letters and digits, as the peer knows them: which characters words consist of.

Python's own tables are of another version of Unicode, and its idea of a letter is another one.
`tests/index/inverted/test_analyzer.py` compares all of Unicode.
"""

from functools import cache
from importlib import resources

import numpy as np
import numpy.typing as npt

_CODE_POINTS = 0x110000


@cache
def alphanumeric() -> npt.NDArray[np.bool_]:
    """Whether each code point is a letter or a digit."""
    found = np.zeros(_CODE_POINTS, np.bool_)
    for line in _lines("alphanumeric.txt"):
        first, last = line.split()
        found[int(first, 16) : int(last, 16) + 1] = True
    return found


@cache
def newer_lower_case() -> dict[int, str]:
    """Lower case of characters that the Unicode of some Python does not know, for `str.translate`."""
    pairs = (line.split() for line in _lines("lower_case.txt"))
    return {int(upper, 16): chr(int(lower, 16)) for upper, lower in pairs}


def _lines(name: str) -> list[str]:
    return (resources.files(__package__) / "data" / name).read_text("utf-8").split("\n")[:-1]


def words_of(text: str) -> list[str]:
    """Runs of letters and digits of a text, as they are written."""
    if text.isascii():
        letters = (letter if letter.isalnum() else " " for letter in text)
    else:
        known = alphanumeric()
        letters = (letter if known[ord(letter)] else " " for letter in text)
    return "".join(letters).split()
