"""Index search: entry point of `lance_ops.dataset` to its indices."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lance_ops.index.search.full_text import plan_full_text
from lance_ops.index.search.nearest import plan_nearest
from lance_ops.index.search.pruner import IndexPruner
from lance_ops.table.dataset import Dataset
from lance_ops.table.scan.search import SearchPlan
from lance_ops.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class IndexSearch(IndexPruner):
    """Narrows filters and finds rows by score, with all indices. A `table.scan.search.Search`."""

    def plan_nearest(
        self, dataset: Snapshot, query: Mapping[str, Any], *, fast: bool, limit: int | None
    ) -> SearchPlan:
        """See `Search.plan_nearest`."""
        return plan_nearest(_readable(dataset), query, fast=fast, limit=limit)

    def plan_full_text(self, dataset: Snapshot, query: Any, *, fast: bool) -> SearchPlan:
        """See `Search.plan_full_text`."""
        return plan_full_text(_readable(dataset), query, fast=fast)


def _readable(dataset: Snapshot) -> Dataset:
    if not isinstance(dataset, Dataset):
        raise TypeError(f"rows of a {type(dataset).__name__} cannot be read")
    return dataset
