"""SQL text to a syntax tree, with sqlglot.

The dialect is pylance's, not that of any database: column names may stand in backticks, text in single or
double quotes, the backslash is an ordinary character, `x'6162'` is binary, and few words are reserved, so
that columns may be called `order` or `date`. Only the grammar of one scalar expression is reachable; what
sqlglot accepts beyond it is refused where the syntax tree is resolved.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.parser import IsPredicatePrecedence, Parser
from sqlglot.tokens import Token as Token  # type: ignore[attr-defined]  # exported, but not by `__all__`
from sqlglot.tokens import Tokenizer
from sqlglot.tokens import TokenType as TokenType  # type: ignore[attr-defined]

from lance_ops.errors import PredicateError
from lance_ops.filter.parse.chains import SET_ASIDE, Aside, Constant, aside_of, set_chains_aside
from lance_ops.filter.parse.lists import set_lists_aside, set_long_lists_aside

MAX_NESTING = 40
"""Levels of parentheses, brackets and CASE; pylance refuses a little more than this."""

_WORDS = {
    *("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ILIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"),
    *("CASE", "WHEN", "THEN", "ELSE", "END", "AS", "FROM", "FOR", "OVER", "INTERVAL"),
}
_TYPE_WORDS = {
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "FLOAT", "REAL", "DOUBLE", "DECIMAL"),
    *("NUMERIC", "STRING", "TEXT", "VARCHAR", "BINARY", "DATE", "TIMESTAMP", "DATETIME"),
}
_BAD_HEX = re.compile(r"(?<!\w)[xX]'(?![0-9a-fA-F]*')")
_TEMPLATE_COMMENT = "{#"
_COMMENT_HINT = "comments are written /* ... */, or -- up to the end of the line"
_SYMBOLS = {"==", "::", "||", ">=", "<=", "<>", "!="}
_SQL_CLAUSES = {"SELECT", "WHERE", "ORDER", "GROUP", "LIMIT", "UNION", "EXISTS", "JOIN"}
_FOREIGN_SIGNS = {
    TokenType.L_BRACE,
    TokenType.R_BRACE,
    TokenType.PLACEHOLDER,
    TokenType.PARAMETER,
    TokenType.HASH,
}


class FilterTokenizer(Tokenizer):
    """The words and quotes of a filter."""

    IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`"]
    QUOTES: ClassVar[list[tuple[str, str] | str]] = ["'", '"']
    STRING_ESCAPES: ClassVar[list[str]] = ["'", '"']
    HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("x'", "'"), ("X'", "'"), ("0x", "")]
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        word: kind for word, kind in Tokenizer.KEYWORDS.items() if word in _WORDS | _TYPE_WORDS | _SYMBOLS
    }


class FilterParser(Parser):
    """The grammar of a filter: a function is just a name with arguments, IS binds looser than `=`."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: Parser.FUNCTION_PARSERS[name]
        for name in ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION")
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CASE": Parser.NO_PAREN_FUNCTION_PARSERS["CASE"],
    }
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    IS_PREDICATE_PRECEDENCE = IsPredicatePrecedence.LOW


@dataclass(frozen=True, slots=True)
class Syntax:
    """A parsed filter.

    `asides` holds what was set aside: IN lists that consist of constants only, and chains of plain
    conditions. There may be a hundred thousand of these.
    """

    sql: str
    root: exp.Expr
    asides: tuple[Aside, ...]

    def aside(self, node: exp.Expr) -> Aside | None:
        """Return the content of a placeholder; None for any other node."""
        return aside_of(node.name, self.asides) if isinstance(node, exp.Column) else None

    def constants(self, node: exp.In) -> tuple[Constant, ...] | None:
        """Return the constants of an IN, if its list was set aside."""
        items = node.expressions
        found = self.aside(items[0]) if len(items) == 1 else None
        return found if isinstance(found, tuple) else None

    def fail(self, message: str, at: exp.Expr | int | None, hint: str | None = None) -> NoReturn:
        """Raise a `PredicateError` that shows the place."""
        start = position(at) if isinstance(at, exp.Expr) else at
        fail(self.sql, message, start, hint)


def parse_syntax(sql: str) -> Syntax:
    """Parse the text of a filter.

    Raises:
        PredicateError: It is not one SQL expression.
    """
    if not sql.strip():
        raise PredicateError(
            "the filter is empty", hint='give an SQL condition such as "x > 5", or no filter'
        )
    if SET_ASIDE in sql:
        fail(sql, "a filter cannot contain a NUL character", sql.index(SET_ASIDE))
    asides: list[Aside] = []
    shortened = set_long_lists_aside(sql, asides)
    tokens = _tokenize(sql, shortened)
    _check_tokens(sql, tokens)
    _check_gaps(sql, shortened, tokens)
    tokens = set_chains_aside(set_lists_aside(tokens, asides), asides)
    try:
        parser = FilterParser(error_level=ErrorLevel.IMMEDIATE)
        roots = parser.parse_into(exp.Condition, tokens, sql)
    except ParseError as error:
        _fail_to_parse(sql, tokens, error)
    except RecursionError:
        raise PredicateError("the filter is nested too deeply", hint=_NESTING_HINT) from None
    if len(roots) != 1 or roots[0] is None:
        start = next((token.start for token in tokens if token.token_type == TokenType.SEMICOLON), None)
        fail(sql, "a filter is one condition, not several statements", start)
    return Syntax(sql, roots[0], tuple(asides))


def position(node: exp.Expr) -> int | None:
    """Return the position of a syntax node in the string, if sqlglot has it."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(starts, default=None)


def fail(sql: str, message: str, start: int | None, hint: str | None = None) -> NoReturn:
    """Raise a `PredicateError` that shows the place in the text."""
    if start is None:
        raise PredicateError(message, field=_shorten(sql), hint=hint)
    before, after = sql[max(0, start - 30) : start], sql[start : start + 30]
    ellipses = ("..." if start > 30 else "", "..." if start + 30 < len(sql) else "")
    place = f"at character {start + 1}: {ellipses[0]}{before} >>> {after}{ellipses[1]}"
    raise PredicateError(f"{message}, {place}", hint=hint)


def _shorten(sql: str) -> str:
    return sql if len(sql) <= 100 else f"{sql[:100]}..."


def _fail_to_parse(sql: str, tokens: list[Token], error: ParseError) -> NoReturn:
    details = error.errors[0] if error.errors else {}
    found = str(details.get("highlight") or "")
    line, column = int(details.get("line") or 1), int(details.get("col") or 1)
    start = len("".join(sql.splitlines(keepends=True)[: line - 1])) + column - len(found)
    description = str(details.get("description") or "the filter does not parse")
    hint = None
    if "Required keyword" in description:
        description = "an operand is missing"
        hint = "conditions are joined by AND" if found == "&" else f"add what follows {found}, or remove it"
    elif "Unexpected token" in description:
        description = f"expected an operator or the end of the filter, found {found!r}"
        hint = "column names with spaces, signs or reserved words need backticks: `my column`"
    elif description.startswith("Expecting"):
        description = description.replace("Expecting", "expected", 1)
        hint = "each opening parenthesis needs a closing one" if description == "expected )" else None
    if any(token.token_type == TokenType.SEMICOLON for token in tokens):
        hint = "a filter is a single condition, without ; and further statements"
    if any(token.token_type == TokenType.VAR and token.text.upper() in _SQL_CLAUSES for token in tokens):
        if description.startswith("expected )"):
            description = "subqueries are not supported"
        hint = "a filter is a single condition, without SELECT, subqueries or clauses"
    fail(sql, description, max(start, 0) if details else None, hint)


_NESTING_HINT = f"at most {MAX_NESTING} levels of parentheses are supported; flatten it, or use IN"


def _tokenize(sql: str, shortened: str) -> list[Token]:
    try:
        return list(FilterTokenizer().tokenize(shortened))
    except TokenError as error:
        odd = _BAD_HEX.search(sql)
        if odd is not None:
            fail(sql, "x'...' takes hexadecimal digits", odd.start())
        quotes = [quote for quote in "'\"`" if sql.count(quote) % 2]
        what = f"a {quotes[0]} is not closed" if quotes else f"the filter cannot be read: {error}"
        hint = f"close it; inside of the quotes, {quotes[0]} is written twice" if quotes else None
        fail(sql, what, sql.rindex(quotes[0]) if quotes else None, hint)


def _check_tokens(sql: str, tokens: Iterable[Token]) -> None:
    """Refuse foreign signs, and nesting that the recursive parser could not take."""
    depth = signs = 0
    for token in tokens:
        kind = token.token_type
        # Most tokens of a long list; looking up the kind in a set takes ten times as long.
        if kind is TokenType.COMMA or kind is TokenType.NUMBER or kind is TokenType.STRING:
            signs = 0
            continue
        if kind in _FOREIGN_SIGNS:
            fail(sql, f"{token.text!r} has no meaning in a filter", token.start)
        depth = max(0, depth + _DEPTH_CHANGES.get(kind, 0))
        signs = signs + 1 if kind in _PREFIX_SIGNS else 0
        if max(depth, signs) > MAX_NESTING:
            fail(sql, "the filter is nested too deeply", token.start, _NESTING_HINT)


def _check_gaps(sql: str, shortened: str, tokens: Iterable[Token]) -> None:
    """Refuse `{# ... #}`, which sqlglot drops as a comment: pylance ends the filter there."""
    if _TEMPLATE_COMMENT not in shortened:
        return
    stop = 0
    for start, end in (*((token.start, token.end + 1) for token in tokens), (len(shortened), 0)):
        found = shortened.find(_TEMPLATE_COMMENT, stop, start)
        if found >= 0:
            fail(sql, f"{_TEMPLATE_COMMENT!r} has no meaning in a filter", found, _COMMENT_HINT)
        stop = end


_DEPTH_CHANGES = {
    TokenType.L_PAREN: 1,
    TokenType.L_BRACKET: 1,
    TokenType.CASE: 1,
    TokenType.R_PAREN: -1,
    TokenType.R_BRACKET: -1,
    TokenType.END: -1,
}
_PREFIX_SIGNS = {TokenType.NOT, TokenType.DASH, TokenType.PLUS}
