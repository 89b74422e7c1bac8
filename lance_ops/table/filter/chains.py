"""Long chains of equalities as lists: `a = 1 OR a = 2 OR ...` is `a IN (1, 2, ...)`.

Programs write such chains, thousands of terms long. As a list they cost a tenth to parse, and one look-up for
each row instead of one comparison for each term.
"""

from collections.abc import Sequence

from sqlglot.tokens import Token as Token  # type: ignore[attr-defined]  # exported, but not by `__all__`
from sqlglot.tokens import TokenType as TokenType  # type: ignore[attr-defined]

_SHORTEST = 16
"""Terms from which on a chain becomes a list; what people write themselves stays as they wrote it."""

_NAMES = {TokenType.VAR, TokenType.IDENTIFIER}
_CONSTANTS = {
    *(TokenType.NUMBER, TokenType.STRING, TokenType.HEX_STRING),
    *(TokenType.NULL, TokenType.TRUE, TokenType.FALSE),
}
_JOINTS = {TokenType.EQ: TokenType.OR, TokenType.NEQ: TokenType.AND}
_BEFORE = {
    TokenType.OR: {TokenType.L_PAREN, TokenType.OR},
    TokenType.AND: {TokenType.L_PAREN, TokenType.OR, TokenType.AND},
}
_BEFORE_ANY = _BEFORE[TokenType.OR] | _BEFORE[TokenType.AND]
_BEHIND = {
    TokenType.OR: {TokenType.R_PAREN, TokenType.OR, TokenType.SEMICOLON},
    TokenType.AND: {TokenType.R_PAREN, TokenType.OR, TokenType.AND, TokenType.SEMICOLON},
}


def join_chains(tokens: list[Token]) -> list[Token]:
    """Write each long chain of `column = constant OR ...` or `column <> constant AND ...` as a list.

    Args:
        tokens: Of a filter.

    Returns:
        Tokens that mean the same; each keeps the place that it has in the text.
    """
    if len(tokens) < 4 * _SHORTEST:
        return tokens
    # The AND of BETWEEN joins no conditions.
    joints = dict(_JOINTS)
    if any(token.token_type is TokenType.BETWEEN for token in tokens):
        del joints[TokenType.NEQ]
    kept: list[Token] = []
    index = 0
    while index < len(tokens):
        chain = _chain_at(tokens, index, joints)
        if chain is None:
            kept.append(tokens[index])
            index += 1
        else:
            kept.extend(chain[0])
            index = chain[1]
    return kept


def _chain_at(
    tokens: Sequence[Token], start: int, joints: dict[TokenType, TokenType]
) -> tuple[list[Token], int] | None:
    """The tokens of the list in place of the chain that starts here, and where the chain ends."""
    if tokens[start].token_type not in _NAMES:
        return None
    # Before the name is read to its end: a path of thousands of parts would be read from each of them.
    if start and tokens[start - 1].token_type not in _BEFORE_ANY:
        return None
    name = _name_end(tokens, start)
    if name >= len(tokens) or (joint := joints.get(tokens[name].token_type)) is None:
        return None
    if start and tokens[start - 1].token_type not in _BEFORE[joint]:
        return None
    operator, width = tokens[name].token_type, name - start
    texts = [token.text for token in tokens[start:name]]
    constants: list[list[Token]] = []
    stop = index = start
    while _same(tokens, index, texts) and index + width < len(tokens):
        if tokens[index + width].token_type is not operator:
            break
        constant, behind = _constant_at(tokens, index + width + 1)
        ended = behind == len(tokens) or tokens[behind].token_type in _BEHIND[joint]
        if constant is None or not ended:
            break
        constants.append(constant)
        stop, index = behind, behind + 1
        if behind == len(tokens) or tokens[behind].token_type is not joint:
            break
    if len(constants) < _SHORTEST:
        return None
    mark = tokens[name]
    words = [(TokenType.IN, "IN"), (TokenType.L_PAREN, "(")]
    if operator is TokenType.NEQ:
        words.insert(0, (TokenType.NOT, "NOT"))
    joined = [*tokens[start:name], *(_like(mark, kind, text) for kind, text in words), *constants[0]]
    for constant in constants[1:]:
        joined += [_like(mark, TokenType.COMMA, ","), *constant]
    joined.append(_like(mark, TokenType.R_PAREN, ")"))
    return joined, stop


def _name_end(tokens: Sequence[Token], start: int) -> int:
    """The index behind a name or a path such as `a.b`."""
    index = start + 1
    while (
        index + 1 < len(tokens)
        and tokens[index].token_type is TokenType.DOT
        and tokens[index + 1].token_type in _NAMES
    ):
        index += 2
    return index


def _same(tokens: Sequence[Token], start: int, texts: Sequence[str]) -> bool:
    return all(
        start + offset < len(tokens)
        and tokens[start + offset].text == text
        and tokens[start + offset].token_type is not TokenType.STRING
        for offset, text in enumerate(texts)
    )


def _constant_at(tokens: Sequence[Token], index: int) -> tuple[list[Token] | None, int]:
    """The tokens of a constant with its sign, and the index behind it."""
    end = index
    if end < len(tokens) and tokens[end].token_type is TokenType.DASH:
        end += 1
        if end >= len(tokens) or tokens[end].token_type is not TokenType.NUMBER:
            return None, end
    if end >= len(tokens) or tokens[end].token_type not in _CONSTANTS:
        return None, end
    return list(tokens[index : end + 1]), end + 1


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, start=token.start, end=token.end)
