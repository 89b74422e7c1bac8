"""Character and word tables of tokenizers, as data files beside this module.

They equal those of pylance, character by character: `tests/index/inverted/test_tables.py` compares all of
Unicode. Python has another version of Unicode and another definition of letters.
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
    """Return a mask of code points that are not ASCII blanks (the vertical tab is not one)."""
    found = np.ones(_CODE_POINTS, np.bool_)
    found[[0x09, 0x0A, 0x0C, 0x0D, 0x20]] = False
    return found


@cache
def folding() -> dict[int, str]:
    """Return the ASCII replacements of characters, for `str.translate`."""
    table: dict[int, str] = {}
    for line in _lines("folding.txt"):
        target, *sources = line.split()
        text = bytes.fromhex(target).decode()
        table.update((int(source, 16), text) for source in sources)
    return table


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of one of `LANGUAGES`."""
    return frozenset(_lines(f"stop_words/{language.lower()}.txt"))


def _lines(name: str) -> list[str]:
    return (resources.files(__package__) / "data" / name).read_text("utf-8").split("\n")[:-1]
