"""Literals of Spark's SQL in the SQL of filters, which has neither suffixes nor backslash escapes."""

import re
from decimal import Decimal

from lance_ops.errors import InvalidArgumentError, UnsupportedError

_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_THEMSELVES = "\\'\""


def text_literal(written: str) -> str:
    """Convert a string in single or double quotes.

    Args:
        written: The literal with its quotes.

    Raises:
        InvalidArgumentError: It has a backslash that Spark would drop, such as a single one in a pattern.
    """
    quote, inner = written[0], written[1:-1]
    text = re.sub(r"\\(.)|" + quote * 2, lambda match: _unescaped(match, quote), inner, flags=re.DOTALL)
    return "'" + text.replace("'", "''") + "'"


def raw_literal(written: str) -> str:
    """Convert a string with prefix `r`, in which backslashes are ordinary characters."""
    return "'" + written[1:-1].replace("'", "''") + "'"


def _unescaped(match: re.Match[str], quote: str) -> str:
    letter = match[1]
    if letter is None:
        return quote
    if letter in _THEMSELVES:
        return str(letter)
    if letter not in _ESCAPED:
        raise InvalidArgumentError(
            f"unknown escape: a backslash before {letter!r}",
            field="statement",
            hint="write two backslashes for a backslash",
        )
    return _ESCAPED[letter]


def number_literal(digits: str, suffix: str) -> str | None:
    """Convert a number with a type suffix; None without one."""
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
    """Check that a division has the same result here and in Spark.

    Spark divides to fractions, and fails if the divisor is zero. Filters divide integers to integers, and
    fractions by zero to infinity. So only constant fractions as divisors are certain to select the same rows.

    Args:
        digits: The number after the sign; None for anything else.
        suffix: The word right after it, if any.

    Raises:
        UnsupportedError: It may not.
    """
    is_fraction = digits is not None and (not digits.isdigit() or (suffix or "").upper() in ("D", "F", "BD"))
    if not is_fraction or Decimal(str(digits)) == 0:
        raise UnsupportedError(
            "a division has another result in filters than in Spark's SQL",
            field="statement",
            hint="divide by a constant with a fraction, such as x / 2.0; or compute the values in a query and"
            " MERGE them",
        )
