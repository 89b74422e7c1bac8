"""Search: find rows by a score, best first: the distance of a vector, or the relevance of a text.

Implementations are in packages above this one, since they use indices; `scored_scan` makes a table of the
result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from lance_ops.filter import Expression
from lance_ops.table.manifest.row_set import Addresses, RowSet
from lance_ops.table.scan.pruner import Pruning
from lance_ops.table.snapshot import Snapshot

DISTANCE = "_distance"
SCORE = "_score"
QUERY_INDEX = "query_index"


@dataclass(frozen=True, slots=True)
class Scored:
    """Rows with their scores.

    Attributes:
        addresses: Current row addresses, uint64, distinct.
        scores: Distances (least first) or relevance of texts (greatest first), float32, one a row.
    """

    addresses: Addresses
    scores: npt.NDArray[np.float32]

    @classmethod
    def nothing(cls) -> "Scored":
        """Return an empty result."""
        return cls(np.zeros(0, np.uint64), np.zeros(0, np.float32))

    def __len__(self) -> int:
        return len(self.addresses)

    def __getitem__(self, rows: "slice | npt.NDArray[Any]") -> "Scored":
        return Scored(self.addresses[rows], self.scores[rows])


class SearchPlan(Protocol):
    """Plan of a search; formatted with its cost."""

    @property
    def column(self) -> str:
        """Name of the score column."""
        ...

    @property
    def numbers_queries(self) -> bool:
        """Whether there may be several queries, so that rows have the number of their query."""
        ...

    def run(self, wanted: RowSet | None, limit: int | None) -> Sequence[Scored]:
        """Return the rows for each query, best first and all live.

        Args:
            wanted: The only rows that may be found; all when None.
            limit: Maximum rows to find; None for the number in the query.
        """
        ...


class Search(Protocol):
    """Search interface of a dataset."""

    def plan_nearest(
        self, dataset: Snapshot, query: Mapping[str, Any], *, fast: bool, limit: int | None
    ) -> SearchPlan:
        """Plan a search for the nearest vectors.

        Args:
            dataset: The version.
            query: Parameters by name; see `ScanOptions`.
            fast: Return indexed rows only.
            limit: Default number of rows to find.

        Raises:
            InvalidArgumentError: The query is invalid for this dataset.
        """

    def plan_full_text(self, dataset: Snapshot, query: Any, *, fast: bool) -> SearchPlan:
        """Plan a full-text search; see `plan_nearest`."""


@dataclass(frozen=True, slots=True)
class FixedPruner:
    """A pruner with a constant result."""

    fragments: frozenset[int]
    rows: RowSet

    def prune(self, dataset: Snapshot, expression: Expression) -> Pruning | None:
        """See `Pruner.prune`."""
        del dataset, expression
        return Pruning(self.fragments, self.rows, exact=self.fragments)
