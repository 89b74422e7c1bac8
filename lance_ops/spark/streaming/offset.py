"""Offset of a source: the row that a query wants next."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lance_ops.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class Offset:
    """A place in the history of a dataset; kept in the checkpoint as JSON.

    Attributes:
        version: The version that comes next.
        position: How many of its rows were delivered already.
        snapshot: All rows of the version are wanted, as a query begins, and not what its commit changed.
        data: What the rows were before those that are wanted: UUID of the last transaction that changed any
            (`data_transaction`); empty where that is not known. It shows that the history is still the same.
    """

    version: int
    position: int = 0
    snapshot: bool = False
    data: str = ""

    def to_dict(self) -> dict[str, Any]:
        """For Spark."""
        return asdict(self)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Offset":
        """From Spark.

        Raises:
            InvalidArgumentError: A source of another kind wrote it.
        """
        try:
            return cls(
                int(given["version"]), int(given["position"]), bool(given["snapshot"]), str(given["data"])
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"the checkpoint has an offset that is none of this source: {dict(given)!r}",
                field="checkpointLocation",
                hint="give this query a checkpoint of its own",
            ) from error
