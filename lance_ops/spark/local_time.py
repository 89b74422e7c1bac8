"""Time zone of the session: Spark reads timestamps without a zone in it, and filters in UTC."""

import re
from typing import TYPE_CHECKING

import pyarrow.types as pat

from lance_ops.errors import UnsupportedError
from lance_ops.filter.expression import Column, Expression, Literal
from lance_ops.filter.predicates import And, Comparison, InList, IsNull, Not, Or

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UTC = frozenset({"UTC", "ETC/UTC", "GMT", "Z", "+00:00", "ETC/GMT", "ZULU", "ETC/ZULU"})
_ZONED = re.compile(r":.*(?:Z|UTC|[+-]\d{1,2}(?::?\d{2})?)$", re.IGNORECASE)
_TEXT = re.compile(r"'((?:[^']|'')*)'")
_DATED = re.compile(r"\s*\d+-\d")


def session_zone(spark: "SparkSession") -> str:
    """Return the time zone of a session."""
    return str(spark.conf.get("spark.sql.session.timeZone", "UTC"))


def is_utc(zone: str) -> bool:
    """Return whether the name of a zone means UTC."""
    return zone.upper() in _UTC


def has_zone(text: str) -> bool:
    """Return whether a timestamp literal has a time zone."""
    return _ZONED.search(text.strip()) is not None


def refuse_local_filter(sql: str, expression: Expression, zone: str | None, *, field: str) -> None:
    """Check that the rows of a filter do not depend on the time zone of the session, unless that is UTC.

    Args:
        sql: The filter as written.
        expression: The parsed filter.
        zone: Time zone of the session; None if unknown.
        field: Name of the option.

    Raises:
        UnsupportedError: They do.
    """
    if zone is not None and is_utc(zone):
        return
    if not any(map(_is_zoned_column, expression.walk())):
        return
    is_written = all(has_zone(text) for text in _TEXT.findall(sql) if _DATED.match(text))
    if not is_written or not _compares_only(expression):
        told = f"the zone of the session is {zone}" if zone else "the zone of the session is unknown"
        raise UnsupportedError(
            f"the condition {sql!r} reads timestamps in UTC, and {told}",
            field=field,
            hint="compare with constants that have a zone (TIMESTAMP '2024-01-15 13:00:00Z'), or use where()",
        )


def _compares_only(expression: Expression) -> bool:
    """Return whether columns with a zone are only compared with constants, and with each other."""
    match expression:
        case And(operands) | Or(operands):
            return all(map(_compares_only, operands))
        case Not(operand):
            return _compares_only(operand)
        case InList(operand) | IsNull(operand) if _is_zoned_column(operand):
            return True
        case Comparison(_, left, right) if _is_zoned_column(left) or _is_zoned_column(right):
            return all(_is_zoned_column(side) or isinstance(side, Literal) for side in (left, right))
    return not any(map(_is_zoned_column, expression.walk()))


def _is_zoned_column(node: Expression) -> bool:
    return isinstance(node, Column) and pat.is_timestamp(node.type) and node.type.tz is not None
