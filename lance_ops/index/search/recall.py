"""Recall of a vector index: how many of the true neighbours of some rows it finds, on a bounded sample."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lance_ops.errors import InvalidArgumentError
from lance_ops.index.coverage import IndexCoverage, coverage, effective_fragments
from lance_ops.index.reading import reading
from lance_ops.index.registry import kind_of
from lance_ops.index.search.nearest import VECTOR_KIND, NearestPlan
from lance_ops.index.search.nearest_query import nearest_queries
from lance_ops.index.vector.metric import Vectors, flat_distances
from lance_ops.index.vector.vectors import finite_vectors, leaf_of, random_positions, vector_type
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.row_set import Addresses, RowSet
from lance_ops.table.scan.row_columns import ROW_ADDRESS

QUERIES = 32
NEIGHBOURS = 10
SAMPLE_BYTES = 64 << 20
_RUN_ROWS = 256
_SEED = 42


@dataclass(frozen=True, slots=True)
class RecallSample:
    """Recall of one index.

    Attributes:
        index: Its name.
        recall: Share of the true neighbours that it found, 0 to 1; None when there was nothing to look for.
        k: Neighbours that each query looked for.
        queries: Rows that were queries.
        rows: Rows that were compared with them one by one, and that the index was to find.
        is_whole: Whether these are all rows; neighbours in a part of them lie farther apart, so that the
            recall in all rows is greater, if anything.
    """

    index: str
    recall: float | None
    k: int
    queries: int
    rows: int
    is_whole: bool

    def __str__(self) -> str:
        if self.recall is None:
            return f"{self.index}: there is no row to search for"
        of = "all rows" if self.is_whole else f"a sample of {self.rows:,} rows"
        return (
            f"{self.index}: finds {self.recall:.1%} of the {self.k} nearest in {of}, {self.queries} queries"
        )


def measure_recall(
    dataset: Dataset,
    name: str,
    *,
    k: int = NEIGHBOURS,
    queries: int = QUERIES,
    max_bytes: int = SAMPLE_BYTES,
) -> RecallSample:
    """Search for rows of the dataset, by the index and one by one, as `nearest` does unless told otherwise.

    The sample is the same each time for the same version.

    Args:
        dataset: The version.
        name: Of a vector index.
        k: Neighbours to look for.
        queries: Rows to search for.
        max_bytes: Vectors that are read at most; of more a random part is compared, in runs of rows.

    Raises:
        InvalidArgumentError: There is no vector index of this name, or a number makes no sense.
        UnreadableIndexError: It cannot be read.
    """
    for given, field in ((k, "k"), (queries, "queries"), (max_bytes, "max_bytes")):
        if given < 1:
            raise InvalidArgumentError(f"{field} must be at least 1", field=field)
    found = [item for item in vector_indices(dataset) if item.name == name]
    if not found:
        names = ", ".join(item.name for item in vector_indices(dataset)) or "none"
        raise InvalidArgumentError(
            f"no vector index {name!r}", path=dataset.uri, field="name", hint=f"vector indices: {names}"
        )
    column = dataset.lance_schema.path(found[0].fields[0])
    addresses, vectors, is_whole = _sample(dataset, column, max_bytes)
    random = np.random.default_rng(_SEED)
    chosen = random.permutation(len(vectors))[:queries]
    if not len(chosen):
        return RecallSample(name, None, k, 0, len(vectors), is_whole)
    plan = _plan(dataset, found[0], column, vectors[np.sort(chosen)], k)
    wanted = None if is_whole else RowSet.of(addresses)
    hits = possible = 0
    for query, result in zip(plan.queries, plan.run(wanted, None), strict=True):
        distances = flat_distances(plan.metric, query.vector, vectors)
        known = np.sort(distances[~np.isnan(distances)])[:k]
        if len(known):
            # Rows as far away as the last neighbour are as good as it is.
            near = addresses[distances <= known[-1]]
            hits += min(len(known), int(np.isin(result.addresses, near).sum()))
            possible += len(known)
    recall = hits / possible if possible else None
    return RecallSample(name, recall, k, len(chosen), len(vectors), is_whole)


def vector_indices(dataset: Dataset) -> list[IndexCoverage]:
    """The indices whose recall can be measured."""
    return [
        item
        for item in coverage(dataset)
        if len(item.fields) == 1
        and all(segment.kind == VECTOR_KIND and kind_of(segment) is not None for segment in item.segments)
        and any(effective_fragments(dataset.manifest, segment) for segment in item.segments)
    ]


def _sample(dataset: Dataset, column: str, max_bytes: int) -> tuple[Addresses, Vectors, bool]:
    """Addresses and vectors of live rows, and whether these are all that an index can find."""
    kind = vector_type(dataset.lance_schema.field(column))
    limit = max(1, max_bytes // (kind.list_size * kind.value_type.bit_width // 8))
    total = sum(fragment.num_rows for fragment in dataset.fragments)
    positions: npt.NDArray[np.int64] = np.arange(total)
    if total > limit:
        positions = random_positions(total, limit, _SEED, run=_RUN_ROWS)
    rows = dataset.take(positions, [column, ROW_ADDRESS])
    vectors, kept = finite_vectors(leaf_of(rows.column(0), column))
    return rows.column(1).to_numpy()[kept], vectors, total <= limit


def _plan(dataset: Dataset, item: IndexCoverage, column: str, vectors: Vectors, k: int) -> NearestPlan:
    segments = []
    metric = None
    for segment in item.segments:
        kind = kind_of(segment)
        if kind is not None and effective_fragments(dataset.manifest, segment):
            with reading(segment):
                metric = kind.parameters_of(dataset, segment)["metric"]
            segments.append((segment, kind))
    assert metric is not None
    queries, _ = nearest_queries(dataset, {"column": column, "q": vectors, "k": k, "metric": metric})
    scanned = frozenset(fragment.id for fragment in item.uncovered)
    queries = tuple(replace(query, metric=metric) for query in queries)
    return NearestPlan(dataset, queries, tuple(segments), scanned, metric, numbers_queries=True)
