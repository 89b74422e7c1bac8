"""Filter plan: conditions to query indices for, and the combination of their answers.

A filter selects the rows for which it is true; null counts as false. If negations are at the leaves of the
tree, AND and OR are intersection and union of sets. So each part on a single column is one index query, and a
part of an AND without an index only needs a recheck of the remaining rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

from lance_ops.filter.expression import Column, Expression
from lance_ops.filter.junctions import conjuncts, negated
from lance_ops.filter.predicates import And, IsTruth, Not, Or
from lance_ops.index.column_query import ColumnQuery, column_queries, column_query

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """An index query on one column.

    Attributes:
        query: The condition.
        parts: Its parts, to query if no index supports the whole; not needed for conjunctions.
    """

    query: ColumnQuery
    parts: "FilterPlan | None" = None

    @property
    def otherwise(self) -> "FilterPlan | None":
        """Return the plan if no index supports the whole condition."""
        if self.query.conjuncts == 1:
            return self.parts
        return AllOf(
            tuple(Ask(column_query(condition)) for condition in conjuncts(self.query.condition)),
            complete=True,
        )


@dataclass(frozen=True, slots=True)
class AllOf:
    """Conditions that have to hold together.

    Attributes:
        parts: What can be asked.
        complete: True if there is nothing else that has to hold.
    """

    parts: "tuple[FilterPlan, ...]"
    complete: bool


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Conditions of which one must hold; all of them can be queried."""

    parts: "tuple[FilterPlan, ...]"


FilterPlan = Ask | AllOf | AnyOf


def plan_filter(expression: Expression, indexed: Callable[[Path], bool]) -> FilterPlan | None:
    """Return the index queries of a filter; None if no index helps.

    Args:
        expression: The filter.
        indexed: True if there is an index on a column.
    """
    match expression:
        case IsTruth(operand, True):
            return plan_filter(operand, indexed)
        case IsTruth(operand, False) | Not((And() | Or()) as operand):
            return plan_filter(negated(operand), indexed)
        case And():
            return _all_of(expression, indexed)
    paths = {node.path for node in expression.walk() if isinstance(node, Column)}
    if not any(indexed(path) for path in paths):
        return None
    parts = _any_of(expression, indexed) if isinstance(expression, Or) else None
    return Ask(column_query(expression), parts) if len(paths) == 1 else parts


def _all_of(expression: And, indexed: Callable[[Path], bool]) -> FilterPlan | None:
    parts: list[FilterPlan] = []
    served = 0
    for query in column_queries(expression):
        found: FilterPlan | None = None
        if query.conjuncts == 1:
            found = plan_filter(query.condition, indexed)
        elif indexed(query.path):
            found = Ask(query)
        if found is not None:
            parts.append(found)
            served += query.conjuncts
    for operand in conjuncts(expression):
        found = plan_filter(operand, indexed) if len(operand.columns) > 1 else None
        if found is not None:
            parts.append(found)
            served += 1
    return AllOf(tuple(parts), served == len(conjuncts(expression))) if parts else None


def _any_of(expression: Or, indexed: Callable[[Path], bool]) -> FilterPlan | None:
    parts = []
    for operand in expression.operands:
        found = plan_filter(operand, indexed)
        if found is None:
            return None
        parts.append(found)
    return AnyOf(tuple(parts))
