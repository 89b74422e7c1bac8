"""The parts of a filter that an ordered index can answer: conditions on one column, as intervals."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_ops.filter.expression import Column, Expression, Function, Literal
from lance_ops.filter.literals import to_scalar
from lance_ops.filter.predicates import And, Comparison, InList, IsNull, Like, Not, Or

_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_MOST_INTERVALS = 64
"""A longer IN list is searched as one interval from its least to its greatest value."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Values from `low` to `high`, both included; None for no bound."""

    low: pa.Scalar | None = None
    high: pa.Scalar | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """A superset of the values that meet one condition: some intervals, and null if `nulls`."""

    intervals: tuple[Interval, ...] = ()
    nulls: bool = False


_SOME_VALUE = Range((Interval(),))
"""Negated conditions: only used together with other conditions on the column."""


def value_range(expression: Expression) -> tuple[tuple[str, ...], Range] | None:
    """Return the column of a condition and the range of its values; None for other conditions."""
    match expression:
        case Comparison(op, Column(path), Literal(value, data_type)) if op in _FLIPPED and value is not None:
            return path, _comparison(op, to_scalar(value, data_type))
        case Comparison(op, Literal(value, data_type), Column(path)) if op in _FLIPPED and value is not None:
            return path, _comparison(_FLIPPED[op], to_scalar(value, data_type))
        case InList(Column(path, data_type), values) if values:
            return path, _in_list(values, data_type)
        case IsNull(Column(path)):
            return path, Range(nulls=True)
        case Not(IsNull(Column(path))) | Not(InList(Column(path))):
            return path, _SOME_VALUE
        case Comparison("<>", Column(path), Literal()) | Comparison("<>", Literal(), Column(path)):
            return path, _SOME_VALUE
        case Not(Like(Column(path), Literal())) | Not(Function("starts_with", (Column(path), Literal()))):
            return path, _SOME_VALUE
        case Like(Column(path), Literal(str(pattern), data_type), False):
            return _prefixed(path, _like_prefix(pattern), data_type)
        case Function("starts_with", (Column(path), Literal(str(prefix), data_type))):
            return _prefixed(path, prefix, data_type)
        case Or(operands):
            return _union(operands)
        case And(operands):
            return _first(operands)
    return None


def _comparison(op: str, value: pa.Scalar) -> Range:
    # Open ends count as closed: the condition itself is checked on every value found.
    return Range((Interval(None if op[0] == "<" else value, None if op[0] == ">" else value),))


def _in_list(values: tuple[Any, ...], data_type: pa.DataType) -> Range:
    if len(values) > _MOST_INTERVALS:
        if any(value != value for value in values):
            # NaN has no place among Python's numbers, so it leaves no ends to search between.
            return Range((Interval(),))
        ordered = sorted(values)
        return Range((Interval(to_scalar(ordered[0], data_type), to_scalar(ordered[-1], data_type)),))
    scalars = [to_scalar(value, data_type) for value in values]
    return Range(tuple(Interval(scalar, scalar) for scalar in scalars))


def _prefixed(
    path: tuple[str, ...], prefix: str, data_type: pa.DataType
) -> tuple[tuple[str, ...], Range] | None:
    if not prefix:
        return None
    following = _following_text(prefix)
    return path, Range(
        (
            Interval(
                to_scalar(prefix, data_type), None if following is None else to_scalar(following, data_type)
            ),
        )
    )


def _following_text(prefix: str) -> str | None:
    """Return a string above all strings with the prefix, None if there is none; in code point order."""
    for position in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[position]) + 1
        if 0xD800 <= code <= 0xDFFF:
            code = 0xE000
        if code <= 0x10FFFF:
            return prefix[:position] + chr(code)
    return None


def _like_prefix(pattern: str) -> str:
    """Return the text that all matches of a LIKE pattern begin with."""
    prefix: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character in "%_":
            break
        prefix.append(next(characters, "\\") if character == "\\" else character)
    return "".join(prefix)


def _union(operands: Iterable[Expression]) -> tuple[tuple[str, ...], Range] | None:
    found = [value_range(operand) for operand in operands]
    parts = [part for part in found if part is not None]
    if len(parts) != len(found) or len({path for path, _ in parts}) != 1:
        return None
    intervals = tuple(interval for _, values in parts for interval in values.intervals)
    return parts[0][0], Range(intervals, any(values.nulls for _, values in parts))


def _first(operands: Iterable[Expression]) -> tuple[tuple[str, ...], Range] | None:
    """Return a conjunction inside a disjunction: any operand alone bounds it, if all are on one column."""
    found = [value_range(operand) for operand in operands]
    paths = {part[0] for part in found if part is not None}
    if None in found or len(paths) != 1:
        return None
    return found[0]
