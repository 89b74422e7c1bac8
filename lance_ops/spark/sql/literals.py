"""Literals of Spark's SQL in the SQL of filters, which knows neither suffixes nor backslashes."""

import re
from decimal import Decimal

from lance_ops.errors import InvalidArgumentError, UnsupportedError

_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_THEMSELVES = "\\'\""


def text_literal(written: str) -> str:
    """A text in quotes of either kind.

    Args:
        written: With its quotes.

    Raises:
        InvalidArgumentError: A backslash that Spark would drop, as that of a pattern that was not doubled.
    """
    quote, inner = written[0], written[1:-1]
    text = re.sub(r"\\(.)|" + quote * 2, lambda match: _unescaped(match, quote), inner, flags=re.DOTALL)
    return "'" + text.replace("'", "''") + "'"


def raw_literal(written: str) -> str:
    """A text behind an `r`, in which backslashes are letters like others."""
    return "'" + written[1:-1].replace("'", "''") + "'"


def _unescaped(match: re.Match[str], quote: str) -> str:
    letter = match[1]
    if letter is None:
        return quote
    if letter in _THEMSELVES:
        return str(letter)
    if letter not in _ESCAPED:
        raise InvalidArgumentError(
            f"a backslash before {letter!r} means nothing in a text",
            field="statement",
            hint="write two backslashes for one",
        )
    return _ESCAPED[letter]


def number_literal(digits: str, suffix: str) -> str | None:
    """A number with a suffix that says its type; None where there is no such suffix."""
    match suffix.upper():
        case "Y" | "S" | "L" if digits.isdigit():
            return digits
        case "D":
            return f"CAST({digits} AS DOUBLE)"
        case "F":
            return f"CAST({digits} AS FLOAT)"
        case "BD":
            _, places, exponent = Decimal(digits).as_tuple()
            scale = max(0, -int(exponent))
            return f"CAST('{digits}' AS DECIMAL({max(len(places), scale, 1)}, {scale}))"
    return None


def check_divisor(digits: str | None, suffix: str | None) -> None:
    """See that a division means the same here and in Spark.

    Spark divides to fractions, and fails where the divisor is zero. Filters divide whole numbers to whole
    ones, and fractions by zero to infinity. So all but a constant that is a fraction may select other rows.

    Args:
        digits: The number behind the sign; None when something else stands there.
        suffix: The word right behind that, if any.

    Raises:
        UnsupportedError: It may not.
    """
    is_fraction = digits is not None and (not digits.isdigit() or (suffix or "").upper() in ("D", "F", "BD"))
    if not is_fraction or Decimal(str(digits)) == 0:
        raise UnsupportedError(
            "a division gives other values in filters than in Spark's SQL",
            field="statement",
            hint="divide by a constant with a fraction, such as x / 2.0; or compute the values in a query and"
            " MERGE them",
        )
