"""Parameters of zones, as users give them."""

from lance_ops.errors import InvalidArgumentError
from lance_ops.index.kind import Parameters

MOST_ROWS = 1 << 32
"""No fragment has more."""


def whole_number(kind: str, given: Parameters, name: str) -> dict[str, int]:
    """Return the rows of a zone, if they are given; nothing else may be.

    Raises:
        InvalidArgumentError: The number is none, or there is another parameter.
    """
    for other in given:
        if other != name:
            raise InvalidArgumentError(
                f"{kind} has no parameter {other!r}", field="parameters", hint=f"it has {name!r}"
            )
    if name not in given:
        return {}
    value = given[name]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < MOST_ROWS:
        raise InvalidArgumentError(
            f"{value!r} is not a valid number of rows", field=name, hint="give a whole number from 1 on"
        )
    return {name: value}
