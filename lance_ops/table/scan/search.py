"""Search: what finds rows by a score, best first: by nearness of a vector, or by how well a text fits.

It stands above this floor, since indices know more of rows than this floor does; `scored_scan` makes a table
of what it finds.
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
        addresses: Current row addresses, uint64, none twice.
        scores: Distances (least first) or scores of texts (greatest first), float32, one a row.
    """

    addresses: Addresses
    scores: npt.NDArray[np.float32]

    @classmethod
    def nothing(cls) -> "Scored":
        """No rows."""
        return cls(np.zeros(0, np.uint64), np.zeros(0, np.float32))

    def __len__(self) -> int:
        return len(self.addresses)

    def __getitem__(self, rows: "slice | npt.NDArray[Any]") -> "Scored":
        return Scored(self.addresses[rows], self.scores[rows])


class SearchPlan(Protocol):
    """How rows are going to be found; as text, what that takes."""

    @property
    def column(self) -> str:
        """Name of the column of scores."""
        ...

    @property
    def numbers_queries(self) -> bool:
        """Whether there may be several queries, so that rows say which of them found them."""
        ...

    def run(self, wanted: RowSet | None, limit: int | None) -> Sequence[Scored]:
        """The rows for each of the queries, best first and all live.

        Args:
            wanted: The only rows that may be found; all when None.
            limit: Rows to find at most; None for as many as the query says.
        """
        ...


class Search(Protocol):
    """What a dataset asks for rows by their scores."""

    def plan_nearest(
        self, dataset: Snapshot, query: Mapping[str, Any], *, fast: bool, limit: int | None
    ) -> SearchPlan:
        """Plan a search for the nearest vectors.

        Args:
            dataset: The version.
            query: What the user asks for, by name; see `Dataset.scan`.
            fast: Find indexed rows only.
            limit: Rows to find when the query does not say how many.

        Raises:
            InvalidArgumentError: The query makes no sense on this dataset.
        """

    def plan_full_text(self, dataset: Snapshot, query: Any, *, fast: bool) -> SearchPlan:
        """Plan a full-text search; see `plan_nearest`."""


@dataclass(frozen=True, slots=True)
class FixedPruner:
    """A pruner that was told which rows there are."""

    fragments: frozenset[int]
    rows: RowSet

    def prune(self, dataset: Snapshot, expression: Expression) -> Pruning | None:
        """See `Pruner.prune`."""
        del dataset, expression
        return Pruning(self.fragments, self.rows, exact=self.fragments)
