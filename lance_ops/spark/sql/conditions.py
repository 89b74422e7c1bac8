"""Conditions of deletes and updates, with the semantics of Spark instead of those of filters.

Filters and Spark's SQL agree on comparisons of columns with constants of their own type. They differ in most
other respects: time zones, NaN, decimals, overflow, casts of strings, positions in arrays. A condition that
may differ is evaluated by Spark, on the version that the operation reads, and the operation gets row
addresses.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pat

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.file.schema.field_path import format_field_path
from lance_ops.filter import parse_value
from lance_ops.filter.expression import Column, Expression, Literal
from lance_ops.filter.parse.syntax import Token, TokenType
from lance_ops.filter.predicates import And, Comparison, InList, IsNull, IsTruth, Like, Not, Or
from lance_ops.filter.types.coercion import is_text
from lance_ops.spark.local_time import has_zone, is_utc, session_zone
from lance_ops.spark.sql.expressions import Translated
from lance_ops.spark.sql.tokens import NUMBER, QUOTED, STRING, WORD, is_word, tokens_of
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragments.totals import ids_of
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.scan.pruner import Pruning
from lance_ops.table.scan.row_columns import ROW_ADDRESS
from lance_ops.table.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COMPARISONS = {
    *(TokenType.EQ, TokenType.NEQ, TokenType.NULLSAFE_EQ),
    *(TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE),
}
_SIGNS = _COMPARISONS | {TokenType.L_PAREN, TokenType.R_PAREN, TokenType.COMMA, TokenType.DOT}
_BEFORE_VALUES = _COMPARISONS | {TokenType.L_PAREN, TokenType.COMMA}
_OPERATORS = frozenset({"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "DISTINCT", "FROM"})
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?Z?")
_NUMERIC = re.compile(r"\s*[+-]?[\d.]")
_EPOCH, _EPOCH_DAY = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class SparkSearch:
    """Finds rows with Spark if a filter may select others. A `table.scan.pruner.Pruner`, for the driver.

    Attributes:
        spark: A session.
        condition: The condition in Spark's SQL.
        alias: Alias of the table in the condition.
    """

    spark: "SparkSession"
    condition: str
    alias: str = "target"

    def prune(self, dataset: Snapshot, expression: Expression) -> Pruning | None:
        """Return the addresses of all matching rows; None if the filter selects the same rows.

        Raises:
            InvalidArgumentError: Spark cannot evaluate the condition.
        """
        # Filters find columns in any case.
        any_case = str(self.spark.conf.get("spark.sql.caseSensitive", "false")).lower() != "true"
        if any_case and means_the_same(self.condition, expression, session_zone(self.spark)):
            return None
        assert isinstance(dataset, Dataset)
        fragments = frozenset(ids_of(dataset.fragments))
        return Pruning(fragments, self._find(dataset, expression), fragments)

    def _find(self, dataset: Dataset, expression: Expression) -> RowSet:
        from lance_ops.spark.scan import read_dataset
        from lance_ops.spark.transport import SPARK_ERRORS, spark_reason

        roots = [format_field_path([name]) for name in sorted(expression.root_columns - {ROW_ADDRESS})]
        rows = read_dataset(self.spark, dataset, [*roots, ROW_ADDRESS]).alias(self.alias)
        try:
            found = rows.where(self.condition).select(ROW_ADDRESS).toArrow()
        except SPARK_ERRORS as error:
            raise InvalidArgumentError(
                f"Spark cannot evaluate the condition {self.condition!r}: {spark_reason(error)}",
                path=dataset.uri,
                field="condition",
                hint="test it in a query: SELECT * FROM ... WHERE ...",
            ) from error
        return RowSet.of(found.column(0).combine_chunks().cast(pa.uint64()).to_numpy(zero_copy_only=False))


def refuse_other_meaning(
    condition: str, expression: Expression | None, spark: "SparkSession", *, hint: str
) -> None:
    """Check that a condition has the same meaning in Spark, in an operation without Spark's evaluation.

    Args:
        condition: The condition in Spark's SQL.
        expression: The same as a filter; None for no condition.
        spark: A session.
        hint: Suggested alternative.

    Raises:
        UnsupportedError: It may select other rows.
    """
    if expression is None or means_the_same(condition, expression, session_zone(spark)):
        return
    raise UnsupportedError(
        f"the condition {condition!r} may select different rows than in Spark",
        field="condition",
        hint=f"compare columns with constants of their own type, without functions; or {hint}",
    )


def refuse_local_values(values: Mapping[str, str], dataset: Dataset, spark: "SparkSession") -> None:
    """Check that values do not depend on the time zone of the session; expressions use UTC.

    Args:
        values: Expressions by column.
        dataset: Dataset to update.
        spark: A session.

    Raises:
        UnsupportedError: One does, and the zone is not UTC.
    """
    zone = session_zone(spark)
    if is_utc(zone):
        return
    schema = dataset.schema
    for column, value in values.items():
        hint = schema.field(column).type if column in schema.names else None
        expression = parse_value(value, schema, hint)
        written = value.original if isinstance(value, Translated) else value
        if not isinstance(expression, Column) and _depends_on_zone(written, expression, hint):
            raise UnsupportedError(
                f"the value {written!r} of {column} is read in UTC, and the zone of the session is {zone}",
                field=column,
                hint="add the zone, as in TIMESTAMP '2024-01-15 13:00:00Z', or set the zone of the "
                "session to UTC",
            )


def _depends_on_zone(written: str, expression: Expression, wanted: pa.DataType | None) -> bool:
    texts = [token.text for token in tokens_of(written) if token.token_type is STRING]
    if isinstance(expression, Literal) and all(map(has_zone, texts)):
        return False
    kinds = [node.type for node in expression.walk()] + [wanted]
    return any(kind is not None and pat.is_timestamp(kind) and kind.tz is not None for kind in kinds)


def means_the_same(condition: str, expression: Expression, zone: str) -> bool:
    """Return whether a filter selects the same rows as Spark. False if uncertain.

    Args:
        condition: The condition in Spark's SQL.
        expression: The same as a filter, in which constants have the types of their columns.
        zone: Time zone of the session.
    """
    if "\\" in condition:
        return False
    tokens = tokens_of(condition)
    if len(tokens) == 1 and is_word(tokens[0], "TRUE", "FALSE"):
        return True
    if not _is_plain(tokens) or not _has_known_types(expression, is_utc(zone)):
        return False
    return bool(expression.columns) and _constants_of(tokens) == _constants_in(expression)


def _is_plain(tokens: list[Token]) -> bool:
    """Whether it consists of comparisons of names with constants, without calculations."""
    before = Token(TokenType.L_PAREN, "(")
    for token, after in pairwise([*tokens, Token(TokenType.R_PAREN, ")")]):
        kind, behind = token.token_type, after.token_type
        if kind is WORD:
            is_literal = is_word(token, "DATE", "TIMESTAMP") and behind is STRING
            is_call = behind is TokenType.L_PAREN and not is_word(token, "IN", "AND", "OR", "NOT")
            if is_call or (behind is STRING and not is_literal and not is_word(token, *_OPERATORS)):
                return False
            if is_word(token, "ESCAPE", "ANY", "ALL", "SOME"):
                return False
        elif kind is NUMBER:
            # A suffix says another type.
            if not token.text.rstrip(".").isdigit() or (behind is WORD and after.start == token.end + 1):
                return False
        elif kind not in (QUOTED, STRING) and kind not in _SIGNS:
            starts = before.token_type in _BEFORE_VALUES or is_word(before, *_OPERATORS)
            if kind is not TokenType.DASH or behind is not NUMBER or not starts:
                return False
        before = token
    return True


def _has_known_types(expression: Expression, utc: bool) -> bool:
    """Return whether both sides of each comparison have the same type, which Spark compares as filters do."""
    match expression:
        case And(operands) | Or(operands):
            return all(_has_known_types(part, utc) for part in operands)
        case Not(operand) | IsTruth(operand):
            return _has_known_types(operand, utc)
        case IsNull(operand):
            return isinstance(operand, Column) or _has_known_types(operand, utc)
        case Comparison(_, left, right):
            return all(
                isinstance(side, Column | Literal) and _is_known(side.type, utc) for side in (left, right)
            )
        case InList(operand):
            return isinstance(operand, Column) and _is_known(operand.type, utc)
        case Like(operand, pattern, ignore_case):
            return isinstance(operand, Column) and isinstance(pattern, Literal) and not ignore_case
        case Column(_, kind) | Literal(_, kind):
            return bool(pat.is_boolean(kind))
    return False


def _is_known(kind: pa.DataType, utc: bool) -> bool:
    if pat.is_timestamp(kind):
        # Spark reads coarser and finer units as microseconds.
        return utc and kind.unit == "us"
    return bool(pat.is_boolean(kind) or pat.is_integer(kind) or is_text(kind) or pat.is_date32(kind))


def _constants_of(tokens: list[Token]) -> Counter[Any] | None:
    """Return constants by type, as written; None if one has a form that both sides read differently."""
    found: Counter[Any] = Counter()
    before = Token(TokenType.L_PAREN, "(")
    for token in tokens:
        if token.token_type is NUMBER:
            sign = -1 if before.token_type is TokenType.DASH else 1
            found["integer", sign * int(token.text.rstrip("."))] = 1
        elif token.token_type is STRING:
            text: Any = token.text
            kind = before.text.upper() if is_word(before, "DATE", "TIMESTAMP") else "text"
            try:
                if kind == "DATE":
                    text = (date.fromisoformat(text) - _EPOCH_DAY).days if _DAY.fullmatch(text) else None
                elif kind == "TIMESTAMP":
                    text = _microseconds(text) if _MOMENT.fullmatch(text) else None
            except ValueError:
                return None
            found[kind, text] = 1
        before = token
    numbers = any(kind == "integer" for kind, _ in found)
    if numbers and any(kind == "text" and _NUMERIC.match(text) for kind, text in found):
        # A quoted number may be compared with a number, and a number with a string.
        return None
    return found


def _constants_in(expression: Expression) -> Counter[Any]:
    """Return constants by type, as a filter compares them."""
    found: Counter[Any] = Counter()
    for node in expression.walk():
        values = (
            node.values if isinstance(node, InList) else (node.value,) if isinstance(node, Literal) else ()
        )
        kind = node.operand.type if isinstance(node, InList) else node.type
        for value in values:
            if value is None or pat.is_boolean(kind):
                continue
            name = "integer" if pat.is_integer(kind) else "DATE" if pat.is_date(kind) else "TIMESTAMP"
            found["text" if is_text(kind) else name, value] = 1
    return found


def _microseconds(text: str) -> int:
    moment = datetime.fromisoformat(text)
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // (datetime.resolution)
