"""Plain conditions and their chains, replaced by placeholders before sqlglot parses the rest.

Programs write filters of thousands of terms such as `a = 1 OR b < 2 OR (a = 3 AND c = 4)`. A syntax node for
each name and constant would dominate the cost. So terms of a column, an operator and constants are parsed
here, and terms joined only by AND, OR and parentheses are one placeholder name for sqlglot.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokens import Token as Token  # type: ignore[attr-defined]  # exported, but not by `__all__`
from sqlglot.tokens import TokenType as TokenType  # type: ignore[attr-defined]

_FEWEST_TOKENS = 64
"""Shorter filters gain nothing."""

SET_ASIDE = "\0"
"""Begins the name of what is set aside; no column can have it: a filter with a NUL character is refused."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant: the token's text with its sign, and where it starts."""

    kind: TokenType
    text: str
    start: int


Names = tuple[tuple[str, bool], ...]
"""Parts of a column path, each with a flag for backticks."""


@dataclass(frozen=True, slots=True)
class Term:
    """`column op constant`.

    Attributes:
        names: The column.
        op: A comparison, "LIKE" or "ILIKE".
        constant: What it is compared with.
        start: Where the term starts.
    """

    names: Names
    op: str
    constant: Constant
    start: int


@dataclass(frozen=True, slots=True)
class ListTerm:
    """`column IN (...)`; `negated` for NOT IN."""

    names: Names
    constants: tuple[Constant, ...]
    negated: bool
    start: int


@dataclass(frozen=True, slots=True)
class NullTerm:
    """`column IS NULL`; `negated` for IS NOT NULL."""

    names: Names
    negated: bool
    start: int


@dataclass(frozen=True, slots=True)
class Chain:
    """Conditions joined by AND, or by OR."""

    joint: TokenType
    parts: "tuple[Condition, ...]"
    start: int


Condition = Term | ListTerm | NullTerm | Chain
Aside = Condition | tuple[Constant, ...]
"""Content of a placeholder: a condition, or the constants of an IN list."""


@dataclass(frozen=True, slots=True)
class _Joint:
    """An AND or OR that joins conditions; the AND of BETWEEN is just a token."""

    token: Token


_Entry = Token | _Joint | Condition

_COMPARISONS = {
    TokenType.EQ: "=",
    TokenType.NEQ: "<>",
    TokenType.LT: "<",
    TokenType.LTE: "<=",
    TokenType.GT: ">",
    TokenType.GTE: ">=",
}
_LIKES = {TokenType.LIKE: "LIKE", TokenType.ILIKE: "ILIKE"}
_CONSTANTS = {
    *(TokenType.NUMBER, TokenType.STRING, TokenType.HEX_STRING),
    *(TokenType.NULL, TokenType.TRUE, TokenType.FALSE),
}
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END}
_BEHIND = {TokenType.R_PAREN, TokenType.AND, TokenType.OR, TokenType.SEMICOLON}


def set_chains_aside(tokens: Sequence[Token], asides: list[Aside]) -> list[Token]:
    """Replace each plain condition, or chain of these, by a placeholder name.

    Args:
        tokens: Of a filter, whose IN lists are placeholders.
        asides: Contents of placeholders, by number; conditions are added.

    Returns:
        Equivalent tokens; placeholders have the position of their condition.
    """
    if len(tokens) < _FEWEST_TOKENS:
        return list(tokens)
    frame: list[_Entry] = []
    # For each open parenthesis: the preceding token, and the BETWEENs that still need their AND.
    around: list[tuple[list[_Entry], int]] = []
    betweens = index = 0
    while index < len(tokens):
        token = tokens[index]
        kind = token.token_type
        if kind is TokenType.AND and betweens:
            betweens -= 1
            frame.append(token)
        elif kind is TokenType.AND or kind is TokenType.OR:
            frame.append(_Joint(token))
        elif kind in _OPENING:
            frame.append(token)
            around.append((frame, betweens))
            frame, betweens = [], 0
        elif kind in _CLOSING and around:
            inner, (frame, betweens) = _joined(frame), around.pop()
            ended = index + 1 == len(tokens) or tokens[index + 1].token_type in _BEHIND
            begun = len(frame) == 1 or isinstance(frame[-2], _Joint)
            paired = kind is TokenType.R_PAREN and _is_token(frame[-1], TokenType.L_PAREN)
            if paired and ended and begun and len(inner) == 1 and not isinstance(inner[0], (Token, _Joint)):
                frame[-1] = inner[0]
            else:
                frame += [*inner, token]
        else:
            begins = not frame or isinstance(frame[-1], _Joint)
            found = _condition_at(tokens, index, asides) if begins else None
            if found is not None and (found[1] == len(tokens) or tokens[found[1]].token_type in _BEHIND):
                condition, index = found
                frame.append(condition)
                continue
            betweens += kind is TokenType.BETWEEN
            frame.append(token)
        index += 1
    while around:
        # An unclosed parenthesis, which the parser reports.
        inner, (frame, _) = frame, around.pop()
        frame += inner
    return [_as_token(entry, asides) for entry in _joined(frame)]


def _is_token(entry: _Entry, kind: TokenType) -> bool:
    return isinstance(entry, Token) and entry.token_type is kind


def _joined(entries: list[_Entry]) -> list[_Entry]:
    """Combine consecutive conditions, first around AND, which has precedence."""
    return _joined_by(_joined_by(entries, TokenType.AND), TokenType.OR)


def _joined_by(entries: list[_Entry], joint: TokenType) -> list[_Entry]:
    kept: list[_Entry] = []
    index = 0
    while index < len(entries):
        entry = entries[index]
        parts: list[Condition] = []
        # An operand of OR continues beside an AND.
        free = joint is TokenType.AND or not (kept and _joins(kept[-1], TokenType.AND))
        end = index
        while free and end < len(entries) and not isinstance(part := entries[end], (Token, _Joint)):
            behind = entries[end + 1] if end + 1 < len(entries) else None
            if joint is TokenType.OR and behind is not None and _joins(behind, TokenType.AND):
                break
            parts.append(part)
            end += 2
            if behind is None or not _joins(behind, joint):
                break
        if len(parts) < 2:
            kept.append(entry)
            index += 1
            continue
        kept.append(Chain(joint, tuple(parts), parts[0].start))
        # After the last part; dots separate parts.
        index += 2 * len(parts) - 1
    return kept


def _joins(entry: _Entry, joint: TokenType) -> bool:
    return isinstance(entry, _Joint) and entry.token.token_type is joint


def _as_token(entry: _Entry, asides: list[Aside]) -> Token:
    if isinstance(entry, Token):
        return entry
    if isinstance(entry, _Joint):
        return entry.token
    asides.append(entry)
    return made_up(len(asides) - 1, entry.start)


def made_up(number: int, start: int) -> Token:
    """Return the token of what is set aside."""
    return Token(TokenType.IDENTIFIER, made_up_name(number), start=start, end=start)


def made_up_name(number: int) -> str:
    """Return the name of what is set aside."""
    return f"{SET_ASIDE}{number}"


def aside_of(name: str, asides: Sequence[Aside]) -> Aside | None:
    """Return the content of a placeholder; None for any other name."""
    return asides[int(name[1:])] if name[:1] == SET_ASIDE else None


# --- one condition


def _condition_at(
    tokens: Sequence[Token], start: int, asides: Sequence[Aside]
) -> tuple[Condition, int] | None:
    """Return the plain condition that starts here, and the index behind it."""
    named = _names_at(tokens, start)
    if named is None or named[1] >= len(tokens):
        return None
    names, index = named
    kind, place = tokens[index].token_type, tokens[start].start
    if (op := _COMPARISONS.get(kind) or _LIKES.get(kind)) is not None:
        constant, behind = _constant_at(tokens, index + 1)
        if constant is None or (kind in _LIKES and constant.kind is not TokenType.STRING):
            return None
        return Term(names, op, constant, place), behind
    if kind is TokenType.BETWEEN:
        return _between_at(tokens, index, names, place)
    if kind is TokenType.IS:
        opposite = index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.NOT
        index += 1 + opposite
        if index < len(tokens) and tokens[index].token_type is TokenType.NULL:
            return NullTerm(names, opposite, place), index + 1
        return None
    opposite = kind is TokenType.NOT
    index += opposite
    # IN ( what was set aside )
    if index + 3 < len(tokens) and tokens[index].token_type is TokenType.IN:
        values = aside_of(tokens[index + 2].text, asides)
        if isinstance(values, tuple) and tokens[index + 3].token_type is TokenType.R_PAREN:
            return ListTerm(names, values, opposite, place), index + 4
    return None


def _between_at(
    tokens: Sequence[Token], index: int, names: Names, place: int
) -> tuple[Condition, int] | None:
    low, behind = _constant_at(tokens, index + 1)
    if low is None or behind >= len(tokens) or tokens[behind].token_type is not TokenType.AND:
        return None
    high, behind = _constant_at(tokens, behind + 1)
    if high is None:
        return None
    parts = (Term(names, ">=", low, place), Term(names, "<=", high, place))
    return Chain(TokenType.AND, parts, place), behind


def _names_at(tokens: Sequence[Token], start: int) -> tuple[Names, int] | None:
    """Return a name or a path such as `a.b`, and the index behind it."""
    names: list[tuple[str, bool]] = []
    index = start
    while index < len(tokens):
        token = tokens[index]
        kind = token.token_type
        if (kind is not TokenType.VAR and kind is not TokenType.IDENTIFIER) or token.text[:1] == SET_ASIDE:
            return None
        names.append((token.text, kind is TokenType.IDENTIFIER))
        index += 1
        if index == len(tokens) or tokens[index].token_type is not TokenType.DOT:
            return tuple(names), index
        index += 1
    return None


def _constant_at(tokens: Sequence[Token], index: int) -> tuple[Constant | None, int]:
    """Return a constant with its sign, and the index behind it."""
    if index >= len(tokens):
        return None, index
    token = tokens[index]
    kind, start = token.token_type, token.start
    if kind is TokenType.DASH:
        index += 1
        if index == len(tokens) or tokens[index].token_type is not TokenType.NUMBER:
            return None, index
        return Constant(TokenType.NUMBER, f"-{tokens[index].text}", start), index + 1
    if kind is not TokenType.NUMBER and kind is not TokenType.STRING and kind not in _CONSTANTS:
        return None, index
    return Constant(kind, token.text, start), index + 1
