"""Tokens of SQL, and a reader of them.

The statements here are not part of any dialect of a parser library, and their expressions are passed to the
filters and updates of lance_ops as written, so a statement is read token by token.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Self

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.spark.sql import functions
from lance_ops.spark.sql.literals import check_divisor, number_literal, raw_literal, text_literal
from lance_ops.spark.sql.statements import Name, Value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<quoted>`(?:[^`]|``)+`)
    |(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<word>[^\W\d]\w*)
    |(?P<sign><=>|<>|!=|<=|>=|==|\|\||[^\s])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token: kind, text without quotes, and position."""

    kind: str
    text: str
    start: int
    stop: int

    def is_word(self, *words: str) -> bool:
        """Return whether it is one of these words, in any case."""
        return self.kind == "word" and self.text.upper() in words

    def is_sign(self, *signs: str) -> bool:
        """Return whether it is one of these signs."""
        return self.kind == "sign" and self.text in signs


class Translated(str):  # noqa: SLOT000 - text has no slots
    """An expression in the SQL of filters.

    Attributes:
        original: The expression in Spark's SQL.
        alias: Alias of the table in it.
    """

    original: str
    alias: str

    def __new__(cls, text: str, original: str, alias: str = "target") -> Self:
        """Create an expression in both dialects."""
        made = super().__new__(cls, text)
        made.original, made.alias = original, alias
        return made


def tokens_of(sql: str) -> list[Token]:
    """Split a statement into tokens, without comments and a final semicolon."""
    found = []
    for match in _TOKEN.finditer(sql):
        kind, text = str(match.lastgroup), match.group()
        if kind == "quoted":
            text = text[1:-1].replace("``", "`")
        elif kind == "text":
            quote, inner = text[0], text[1:-1]
            text = re.sub(r"\\(.)", r"\1", inner.replace(quote * 2, quote), flags=re.DOTALL)
        if kind != "space":
            found.append(Token(kind, text, *match.span()))
    while found and found[-1].is_sign(";"):
        found.pop()
    return found


class Reader:
    """Reads a statement from start to end.

    Args:
        sql: The statement.
    """

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self._tokens = tokens_of(sql)
        self._at = 0

    def fail(self, expected: str) -> NoReturn:
        """Raise an error that says what is expected here."""
        here = self._tokens[self._at].start if self._at < len(self._tokens) else len(self._sql)
        rest = self._sql[here : here + 40].strip() or "the end"
        raise InvalidArgumentError(f"expected {expected} at {rest!r}", field="statement")

    @property
    def at_end(self) -> bool:
        """Return whether all tokens are read."""
        return self._at >= len(self._tokens)

    def sees(self, *words: str) -> bool:
        """Return whether these words are next."""
        ahead = self._tokens[self._at : self._at + len(words)]
        return len(ahead) == len(words) and all(
            token.is_word(word) for token, word in zip(ahead, words, strict=True)
        )

    def takes(self, *words: str) -> bool:
        """Read these words, if they are next."""
        if not self.sees(*words):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Read these words, or fail."""
        if not self.takes(*words):
            self.fail(" ".join(words))

    def takes_sign(self, sign: str) -> bool:
        """Read a sign, if it is next."""
        if self.at_end or not self._tokens[self._at].is_sign(sign):
            return False
        self._at += 1
        return True

    def expect_sign(self, sign: str) -> None:
        """Read a sign, or fail."""
        if not self.takes_sign(sign):
            self.fail(repr(sign))

    def expect_end(self) -> None:
        """Check that all tokens are read."""
        if not self.at_end:
            self.fail("the end")

    def next(self, what: str, *kinds: str) -> Token:
        """Read a token of one of these kinds, or fail."""
        if self.at_end or self._tokens[self._at].kind not in kinds:
            self.fail(what)
        self._at += 1
        return self._tokens[self._at - 1]

    def identifier(self, what: str = "a name") -> str:
        """Read a name of one part; quoted strings are accepted, too, as connectors allow them for tags."""
        return self.next(what, "word", "quoted", "text").text

    def name(self, what: str = "a table name") -> Name:
        """Read a name of one or more parts."""
        parts = [self.identifier(what)]
        while self.takes_sign("."):
            parts.append(self.identifier(what))
        return tuple(parts)

    def names(self) -> list[Name]:
        """Read names of columns separated by commas, in parentheses or not."""
        in_brackets = self.takes_sign("(")
        names = [self.name("a column")]
        while self.takes_sign(","):
            names.append(self.name("a column"))
        if in_brackets:
            self.expect_sign(")")
        return names

    def alias(self, *stops: str) -> str | None:
        """Read the alias of a table, if there is one; keywords of the statement are not aliases."""
        if self.takes("AS"):
            return self.identifier("an alias")
        if self.at_end or self._tokens[self._at].kind not in ("word", "quoted"):
            return None
        return None if self._tokens[self._at].is_word(*stops) else self.identifier()

    def value(self) -> Value:
        """Read a literal: a number, a string, true or false."""
        if self.takes("TRUE"):
            return True
        if self.takes("FALSE"):
            return False
        sign = -1 if self.takes_sign("-") else 1
        token = self.next("a value", "number", "text", "word", "quoted")
        if token.kind != "number":
            return token.text
        return sign * (int(token.text) if token.text.isdigit() else float(token.text))

    def options(self) -> dict[str, Value]:
        """Read `WITH (name = value, ...)`, if it is next; names in lower case."""
        found: dict[str, Value] = {}
        if not self.takes("WITH"):
            return found
        self.expect_sign("(")
        while not self.takes_sign(")"):
            name = self.identifier("an option").lower()
            if name in found:
                raise InvalidArgumentError(f"duplicate option {name!r}", field="WITH")
            self.expect_sign("=")
            found[name] = self.value()
            if not self.takes_sign(","):
                self.expect_sign(")")
                break
        return found

    def expression(self, *stops: tuple[str, ...], comma: bool = False, prefixes: dict[str, str]) -> str:
        """Read the text up to some words outside of brackets, or to the end.

        Args:
            *stops: Words that end it; they are not read.
            comma: True if a comma outside of brackets ends it, too.
            prefixes: Replacements of a prefix `name.`, by the name in lower case: another one, or "" for
                none.
        """
        parts: list[str] = []
        depth = 0
        last: Token | None = None
        while not self.at_end:
            token = self._tokens[self._at]
            if depth == 0 and ((comma and token.is_sign(",")) or any(self.sees(*stop) for stop in stops)):
                break
            if depth == 0 and token.is_sign(")", ";"):
                break
            depth += token.is_sign("(") - token.is_sign(")")
            if last is not None and token.start > last.stop:
                parts.append(" ")
            starts = last is None or not last.is_sign(".")
            last = token
            self._at += 1
            follows = self._at < len(self._tokens) and self._tokens[self._at].is_sign(".")
            if follows and starts and token.kind in ("word", "quoted") and token.text.lower() in prefixes:
                replaced = prefixes[token.text.lower()]
                self._at += 1
                last = self._tokens[self._at - 1]
                parts.append(f"{replaced}." if replaced else "")
            elif (call := self._call(token, prefixes) if starts else None) is not None:
                parts.append(call)
                last = self._tokens[self._at - 1]
            else:
                parts.append(self._to_filter_sql(token))
        text = "".join(parts).strip()
        if not text:
            self.fail("an expression")
        return text

    def translated(
        self, *stops: tuple[str, ...], comma: bool = False, prefixes: dict[str, str]
    ) -> Translated:
        """Read an expression, with its original; see `expression`."""
        start = self._at
        text = self.expression(*stops, comma=comma, prefixes=prefixes)
        original = self._sql[self._tokens[start].start : self._tokens[self._at - 1].stop]
        return Translated(text, original, next((name for name, to in prefixes.items() if not to), "target"))

    def _call(self, token: Token, prefixes: dict[str, str]) -> str | None:
        """Read a whole call of a function, or array subscript, that filters write differently."""
        name = token.text.lower()
        if token.kind == "word" and functions.is_known(name) and self.takes_sign("("):
            arguments: list[str] = []
            while not self.takes_sign(")"):
                arguments.append(self.expression(comma=True, prefixes=prefixes))
                if not self.takes_sign(","):
                    self.expect_sign(")")
                    break
            return functions.call(name, arguments)
        closing = self._tokens[self._at + 1 : self._at + 2]
        if token.is_sign("[") and self._tokens[self._at].kind != "text" and closing:
            index = self.next("a position", "number", "word", "quoted", "sign").text
            if not closing[0].is_sign("]"):
                index += " ..."
            self._at += 1
            return f"[{functions.subscript(index)}]"
        return None

    def _to_filter_sql(self, token: Token) -> str:
        """Convert a token, with related ones, to the SQL of filters."""
        written = self._sql[token.start : token.stop]
        if token.is_sign("<=>"):
            return "IS NOT DISTINCT FROM"
        if token.kind == "text":
            return text_literal(written)
        after = self._tokens[self._at] if self._at < len(self._tokens) else None
        if token.is_sign("/"):
            ahead = self._tokens[self._at : self._at + 2]
            is_number = bool(ahead) and ahead[0].kind == "number"
            has_suffix = len(ahead) == 2 and ahead[0].stop == ahead[1].start and ahead[1].kind == "word"
            check_divisor(ahead[0].text if is_number else None, ahead[1].text if has_suffix else None)
        found = None
        if after is not None and after.start == token.stop:
            if token.kind == "number" and after.kind == "word":
                found = number_literal(token.text, after.text)
            elif token.is_word("R") and after.kind == "text":
                found = raw_literal(self._sql[after.start : after.stop])
        self._at += found is not None
        return found or written

    def rest(self) -> str:
        """Read the remaining text, as written."""
        if self.at_end:
            self.fail("a query")
        start, stop = self._tokens[self._at].start, self._tokens[-1].stop
        self._at = len(self._tokens)
        return self._sql[start:stop]

    def bracketed(self) -> str:
        """Read the text between this bracket and the matching one."""
        self.expect_sign("(")
        start, depth = self._tokens[self._at - 1].stop, 1
        while depth and not self.at_end:
            depth += self._tokens[self._at].is_sign("(") - self._tokens[self._at].is_sign(")")
            self._at += 1
        if depth:
            self.fail("a closing bracket")
        return self._sql[start : self._tokens[self._at - 1].start].strip()


def translated(sql: str) -> Translated:
    """Translate an expression of Spark's SQL to the SQL of filters, with its original.

    Raises:
        InvalidArgumentError: More text follows it.
        UnsupportedError: Filters cannot express it.
    """
    reader = Reader(sql)
    found = reader.translated(prefixes={})
    reader.expect_end()
    return found


def refuse_names_in_quotes(statement: str, spark: "SparkSession") -> None:
    """Check for double quotes if Spark reads them as names: the condition would have another meaning."""
    setting = "spark.sql.ansi.doubleQuotedIdentifiers"
    if spark.conf.get(setting, "false") != "true" or spark.conf.get("spark.sql.ansi.enabled") != "true":
        return
    if any(token.kind == "text" and statement[token.start] == '"' for token in tokens_of(statement)):
        raise UnsupportedError(
            f"with {setting}, double quotes mean names, but they are read as strings here",
            field="statement",
            hint="write names in backticks, and strings in single quotes",
        )
