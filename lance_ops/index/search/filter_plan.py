"""Filter plan: what of a filter the indices are asked, and how their answers go together.

A filter selects the rows for which it is true; those for which it is null are left out as those for which it
is false. In a tree whose negations stand at its leaves, that is a matter of sets alone: AND is true where all
operands are, OR where one is. So each part that is on a single column is a question of its own, and a part
that no index can answer costs an AND nothing but the check of the rows that are left.
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
    """A question about one column.

    Attributes:
        query: The condition.
        parts: Its parts, to ask when no index answers the whole; those of conditions that have to hold
            together are not written down.
    """

    query: ColumnQuery
    parts: "FilterPlan | None" = None

    @property
    def otherwise(self) -> "FilterPlan | None":
        """What to ask when no index answers the whole."""
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
        complete: Whether there is nothing else that has to hold.
    """

    parts: "tuple[FilterPlan, ...]"
    complete: bool


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Conditions of which one has to hold; all of them can be asked."""

    parts: "tuple[FilterPlan, ...]"


FilterPlan = Ask | AllOf | AnyOf


def plan_filter(expression: Expression, indexed: Callable[[Path], bool]) -> FilterPlan | None:
    """What to ask; None when no index can help.

    Args:
        expression: The filter.
        indexed: Whether there is an index on a column.
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
