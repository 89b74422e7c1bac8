"""Reads tokens of statements, and writes the expressions among them in the SQL of filters."""

import re
from collections.abc import Callable
from typing import NoReturn, Self, TypeVar

from lance_ops.errors import InvalidArgumentError
from lance_ops.filter.parse.syntax import FilterParser, Token, TokenType
from lance_ops.filter.spelling import quote
from lance_ops.spark.sql.functions import REWRITES, check_divisor, number_literal, subscript
from lance_ops.spark.sql.statements import Name, Value
from lance_ops.spark.sql.tokens import NUMBER, QUOTED, STRING, WORD, is_word, tokens_of

T = TypeVar("T")

_DEPTHS = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_ESCAPED.update({character: character for character in "\\'\""})


class Translated(str):  # noqa: SLOT000 - text has no slots
    """An expression in the SQL of filters.

    Attributes:
        original: The same in Spark's SQL.
        alias: Of the table in it.
    """

    original: str
    alias: str

    def __new__(cls, text: str, original: str, alias: str = "target") -> Self:
        """An expression in both dialects."""
        made = super().__new__(cls, text)
        made.original, made.alias = original, alias
        return made


class Reader(FilterParser):
    """A parser of sqlglot that takes the tokens of a statement one by one.

    Expressions go to the filters as text, which sets long lists and chains aside before it makes a tree of
    them: here only their end is found, and written otherwise what Spark spells otherwise.

    Args:
        sql: The statement.
    """

    def __init__(self, sql: str) -> None:
        super().__init__()
        self.sql = sql
        self._tokens = tokens_of(sql)
        self._tokens_size = len(self._tokens)
        self._advance(0)

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        """Raise the error that says what was expected, and where."""
        here = token or self._curr
        rest = self.sql[here.start : here.start + 40].strip() if here else "the end"
        raise InvalidArgumentError(
            f"expected {message.removeprefix('Expecting ')} at {rest!r}", field="statement"
        )

    def restart(self) -> None:
        """Go back to the begin."""
        self._retreat(0)

    def sees(self, *texts: str) -> bool:
        """Whether these words or signs come next."""
        return self._match_text_seq(*texts, advance=False)

    def takes(self, *texts: str) -> bool:
        """Take these words or signs, if they come next."""
        return self._match_text_seq(*texts)

    def expect(self, *texts: str) -> None:
        """Take these words or signs."""
        if not self._match_text_seq(*texts):
            self.raise_error(" ".join(text if text.isalpha() else repr(text) for text in texts))

    def expect_end(self) -> None:
        """See that nothing is left."""
        if self._curr:
            self.raise_error("the end")

    def identifier(self, what: str = "a name") -> str:
        """A name of one part; strings count, too, as the connector allows them for tags."""
        kind = self._curr.token_type
        if kind not in (WORD, QUOTED, STRING) or (kind is QUOTED and not self._curr.text):
            self.raise_error(what)
        self._advance()
        return self._prev.text

    def name(self, what: str = "the name of a table") -> Name:
        """A name of one or more parts."""
        return tuple(self._parse_csv(lambda: self.identifier(what), sep=TokenType.DOT))

    def separated(self, parse: Callable[[], T]) -> list[T]:
        """One or more items between commas."""
        return self._parse_csv(parse)

    def in_parentheses(self, parse: Callable[[], T]) -> list[T]:
        """One or more items between commas, in parentheses."""
        return self._parse_wrapped_csv(parse)

    def columns(self) -> tuple[Name, ...]:
        """Names of columns between commas, in parentheses or not."""
        return tuple(self._parse_wrapped_csv(lambda: self.name("a column"), optional=True))

    def alias(self, *stops: str) -> str | None:
        """The alias of a table, if there is one; words that go on with the statement are none."""
        has_alias = self.takes("AS") or (
            self._curr.token_type in (WORD, QUOTED) and not is_word(self._curr, *stops)
        )
        return self.identifier("an alias") if has_alias else None

    def value(self) -> Value:
        """A literal: a number, a string, true or false."""
        if self.takes("TRUE"):
            return True
        if self.takes("FALSE"):
            return False
        sign = -1 if self.takes("-") else 1
        if not self._match(NUMBER):
            return self.identifier("a value")
        text = self._prev.text
        return sign * (int(text) if text.isdigit() else float(text))

    def options(self) -> dict[str, Value]:
        """`WITH (name = value, ...)`, if it comes next; names in small letters."""
        found: dict[str, Value] = {}
        if not self.takes("WITH"):
            return found
        self.expect("(")
        while not self.takes(")"):
            name = self.identifier("an option").lower()
            if name in found:
                raise InvalidArgumentError(f"the option {name!r} stands twice", field="WITH")
            self.expect("=")
            found[name] = self.value()
            if not self.takes(","):
                self.expect(")")
                break
        return found

    def rest(self) -> str:
        """All that is left, as it was written."""
        start = self._curr
        if not start:
            self.raise_error("a query")
        self._advance(self._tokens_size - self._index)
        return self._find_sql(start, self._prev)

    def parenthesized(self) -> str:
        """What stands between this parenthesis and the one that closes it, as it was written."""
        self.expect("(")
        start, depth = self._prev.end + 1, 1
        while depth and self._curr:
            depth += _DEPTHS.get(self._curr.token_type, 0)
            self._advance()
        if depth:
            self.raise_error("a closing parenthesis")
        return self.sql[start : self._prev.start].strip()

    # Expressions

    def translate(self, *stops: str, prefixes: dict[str, str]) -> Translated:
        """Translate an expression, up to its end.

        Args:
            *stops: Words and signs that end it outside of parentheses; they stay.
            prefixes: What becomes of a prefix `name.`, by the name in small letters: another one, or "" for
                none.

        Raises:
            InvalidArgumentError: There is none, or a string has an escape that means nothing.
            UnsupportedError: Filters have no way to write it.
        """
        first, start, depth = self._curr, self._index, 0
        parts: list[str] = []
        while self._curr and (depth or not (self.sees(")") or self.sees(";") or any(map(self.sees, stops)))):
            token, before = self._curr, self._prev
            depth += _DEPTHS.get(token.token_type, 0)
            kinds = {token.token_type, before.token_type}
            # Strings without a space between them would be one, with a quote in it.
            apart = TokenType.NULLSAFE_EQ in kinds or kinds <= {STRING, TokenType.RAW_STRING}
            if self._index > start and (apart or not self._is_connected()):
                parts.append(" ")
            is_member = self._index > start and before.token_type is TokenType.DOT
            self._advance()
            parts.append(self._translated(token, prefixes, is_member=is_member))
        text = "".join(parts).strip()
        if not text:
            self.raise_error("an expression")
        alias = next((name for name, to in prefixes.items() if not to), "target")
        return Translated(text, self._find_sql(first, self._prev), alias)

    def _translated(self, token: Token, prefixes: dict[str, str], *, is_member: bool) -> str:
        """A token, with what belongs to it, in the SQL of filters."""
        written = self._find_sql(token, token)
        kind, name = token.token_type, token.text.lower()
        if kind in (WORD, QUOTED) and not is_member and name in prefixes and self.takes("."):
            return f"{prefixes[name]}." if prefixes[name] else ""
        rewrite = REWRITES.get(name) if kind is WORD and not is_member else None
        if rewrite is not None and self.takes("("):
            arguments: list[str] = []
            while not self.takes(")"):
                try:
                    arguments.append(self.translate(",", prefixes=prefixes))
                except RecursionError:
                    self.raise_error("calls that are nested less deeply")
                if not self.takes(","):
                    self.expect(")")
                    break
            return rewrite(name, arguments)
        if kind is STRING:
            return self._string(written)
        if kind is TokenType.RAW_STRING:
            return quote(token.text)
        if kind is TokenType.NULLSAFE_EQ:
            return "IS NOT DISTINCT FROM"
        if kind is TokenType.L_BRACKET and self._next and self._curr.token_type is not STRING:
            self._advance()
            return f"[{subscript(self._prev.text if self.sees(']') else '...')}"
        if kind is TokenType.SLASH:
            has_suffix = self._next.token_type is WORD and self._curr.end + 1 == self._next.start
            is_number = self._curr.token_type is NUMBER
            check_divisor(self._curr.text if is_number else "", self._next.text if has_suffix else "")
        if kind is NUMBER and self._curr.token_type is WORD and self._is_connected():
            number = number_literal(token.text, self._curr.text)
            self._advance(number is not None)
            return number or written
        return written

    def _string(self, written: str) -> str:
        """A string in single quotes, without escapes.

        Args:
            written: With its quotes.
        """

        def unescaped(match: re.Match[str]) -> str:
            if match[1] and match[1] not in _ESCAPED:
                raise InvalidArgumentError(
                    f"a backslash before {match[1]!r} means nothing in a text",
                    field="statement",
                    hint="write two backslashes for one",
                )
            return _ESCAPED[match[1]] if match[1] else written[0]

        return quote(re.sub(r"\\(.)|" + written[0] * 2, unescaped, written[1:-1], flags=re.DOTALL))


def translated(sql: str) -> Translated:
    """Translate an expression of Spark's SQL into the SQL of filters.

    Raises:
        InvalidArgumentError: More stands behind it.
        UnsupportedError: Filters have no way to write it.
    """
    reader = Reader(sql)
    found = reader.translate(prefixes={})
    reader.expect_end()
    return found
