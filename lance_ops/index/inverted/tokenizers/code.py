"""Tokens of source code, as in pylance: identifiers, their parts, and operators.

An identifier is a run of letters, digits and `_`. Its parts end at `_`, where upper case follows lower case
(`get|User`), before the last of several capitals (`HTTP|Server`), and between digits and others.
"""

import re
from functools import partial

from lance_ops.index.inverted.tokenizers.splitting import Pieces, Texts, cut_pieces, runs_of
from lance_ops.index.inverted.tokenizers.tables import alphanumeric

_OPERATORS = "!%&*+-/:<=>?^|~"
_LONG_OPERATORS = (
    r">>>=|<<=|>>=|&&=|\|\|=|\?\?=|\*\*=|//=|===|!==|>>>|<=>"
    r"|::|->|=>|==|!=|<=|>=|&&|\|\||\+\+|--|\+=|-=|\*=|/=|%=|&=|\|=|\^=|<<|>>|\*\*|//|\?\?|:=|<-|\|>|~="
)
"""The longest first."""
_SHORT = re.escape(_OPERATORS)
_LEXEME = re.compile(f"{_LONG_OPERATORS}|[{_SHORT}]|[^{_SHORT}]+")


def code_words(texts: Texts, *, split: bool, numerics: bool, original: bool, operators: bool) -> Pieces:
    """Return the words of strings.

    Args:
        texts: Source code.
        split: True if identifiers are cut into parts.
        numerics: True if parts end between digits and others.
        original: True if an identifier is a word beside its parts, at the position of the first.
        operators: True if operators are words, the longest that is known first.
    """
    kept = alphanumeric().copy()
    kept[[ord(letter) for letter in ("_" + _OPERATORS if operators else "_")]] = True
    found = runs_of(texts, kept)
    if operators:
        found = cut_pieces(found, _lexemes)
    return cut_pieces(found, partial(_parts, numerics=numerics, original=original)) if split else found


def _lexemes(run: str) -> list[tuple[str, int]]:
    return [(text, place) for place, text in enumerate(_LEXEME.findall(run))]


def _parts(identifier: str, *, numerics: bool, original: bool) -> list[tuple[str, int]]:
    parts: list[str] = []
    for segment in identifier.split("_"):
        start = 0
        for place in range(1, len(segment)):
            if _ends_before(segment, place, numerics=numerics):
                parts.append(segment[start:place])
                start = place
        if segment:
            parts.append(segment[start:])
    if len(parts) < 2:
        return [(identifier, 0)]
    words = [(part, place) for place, part in enumerate(parts)]
    return [(identifier, 0), *words] if original else words


def _ends_before(segment: str, place: int, *, numerics: bool) -> bool:
    before, here = segment[place - 1], segment[place]
    if numerics and _is_digit(before) != _is_digit(here):
        return True
    if not here.isupper():
        return False
    return before.islower() or (before.isupper() and segment[place + 1 : place + 2].islower())


def _is_digit(letter: str) -> bool:
    return "0" <= letter <= "9"
