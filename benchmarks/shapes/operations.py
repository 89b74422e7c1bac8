"""Reads by the public calls that lance_ops and pylance have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

_TAKEN = 200
_FILTER = "bucket = 500"


@dataclass(frozen=True, slots=True)
class Operation:
    """A read of an open dataset of either library.

    Attributes:
        name: For the report.
        run: Takes the dataset and its number of rows; returns how many rows it read.
    """

    name: str
    run: Callable[[Any, int], int]


def _take(dataset: Any, num_rows: int) -> int:
    rows = np.sort(np.random.default_rng(3).choice(num_rows, _TAKEN, replace=False))
    return int(dataset.take(rows.tolist()).num_rows)


OPERATIONS = (
    Operation("scan all", lambda dataset, _: dataset.to_table().num_rows),
    Operation("one column", lambda dataset, _: dataset.to_table(columns=["id"]).num_rows),
    Operation("filter 1 in 1,000", lambda dataset, _: dataset.to_table(filter=_FILTER).num_rows),
    Operation("count with a filter", lambda dataset, _: dataset.count_rows(filter=_FILTER)),
    Operation("take 200", _take),
    Operation("stream", lambda dataset, _: sum(batch.num_rows for batch in dataset.to_batches())),
    Operation("first 10 rows", lambda dataset, _: dataset.to_table(limit=10).num_rows),
)
"""What is measured of each shape."""
