"""Offset of a source: the next row of a query."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lance_ops.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class Offset:
    """A position in the history of a dataset; stored in the checkpoint as JSON.

    Attributes:
        version: The next version.
        position: Number of its rows already delivered.
        snapshot: True to read all rows of the version, as at the start of a query, instead of the changes of
            its commit.
        data: State of the data before: UUID of the last transaction that changed rows (`data_transaction`);
            empty if unknown. It proves that the history is still the same.
    """

    version: int
    position: int = 0
    snapshot: bool = False
    data: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the form for Spark."""
        return asdict(self)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Offset":
        """Read the form from Spark.

        Raises:
            InvalidArgumentError: A source of another kind wrote it.
        """
        try:
            return cls(
                int(given["version"]), int(given["position"]), bool(given["snapshot"]), str(given["data"])
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"the checkpoint has an offset of another source: {dict(given)!r}",
                field="checkpointLocation",
                hint="use a separate checkpoint for this query",
            ) from error
