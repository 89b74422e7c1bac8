"""Environment variables in strings: `${NAME}` and `${NAME:-default}`."""

import os
import re
from collections.abc import Mapping

from lance_ops.errors import InvalidArgumentError

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def variables(text: str) -> tuple[str, ...]:
    """Return names of the variables in a text that have no default."""
    return tuple(match[1] for match in VARIABLE.finditer(text) if match[2] is None)


def expand(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Fill in `${VARIABLE}` and `${VARIABLE:-default}`.

    Raises:
        InvalidArgumentError: A variable is not set.
    """
    known = os.environ if environment is None else environment

    def value(match: re.Match[str]) -> str:
        found = known.get(match[1], match[2])
        if found is None:
            raise InvalidArgumentError(
                f"the environment has no {match[1]}",
                field=match[1],
                hint=f"export {match[1]}, or write ${{{match[1]}:-default}}",
            )
        return found

    return VARIABLE.sub(value, text)
