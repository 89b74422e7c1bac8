"""Tokens of statements: those of filters, in the spelling of Spark's SQL."""

import re
from typing import TYPE_CHECKING, Any, ClassVar

from sqlglot.errors import TokenError

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.filter.parse.syntax import FilterTokenizer, Token, TokenType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORD, QUOTED, STRING, NUMBER = TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER

_BETWEEN_TOKENS = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)


class StatementTokenizer(FilterTokenizer):
    """No word is reserved, so that tables and columns may have any name, and backslashes escape."""

    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        "<=>": TokenType.NULLSAFE_EQ,
        **{word: kind for word, kind in FilterTokenizer.KEYWORDS.items() if not word[0].isalpha()},
    }
    STRING_ESCAPES: ClassVar[list[str]] = ["'", '"', "\\"]
    DROP_UNKNOWN_ESCAPES = True
    HEX_STRINGS: ClassVar[list[Any]] = []
    RAW_STRINGS: ClassVar[list[Any]] = [(f"{r}{quote}", quote) for r in "rR" for quote in "'\""]
    STRING_ESCAPES_ALLOWED_IN_RAW_STRINGS = False
    NESTED_COMMENTS = False
    COMMENTS_TERMINATE_AT_NEWLINE_ONLY = True


def tokens_of(sql: str) -> list[Token]:
    """Split a statement into tokens, without comments and the semicolons at its end.

    Raises:
        InvalidArgumentError: A quote or a comment is not closed.
    """
    tokenizer = StatementTokenizer()
    try:
        tokens: list[Token] = tokenizer.tokenize(sql)
    except TokenError as error:
        tokens = tokenizer.tokens
        raise _not_closed(sql, tokens[-1].end + 1 if tokens else 0) from error
    stop = 0
    for token in (*tokens, None):
        start = len(sql) if token is None else token.start
        # To sqlglot a comment that is not closed ends with the text, and `{# ... #}` is a comment, too.
        if start > stop and not _BETWEEN_TOKENS.fullmatch(sql, stop, start):
            raise _not_closed(sql, stop)
        if token is not None:
            stop = token.end + 1
            if token.token_type is NUMBER and token.text[-1] in "eE":
                # An exponent without digits is none, but the end of a name.
                token.token_type = WORD
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    return tokens


def _not_closed(sql: str, start: int) -> InvalidArgumentError:
    rest = sql[start : start + 40].strip()
    return InvalidArgumentError(f"expected closed quotes and comments at {rest!r}", field="statement")


def is_word(token: Token, *words: str) -> bool:
    """Whether a token is one of these words, in any case."""
    return token.token_type is WORD and token.text.upper() in words


def refuse_names_in_quotes(statement: str, spark: "SparkSession") -> None:
    """Refuse double quotes where a setting of Spark makes them quote names: here they quote strings."""
    setting = "spark.sql.ansi.doubleQuotedIdentifiers"
    if spark.conf.get(setting, "false") != "true" or spark.conf.get("spark.sql.ansi.enabled") != "true":
        return
    if any(token.token_type is STRING and statement[token.start] == '"' for token in tokens_of(statement)):
        raise UnsupportedError(
            f"with {setting}, double quotes mean names, but they are read as strings here",
            field="statement",
            hint="write names in backticks, and strings in single quotes",
        )
