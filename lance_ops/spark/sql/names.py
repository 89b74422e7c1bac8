"""Names of columns in statements, which Spark matches in any case."""

from collections.abc import Iterable, Sequence

from lance_ops.errors import InvalidArgumentError, UnsupportedError
from lance_ops.filter.parse.syntax import TokenType
from lance_ops.spark.sql.statements import Delete, Merge, Replace, Statement, Update
from lance_ops.spark.sql.tokens import QUOTED, WORD, is_word, tokens_of


def own_names(known: Sequence[str], names: Iterable[str]) -> dict[str, str]:
    """Map names in a statement to names of a schema; unknown ones are unchanged.

    Args:
        known: Names of the schema. An exact match takes precedence.
        names: Names in the statement.
    """
    lower: dict[str, list[str]] = {}
    for name in known:
        lower.setdefault(name.lower(), []).append(name)
    exact = set(known)
    found = {name: lower.get(name.lower(), []) for name in names}
    return {name: same[0] if name not in exact and len(same) == 1 else name for name, same in found.items()}


def check_new(known: Sequence[str], names: Iterable[str]) -> None:
    """Check that column names are unique regardless of case, as Spark requires.

    Raises:
        InvalidArgumentError: The name exists.
    """
    for name, own in own_names(known, names).items():
        if own in known:
            raise InvalidArgumentError(
                f"column {own!r} already exists, and Spark does not distinguish it from {name!r}",
                field="statement",
            )


def refuse_padded(statement: Statement, padded: frozenset[str]) -> None:
    """Check the use of CHAR(n): Spark pads constants in comparisons with it, filters do not.

    Args:
        statement: The statement.
        padded: Columns of CHAR(n), in lower case.

    Raises:
        UnsupportedError: A condition uses one other than trimmed, or in a null test.
    """
    for condition in _conditions(statement) if padded else ():
        # Conditions are in the SQL of filters, where a backslash is a character like others.
        tokens = tokens_of(condition.replace("\\", "\\\\"))
        for place, token in enumerate(tokens):
            if token.token_type not in (WORD, QUOTED) or token.text.lower() not in padded:
                continue
            is_member = place > 1 and tokens[place - 1].token_type is TokenType.DOT
            before = tokens[max(0, place - 4 if is_member else place - 2) : place]
            is_trimmed = (
                len(before) > 1
                and is_word(before[0], "RTRIM", "TRIM")
                and before[1].token_type is TokenType.L_PAREN
            )
            if not is_trimmed and not any(is_word(after, "IS") for after in tokens[place + 1 : place + 2]):
                raise UnsupportedError(
                    f"column {token.text!r} has type CHAR, whose values are padded",
                    field="statement",
                    hint=f"compare rtrim({token.text})",
                )


def _conditions(statement: Statement) -> list[str]:
    if isinstance(statement, Delete | Update | Replace):
        found = [statement.condition]
    elif isinstance(statement, Merge):
        found = [statement.condition, statement.not_matched_by_source]
    else:
        found = []
    return [condition for condition in found if condition is not None]
