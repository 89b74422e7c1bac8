"""Clauses of a merge: actions on matched and unmatched rows."""

from dataclasses import dataclass
from typing import Literal, get_args

import pyarrow as pa

from lance_ops.errors import InvalidArgumentError, PredicateError, check_type
from lance_ops.filter import Column, Expression, parse_filter

WhenMatched = Literal["update_all", "update_if", "delete", "fail", "do_nothing"]
WhenNotMatched = Literal["insert_all", "do_nothing"]
OnDuplicates = Literal["fail", "first"]

SOURCE, TARGET = "source", "target"
DELETE, NOTHING = "delete", "do_nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clauses:
    """Clauses of a merge; see `merge_insert`."""

    when_matched: WhenMatched = "do_nothing"
    condition: str | None = None
    when_not_matched: WhenNotMatched = "do_nothing"
    when_not_matched_by_source: str | None = None
    on_duplicates: OnDuplicates = "fail"

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("when_matched", self.when_matched, get_args(WhenMatched)),
            ("when_not_matched", self.when_not_matched, get_args(WhenNotMatched)),
            ("on_duplicates", self.on_duplicates, get_args(OnDuplicates)),
        ):
            if value not in choices:
                raise InvalidArgumentError(
                    f"{name} cannot be {value!r}", field=name, hint=f"one of {', '.join(choices)}"
                )
        for name, sql in (
            ("condition", self.condition),
            ("when_not_matched_by_source", self.when_not_matched_by_source),
        ):
            if sql is not None:
                check_type(sql, str, "an SQL condition", field=name)
        if (self.condition is not None) != (self.when_matched == "update_if"):
            raise InvalidArgumentError(
                "when_matched='update_if' requires a condition, and other values exclude it",
                field="condition",
                hint="for example condition='source.seen > target.seen'",
            )
        if not (
            self.inserts or self.touches_matched or self.deletes_unmatched or self.when_matched == "fail"
        ):
            raise InvalidArgumentError(
                "no clause changes anything",
                field="when_matched",
                hint="set when_matched, when_not_matched or when_not_matched_by_source",
            )

    @property
    def updates(self) -> bool:
        """True if matched rows get the values of the source."""
        return self.when_matched in ("update_all", "update_if")

    @property
    def touches_matched(self) -> bool:
        """True if matched rows are changed."""
        return self.updates or self.when_matched == "delete"

    @property
    def inserts(self) -> bool:
        """True if rows of the source with a new key are inserted."""
        return self.when_not_matched == "insert_all"

    @property
    def deletes_unmatched(self) -> bool:
        """True if rows whose key the source lacks are deleted."""
        return self.when_not_matched_by_source not in (None, NOTHING)

    def parse_condition(self, source: pa.Schema, target: pa.Schema) -> Expression | None:
        """Parse the condition of an update, with columns `source.x` and `target.x`."""
        return None if self.condition is None else merge_condition(self.condition, source, target)

    def parse_unmatched(self, target: pa.Schema) -> Expression | None:
        """Parse the condition on deletions of rows whose key the source lacks; None for all or none."""
        sql = self.when_not_matched_by_source
        return None if sql in (None, DELETE, NOTHING) else parse_filter(str(sql), target)

    def __str__(self) -> str:
        parts = []
        if self.when_matched != NOTHING:
            condition = f" ({self.condition})" if self.condition else ""
            parts.append(f"matched: {self.when_matched}{condition}")
        if self.inserts:
            parts.append(f"not matched: {self.when_not_matched}")
        if self.deletes_unmatched:
            sql = self.when_not_matched_by_source
            parts.append(f"not in the source: delete{'' if sql == DELETE else f' where {sql}'}")
        return "; ".join(parts)


def merge_condition(sql: str, source: pa.Schema, target: pa.Schema) -> Expression:
    """Parse a condition on rows of both sides, with columns `source.x` and `target.x`.

    Raises:
        PredicateError: It does not parse, or names a side without a column.
    """
    sides = [pa.field(SOURCE, pa.struct(list(source))), pa.field(TARGET, pa.struct(list(target)))]
    expression = parse_filter(sql, pa.schema(sides))
    if any(isinstance(node, Column) and len(node.path) < 2 for node in expression.walk()):
        raise PredicateError(
            "a condition uses columns of source and target, not source or target themselves",
            field="condition",
        )
    return expression


def named_columns(condition: Expression, side: str) -> set[str]:
    """Return the top-level columns of the source or of the target in a condition."""
    nodes = (node for node in condition.walk() if isinstance(node, Column))
    return {node.path[1] for node in nodes if node.path[0] == side}


def clauses_of(
    *,
    when_matched: WhenMatched | None,
    condition: str | None,
    when_not_matched: WhenNotMatched | None,
    when_not_matched_by_source: str | None,
    on_duplicates: OnDuplicates,
) -> Clauses:
    """Return the clauses as a caller gives them: None does nothing, and none at all is an upsert.

    Raises:
        InvalidArgumentError: One is unknown, or none changes anything.
    """
    if when_matched is when_not_matched is when_not_matched_by_source is None:
        when_matched, when_not_matched = "update_if" if condition else "update_all", "insert_all"
    return Clauses(
        when_matched="do_nothing" if when_matched is None else when_matched,
        condition=condition,
        when_not_matched="do_nothing" if when_not_matched is None else when_not_matched,
        when_not_matched_by_source=when_not_matched_by_source,
        on_duplicates=on_duplicates,
    )
