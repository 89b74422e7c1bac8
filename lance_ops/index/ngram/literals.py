"""Literals of a condition: strings that every text has that meets it."""

from collections.abc import Iterable

from lance_ops.filter.expression import Column, Expression, Function, Literal
from lance_ops.filter.junctions import conjuncts
from lance_ops.filter.predicates import Comparison, Like

_SPECIAL = frozenset("\\[](){}|?*+.^$")
_WHOLE = ("contains", "starts_with", "ends_with")


def required_literals(condition: Expression) -> tuple[str, ...]:
    """Return strings that matching values must contain; none if the condition does not imply any."""
    return tuple(literal for part in conjuncts(condition) for literal in _literals(part) if literal)


def _literals(condition: Expression) -> Iterable[str]:
    match condition:
        case Function(name, (Column(), Literal(str(text)))) if name in _WHOLE:
            return (text,)
        case Comparison("=", Column(), Literal(str(text))) | Comparison("=", Literal(str(text)), Column()):
            return (text,)
        case Like(Column(), Literal(str(pattern)), False):
            return _of_like(pattern)
        case Function("regexp_like", (Column(), Literal(str(pattern)))):
            return _of_regex(pattern)
    return ()


def _of_like(pattern: str) -> list[str]:
    """Return the strings between the wildcards of a LIKE pattern."""
    found = [""]
    characters = iter(pattern)
    for character in characters:
        if character in "%_":
            found.append("")
        else:
            found[-1] += next(characters, "\\") if character == "\\" else character
    return found


def _of_regex(pattern: str) -> list[str]:
    """Return the strings between `.`, `.*` and `.+` of a regular expression with only these and anchors."""
    for wildcard in (".*", ".+", "."):
        pattern = pattern.replace(wildcard, "\0")
    parts = pattern.removeprefix("^").removesuffix("$").split("\0")
    return [] if any(_SPECIAL & set(part) for part in parts) else parts
