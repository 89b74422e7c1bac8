"""Resolve plain conditions and chains of them, which sqlglot has not seen."""

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from lance_ops.filter.expression import Column, Expression
from lance_ops.filter.functions.registry import TODAY, UNSTABLE
from lance_ops.filter.junctions import all_of, any_of, negated
from lance_ops.filter.parse.calls import fail_unstable
from lance_ops.filter.parse.chains import (
    Chain,
    Condition,
    ListTerm,
    Names,
    NullTerm,
    Term,
    TokenType,
)
from lance_ops.filter.parse.conditions import in_list, liked, meeting, text_operand
from lance_ops.filter.parse.constants import resolve_constant
from lance_ops.filter.parse.scope import Scope
from lance_ops.filter.predicates import Comparison, IsNull
from lance_ops.filter.types.coercion import comparison_type


def named(scope: Scope, names: Sequence[tuple[str, bool]], at: exp.Expr | int) -> Expression:
    """Resolve a name or path: a column, or a value with the same syntax."""
    first, quoted = names[0]
    if len(names) == 1 and not quoted and first.lower() in TODAY | UNSTABLE:
        known = {name.lower() for name in scope.schema.names}
        if first.lower() in TODAY - known:
            return scope.today
        if first.lower() in UNSTABLE - known:
            # These functions are called without parentheses, too.
            fail_unstable(scope, first, at)
    return scope.column(names, at)


def resolve_aside(scope: Scope, condition: Condition) -> Expression:
    """Return a condition that was set aside."""
    return _Resolution(scope).of(condition)


class _Resolution:
    """Resolves many conditions on few columns."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        # Each with its type, if that can be compared with itself.
        self._operands: dict[Names, tuple[Expression, pa.DataType | None, pa.DataType | None]] = {}

    def of(self, condition: Condition) -> Expression:
        """Return the expression of a condition."""
        match condition:
            case Term():
                return self._term(condition)
            case Chain(joint, parts, _):
                resolved = tuple([self.of(part) for part in parts])
                return all_of(resolved) if joint is TokenType.AND else any_of(resolved)
            case ListTerm(names, constants, opposite, start):
                operand, hint, _ = self._operand(names, start)
                items = [resolve_constant(self._scope, constant, hint) for constant in constants]
                found = in_list(self._scope, operand, items, start)
                return negated(found) if opposite else found
            case NullTerm(names, opposite, start):
                result = self._scope.folded(IsNull(self._operand(names, start)[0]), start)
                return negated(result) if opposite else result

    def _operand(self, names: Names, start: int) -> tuple[Expression, pa.DataType | None, pa.DataType | None]:
        """Return a column, its type hint for constants, and its type if constants of it need no check."""
        found = self._operands.get(names)
        if found is None:
            operand = named(self._scope, names, start)
            plain = isinstance(operand, Column)
            same = plain and comparison_type(operand.type, operand.type) == operand.type
            found = (operand, operand.type if plain else None, operand.type if same else None)
            self._operands[names] = found
        return found

    def _term(self, term: Term) -> Expression:
        scope, start = self._scope, term.start
        left, hint, same = self._operand(term.names, start)
        if term.op in ("LIKE", "ILIKE"):
            text = text_operand(scope, left, start)
            pattern = resolve_constant(scope, term.constant, None)
            return liked(scope, text, pattern, start, ignore_case=term.op == "ILIKE")
        constant = resolve_constant(scope, term.constant, hint)
        if constant.type == same and constant.value is not None:
            return Comparison(term.op, left, constant)
        left, right = meeting(scope, left, constant, start)
        return scope.folded(Comparison(term.op, left, right), start)
