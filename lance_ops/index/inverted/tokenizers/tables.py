"""Tables of characters and words that tokenizers go by, as data files beside this module.

They are what the peer does, character by character: `tests/index/inverted/test_tables.py` compares all of
Unicode. Python's own tables are of another version of Unicode, and its idea of a letter is another one.
"""

from functools import cache
from importlib import resources

import numpy as np
import numpy.typing as npt

from lance_ops.filter.functions.letters import alphanumeric, newer_lower_case

__all__ = [
    "LANGUAGES",
    "alphanumeric",
    "folding",
    "newer_lower_case",
    "not_whitespace",
    "stop_words",
]

_CODE_POINTS = 0x110000

LANGUAGES = (
    "Arabic",
    "Danish",
    "Dutch",
    "English",
    "Finnish",
    "French",
    "German",
    "Greek",
    "Hungarian",
    "Italian",
    "Norwegian",
    "Portuguese",
    "Romanian",
    "Russian",
    "Spanish",
    "Swedish",
    "Tamil",
    "Turkish",
)


@cache
def not_whitespace() -> npt.NDArray[np.bool_]:
    """Whether each code point is none of the blanks of ASCII (the vertical tab is none)."""
    found = np.ones(_CODE_POINTS, np.bool_)
    found[[0x09, 0x0A, 0x0C, 0x0D, 0x20]] = False
    return found


@cache
def folding() -> dict[int, str]:
    """What stands for a character in ASCII, for `str.translate`."""
    table: dict[int, str] = {}
    for line in _lines("folding.txt"):
        target, *sources = line.split()
        text = bytes.fromhex(target).decode()
        table.update((int(source, 16), text) for source in sources)
    return table


@cache
def stop_words(language: str) -> frozenset[str]:
    """Words of one of `LANGUAGES` that say nothing."""
    return frozenset(_lines(f"stop_words/{language.lower()}.txt"))


def _lines(name: str) -> list[str]:
    return (resources.files(__package__) / "data" / name).read_text("utf-8").split("\n")[:-1]
