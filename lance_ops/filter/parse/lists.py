"""IN lists of constants, replaced by placeholders before sqlglot: they may have a hundred thousand values."""

import re
from collections.abc import Sequence

from lance_ops.filter.parse.chains import Aside, Constant, Token, TokenType, made_up, made_up_name

_SHORTEST = 16
_NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_VALUE = rf"(?:-?{_NUMBER}|'(?:[^'\"]|'')*')"
_VALUES = re.compile(rf"-?{_NUMBER}|'(?:[^'\"]|'')*'")
# Quoted strings and names are skipped, because they may look like lists.
_LONG_LIST = re.compile(
    r"'(?:[^']|'')*+'|\"(?:[^\"]|\"\")*+\"|`(?:[^`]|``)*+`|"
    rf"\bIN\s*\((?P<values>\s*+(?:{_VALUE}\s*+,\s*+){{{_SHORTEST - 1},}}+{_VALUE}\s*+)\)",
    re.IGNORECASE,
)
_COMMENTS = ("--", "/*")
_VISIBLE = re.compile(r"[^\r\n]+")
_CONSTANTS = {TokenType.HEX_STRING, TokenType.NULL, TokenType.TRUE, TokenType.FALSE}


def set_long_lists_aside(sql: str, asides: list[Aside]) -> str:
    """Replace the contents of long IN lists of numbers and strings by placeholder names, before tokenizing.

    Args:
        sql: A filter.
        asides: Contents of placeholders, by number; lists are added.

    Returns:
        A filter with all other positions unchanged.
    """
    if any(mark in sql for mark in _COMMENTS):
        # A quote in a comment begins not a string.
        return sql

    def replaced(found: re.Match[str]) -> str:
        values = found["values"]
        if values is None:
            return found[0]
        begin = found.start("values")
        asides.append(tuple(_constant(value, begin) for value in _VALUES.finditer(values)))
        name = f"`{made_up_name(len(asides) - 1)}`"
        rest = _VISIBLE.sub(lambda line: " " * len(line[0]), values[len(name) :])
        return f"{found[0][: begin - found.start()]}{name}{rest})"

    return _LONG_LIST.sub(replaced, sql)


def _constant(found: re.Match[str], begin: int) -> Constant:
    text = found[0]
    if text[0] == "'":
        return Constant(TokenType.STRING, text[1:-1].replace("''", "'"), begin + found.start())
    return Constant(TokenType.NUMBER, text, begin + found.start())


def set_lists_aside(tokens: Sequence[Token], asides: list[Aside]) -> list[Token]:
    """Replace the contents of each IN list of constants by one made-up name.

    Args:
        tokens: Of a filter.
        asides: What made-up names stand for, by their numbers; lists are added.
    """
    kept: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        kept.append(token)
        index += 1
        if token.token_type != TokenType.L_PAREN or len(kept) < 2 or kept[-2].token_type != TokenType.IN:
            continue
        found = _constants_at(tokens, index)
        if found is not None:
            kept.append(made_up(len(asides), tokens[index].start))
            asides.append(found[0])
            index = found[1]
    return kept


def _constants_at(tokens: Sequence[Token], index: int) -> tuple[tuple[Constant, ...], int] | None:
    """Return the constants from `index` to the parenthesis and its index; None for anything else."""
    constants: list[Constant] = []
    while index + 1 < len(tokens):
        token, sign = tokens[index], ""
        start, kind = token.start, token.token_type
        if kind is TokenType.DASH and tokens[index + 1].token_type is TokenType.NUMBER:
            sign, index, token, kind = "-", index + 1, tokens[index + 1], TokenType.NUMBER
        constant = kind is TokenType.NUMBER or kind is TokenType.STRING or kind in _CONSTANTS
        if not constant or index + 1 == len(tokens):
            return None
        constants.append(Constant(kind, sign + token.text, start))
        separator = tokens[index + 1].token_type
        if separator is TokenType.R_PAREN:
            return tuple(constants), index + 1
        if separator is not TokenType.COMMA:
            return None
        index += 2
    return None
