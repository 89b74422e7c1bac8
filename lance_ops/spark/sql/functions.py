"""Functions and numbers of Spark's SQL in the SQL of filters, where the same text means something else.

A call with another result than in Spark is rewritten or rejected: no other rows may be deleted or changed
than by Spark. Functions not listed here have the same result in both.
"""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal

from lance_ops.errors import UnsupportedError

_COUNT = re.compile(r"\d+")
_SAME_PARTS = frozenset(("year", "quarter", "month", "week", "day", "doy", "hour", "minute"))


def subscript(index: str) -> str:
    """Convert the position of an array item, which Spark counts from 0, and filters from 1.

    Raises:
        UnsupportedError: It is not a number.
    """
    if not _COUNT.fullmatch(index):
        raise _refused(f"[{index}]", "write the position as a number")
    return str(int(index) + 1)


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


def check_divisor(digits: str, suffix: str) -> None:
    """Refuse a division that means something else in Spark.

    Spark divides to fractions, and fails if the divisor is zero. Filters divide integers to integers, and
    fractions by zero to infinity. So only constant fractions as divisors are certain to select the same rows.

    Args:
        digits: The number behind the sign; empty when something else stands there.
        suffix: The word right behind that; empty for none.

    Raises:
        UnsupportedError: It may select other rows.
    """
    is_fraction = not digits.rstrip(".").isdigit() or suffix.upper() in {"D", "F", "BD"}
    if not digits or not is_fraction or Decimal(digits) == 0:
        raise _refused(
            "a division",
            "divide by a constant with a fraction, such as x / 2.0; or compute the values in a query, and"
            " MERGE them",
        )


def _refused(what: str, hint: str = "compute the values in a query, and MERGE them") -> UnsupportedError:
    return UnsupportedError(
        f"{what} has another result in filters than in Spark's SQL", field="statement", hint=hint
    )


def _plain(name: str, arguments: Sequence[str]) -> str:
    return f"{name}({', '.join(arguments)})"


def _refuse(name: str, arguments: Sequence[str]) -> str:
    raise _refused(_plain(name, arguments))


def _concat(name: str, arguments: Sequence[str]) -> str:
    """Rewrite concat: null if an argument is null."""
    if not arguments:
        return _plain(name, arguments)
    parts = arguments if len(arguments) > 1 else (*arguments, "''")
    return "(" + " || ".join(f"({part})" for part in parts) + ")"


def _logarithm(name: str, arguments: Sequence[str]) -> str:
    """Rewrite log: null if undefined; without a base the natural logarithm."""
    if name == "log" and len(arguments) == 1:
        name = "ln"
    tests = " AND ".join(f"({argument}) > 0" for argument in arguments)
    return f"(CASE WHEN {tests} THEN {_plain(name, arguments)} END)"


def _substring(name: str, arguments: Sequence[str]) -> str:
    """Rewrite substring: position 0 is the first; negative ones count from the end."""
    if len(arguments) == 1:
        if re.search(r"\sFROM\s+0*[1-9]\d*(\s+FOR\s|$)", arguments[0], re.IGNORECASE):
            return _plain(name, arguments)
        raise _refused(_plain(name, arguments), "write the position as a number above 0")
    if not _COUNT.fullmatch(arguments[1]):
        raise _refused(_plain(name, arguments), "write the position as a number, at least 0")
    return _plain(name, (arguments[0], str(max(1, int(arguments[1]))), *arguments[2:]))


def _side(name: str, arguments: Sequence[str]) -> str:
    """Rewrite left and right: a negative length gives an empty string."""
    if len(arguments) == 2 and not _COUNT.fullmatch(arguments[1]):
        raise _refused(_plain(name, arguments), "write the length as a number, at least 0")
    return _plain(name, arguments)


def _trim(name: str, arguments: Sequence[str]) -> str:
    """Rewrite trim: the characters to trim come first."""
    return _plain(name, arguments[::-1] if len(arguments) == 2 else arguments)


def _replace(name: str, arguments: Sequence[str]) -> str:
    """Rewrite replace: an empty search string is never found."""
    if len(arguments) != 3:
        raise _refused(_plain(name, arguments), "add the replacement, '' for none")
    text, searched, _ = arguments
    if re.fullmatch(r"'[^']+'", searched):
        return _plain(name, arguments)
    return f"(CASE WHEN ({searched}) = '' THEN {text} ELSE {_plain(name, arguments)} END)"


def _character(name: str, arguments: Sequence[str]) -> str:
    """Rewrite char: numbers wrap around at 256."""
    if len(arguments) == 1 and _COUNT.fullmatch(arguments[0]) and 0 < int(arguments[0]) < 256:
        return _plain(name, arguments)
    raise _refused(_plain(name, arguments), "write a number from 1 to 255, or the character as a string")


def _regexp_replace(name: str, arguments: Sequence[str]) -> str:
    """Rewrite regexp_replace: all matches are replaced."""
    if len(arguments) != 3:
        raise _refused(_plain(name, arguments))
    return _plain(name, (*arguments, "'g'"))


def _regexp_count(name: str, arguments: Sequence[str]) -> str:
    """Rewrite regexp_count: null if an argument is null."""
    if len(arguments) != 2:
        raise _refused(_plain(name, arguments))
    tests = " AND ".join(f"({argument}) IS NOT NULL" for argument in arguments)
    return f"(CASE WHEN {tests} THEN {_plain(name, arguments)} END)"


def _isnan(name: str, arguments: Sequence[str]) -> str:
    """Rewrite isnan: false for null."""
    return f"coalesce({_plain(name, arguments)}, FALSE)"


def _round(name: str, arguments: Sequence[str]) -> str:
    """Rewrite round: digits after the point are those of the number as written."""
    if len(arguments) == 2 and not re.fullmatch(r"0|-\s*\d+", arguments[1]):
        raise _refused(_plain(name, arguments))
    return _plain(name, arguments)


def _part(name: str, arguments: Sequence[str]) -> str:
    """Rewrite date_part: weeks start with day 1, and seconds have fractions."""
    match = re.match(r"'?(\w+)'?(\s+FROM\s|$)", arguments[0], re.IGNORECASE) if arguments else None
    if match is None or match[1].lower() not in _SAME_PARTS:
        raise _refused(_plain(name, arguments), f"there are {', '.join(sorted(_SAME_PARTS))}")
    return _plain(name, arguments)


def _renamed(other: str) -> Callable[[str, Sequence[str]], str]:
    return lambda _, arguments: _plain(other, arguments)


REWRITES: dict[str, Callable[[str, Sequence[str]], str]] = {
    "concat": _concat,
    **dict.fromkeys(("ln", "log", "log2", "log10"), _logarithm),
    **dict.fromkeys(("substr", "substring"), _substring),
    **dict.fromkeys(("left", "right"), _side),
    **dict.fromkeys(("ltrim", "rtrim", "trim"), _trim),
    "replace": _replace,
    "chr": _character,
    "regexp_replace": _regexp_replace,
    "regexp_count": _regexp_count,
    "isnan": _isnan,
    "round": _round,
    **dict.fromkeys(("extract", "date_part", "datepart"), _part),
    **dict.fromkeys(("initcap", "to_char", "date_format", "from_unixtime"), _refuse),
    "startswith": _renamed("starts_with"),
    "endswith": _renamed("ends_with"),
}
