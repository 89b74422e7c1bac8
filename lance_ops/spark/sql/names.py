"""Names of columns in statements, which Spark reads in any case."""

from collections.abc import Iterable, Sequence

from lance_ops.errors import InvalidArgumentError


def own_names(known: Sequence[str], names: Iterable[str]) -> dict[str, str]:
    """Names as a schema has them, by the names that a statement writes; those that it lacks stay.

    Args:
        known: Names of the schema. One that is written exactly so is meant, whatever else there is.
        names: Of the statement.
    """
    lower: dict[str, list[str]] = {}
    for name in known:
        lower.setdefault(name.lower(), []).append(name)
    exact = set(known)
    found = {name: lower.get(name.lower(), []) for name in names}
    return {name: same[0] if name not in exact and len(same) == 1 else name for name, same in found.items()}


def check_new(known: Sequence[str], names: Iterable[str]) -> None:
    """See that columns have names of their own, in any case: Spark could not tell them apart.

    Raises:
        InvalidArgumentError: There is one of this name.
    """
    for name, own in own_names(known, names).items():
        if own in known:
            raise InvalidArgumentError(
                f"there is a column {own!r} already, and Spark tells none apart from {name!r}",
                field="statement",
            )
