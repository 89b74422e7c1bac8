"""Recall of a vector index: how many of the true neighbours of some rows it finds, on a bounded sample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_ops.errors import InvalidArgumentError, public
from lance_ops.index.coverage import IndexCoverage, coverage, effective_fragments
from lance_ops.index.reading import reading
from lance_ops.index.registry import kind_of
from lance_ops.index.search.nearest import VECTOR_KIND, NearestPlan
from lance_ops.index.search.nearest_query import nearest_queries
from lance_ops.index.search.row_distances import summed_distances
from lance_ops.index.vector.metric import Distances, Vectors, flat_distances
from lance_ops.index.vector.segment.read import VectorSegment
from lance_ops.index.vector.vectors import (
    finite_vectors,
    holds_several,
    leaf_of,
    random_positions,
    rows_with,
    vector_type,
)
from lance_ops.table.dataset import Dataset, Target, open_dataset
from lance_ops.table.manifest.fragments.totals import total_rows
from lance_ops.table.manifest.row_set import Addresses, RowSet
from lance_ops.table.scan.row_columns import ROW_ADDRESS

QUERIES = 32
NEIGHBOURS = 10
SAMPLE_BYTES = 64 << 20
_RUN_ROWS = 256
_QUERY_VECTORS = 8
"""Vectors of a query at most, where rows hold several."""
_SEED = 42


@dataclass(frozen=True, slots=True)
class RecallSample:
    """Recall of one index.

    Attributes:
        index: Its name.
        recall: Share of the true neighbours that it found, 0 to 1; None without queries.
        k: Neighbours of each query.
        queries: Rows that were queries.
        rows: Rows compared exhaustively.
        is_whole: True if these are all rows; neighbours in a part of them lie farther apart, so that the
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
            return f"{self.index}: no rows to search for"
        of = "all rows" if self.is_whole else f"a sample of {self.rows:,} rows"
        return (
            f"{self.index}: finds {self.recall:.1%} of the {self.k} nearest in {of}, {self.queries} queries"
        )


@public(dataset="uri_or_dataset")
def measure_recall(
    uri_or_dataset: Target,
    name: str,
    *,
    k: int = NEIGHBOURS,
    queries: int = QUERIES,
    max_bytes: int = SAMPLE_BYTES,
    storage_options: Mapping[str, str] | None = None,
) -> RecallSample:
    """Measure the recall of a vector index: search for rows of the dataset, by the index and exhaustively.

    The sample is the same each time for the same version.

    Args:
        uri_or_dataset: URI or path of the dataset, or a `Dataset`.
        name: Of a vector index.
        k: Neighbours of each query.
        queries: Rows to search for.
        max_bytes: Vectors that are read at most; of more a random part is compared, in runs of rows.
        storage_options: For opening the dataset.

    Raises:
        InvalidArgumentError: There is no vector index of this name, or a number is invalid.
        UnreadableIndexError: It cannot be read.

    Examples:
        >>> done = lo.create_index("events.lance", "vector", "IVF_FLAT", num_partitions=1)
        >>> lo.measure_recall("events.lance", "vector_idx", k=3).recall
        1.0
    """
    for given, field in ((k, "k"), (queries, "queries"), (max_bytes, "max_bytes")):
        if given < 1:
            raise InvalidArgumentError(f"{field} must be at least 1", field=field)
    dataset = open_dataset(uri_or_dataset, storage_options)
    found = [item for item in vector_indices(dataset) if item.name == name]
    if not found:
        names = ", ".join(item.name for item in vector_indices(dataset)) or "none"
        raise InvalidArgumentError(
            f"no vector index {name!r}",
            path=dataset.uri,
            field="name",
            hint=f"vector indices: {names}",
        )
    column = dataset.lance_schema.path(found[0].fields[0])
    sample = _sample(dataset, column, max_bytes)
    addresses, is_whole = sample.addresses, sample.is_whole
    random = np.random.default_rng(_SEED)
    chosen = random.permutation(len(addresses))[:queries]
    if not len(chosen):
        return RecallSample(name, None, k, 0, len(addresses), is_whole)
    plan = _plan(dataset, found[0], column, [sample.query(row) for row in np.sort(chosen).tolist()], k)
    wanted = None if is_whole else RowSet.of(addresses)
    hits = possible = 0
    for query, result in zip(plan.queries, plan.run(wanted, None), strict=True):
        distances = sample.distances(plan.metric, query.vector)
        known = np.sort(distances[~np.isnan(distances)])[:k]
        if len(known):
            # Rows at the distance of the last neighbour are equally good.
            near = addresses[distances <= known[-1]]
            hits += min(len(known), int(np.isin(result.addresses, near).sum()))
            possible += len(known)
    recall = hits / possible if possible else None
    return RecallSample(name, recall, k, len(chosen), len(addresses), is_whole)


def vector_indices(dataset: Dataset) -> list[IndexCoverage]:
    """Return the indices whose recall can be measured."""
    return [
        item
        for item in coverage(dataset)
        if len(item.fields) == 1
        and all(segment.kind == VECTOR_KIND and kind_of(segment) is not None for segment in item.segments)
        and any(effective_fragments(dataset.manifest, segment) for segment in item.segments)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """Live rows that an index can find.

    Attributes:
        addresses: Of the rows.
        vectors: Of all rows, one row behind the other.
        starts: Where the vectors of each row begin; None where each row has a single one.
        is_whole: True if these are all rows.
    """

    addresses: Addresses
    vectors: Vectors
    starts: npt.NDArray[np.int64] | None
    is_whole: bool

    def query(self, row: int) -> Vectors:
        """Return a search for a row of the sample."""
        if self.starts is None:
            return np.asarray(self.vectors[row])
        stop = self.starts[row + 1] if row + 1 < len(self.starts) else len(self.vectors)
        own = self.vectors[self.starts[row] : stop]
        return np.asarray(own[:: -(-len(own) // _QUERY_VECTORS)])

    def distances(self, metric: str, wanted: Vectors) -> Distances:
        """Return the distance of each row."""
        if self.starts is None:
            return flat_distances(metric, wanted, self.vectors)
        return summed_distances(metric, wanted, self.vectors, self.starts)


def _sample(dataset: Dataset, column: str, max_bytes: int) -> _Sample:
    field = dataset.lance_schema.field(column)
    kind = vector_type(field)
    limit = max(1, max_bytes // (kind.list_size * kind.value_type.bit_width // 8))
    total = total_rows(dataset.fragments)
    several = holds_several(field)
    if several:
        limit = rows_with(dataset, column, limit)
    positions: npt.NDArray[np.int64] = np.arange(total)
    if total > limit:
        positions = random_positions(total, limit, _SEED, run=_RUN_ROWS)
    rows = dataset.take(positions, [column, ROW_ADDRESS])
    vectors, owners = finite_vectors(leaf_of(rows.column(0), column))
    starts = np.flatnonzero(np.diff(owners, prepend=-1)) if several else None
    addresses = rows.column(1).to_numpy()[owners if starts is None else owners[starts]]
    return _Sample(addresses, vectors, starts, total <= limit)


def _plan(
    dataset: Dataset, item: IndexCoverage, column: str, wanted: Sequence[Vectors], k: int
) -> NearestPlan:
    segments = []
    metric = None
    for segment in item.segments:
        kind = kind_of(segment)
        if kind is not None and effective_fragments(dataset.manifest, segment):
            with reading(segment):
                metric = VectorSegment.open(*dataset.bases.index_directory(segment)).metric
            segments.append((segment, kind))
    assert metric is not None
    given = {"column": column, "k": k, "metric": metric}
    queries = [nearest_queries(dataset, {**given, "q": one})[0][0] for one in wanted]
    scanned = frozenset(fragment.id for fragment in item.uncovered)
    return NearestPlan(dataset, tuple(queries), tuple(segments), scanned, metric, numbers_queries=True)
