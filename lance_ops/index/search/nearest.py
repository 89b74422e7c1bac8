"""Nearest vectors: by the vector index of a column, and by looking at the rows that none covers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lance_ops.errors import LanceOpsError
from lance_ops.index.coverage import effective_fragments, listed_coverage
from lance_ops.index.kind import IndexKind
from lance_ops.index.reading import reading, warn_unreadable
from lance_ops.index.registry import kind_of
from lance_ops.index.scored import NearestQuery, Scored
from lance_ops.index.search.locate import RowLocator
from lance_ops.index.search.nearest_query import default_metric, nearest_queries, several_vectors
from lance_ops.index.search.row_distances import OVER_FETCH, estimated_distances, row_distances
from lance_ops.index.search.scanned import fragments_text, scanned_rows
from lance_ops.index.vector.search import metric_of, search_segment
from lance_ops.index.vector.vectors import holds_several
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.fragments.totals import ids_of
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import RowSet
from lance_ops.table.scan.row_columns import ROW_ADDRESS, ROW_ID
from lance_ops.table.scan.search import DISTANCE

VECTOR_KIND = "vectorindexdetails"
_FARTHER = 4
"""Factor by which the number of candidates grows if those before were too near."""


@dataclass(frozen=True, slots=True)
class NearestPlan:
    """A `table.scan.search.SearchPlan` for vectors.

    Attributes:
        dataset: The version that is searched.
        queries: The queries, in order.
        segments: Segments of the index that is used, with their kinds.
        scanned: Fragments whose vectors are scanned.
        metric: Metric of distances.
        numbers_queries: True if rows say which query found them.
    """

    dataset: Dataset
    queries: tuple[NearestQuery, ...]
    segments: tuple[tuple[IndexMetadata, IndexKind], ...]
    scanned: frozenset[int]
    metric: str
    numbers_queries: bool
    column: str = DISTANCE

    def __str__(self) -> str:
        query = self.queries[0]
        lines = [f"find the {query.k} rows nearest by {query.column} ({self.metric})"]
        if self.numbers_queries:
            lines[0] += f" to each of {len(self.queries)} vectors"
        for segment, kind in self.segments:
            fragments = len(effective_fragments(self.dataset.manifest, segment))
            lines.append(
                f"  index {segment.name} ({kind.name}), segment {segment.uuid}: {fragments} fragments"
            )
        if self.segments and query.refine_factor is not None:
            lines.append(f"  the distances of {query.refine_factor} times as many rows are recomputed")
        lines.append(f"  fragments to scan: {fragments_text(self.scanned)}")
        return "\n".join(lines)

    def run(self, wanted: RowSet | None, limit: int | None) -> Sequence[Scored]:
        """See `SearchPlan.run`."""
        found = [self._find(query, wanted) for query in self.queries]
        return found if limit is None else [part[:limit] for part in found]

    def _find(self, query: NearestQuery, wanted: RowSet | None) -> Scored:
        if wanted is not None and self._takes_all(query, wanted):
            return self._look(_Best.nothing(query), query, self._searched, wanted).scored()
        scanned = set(self.scanned)
        # Quantized distances are not comparable with exact ones: as pylance, recompute.
        factor = query.refine_factor or (1 if scanned else None)
        indexed, unreadable = self._indexed(replace(query, refine_factor=factor), wanted)
        scanned |= unreadable
        if factor is None and not scanned:
            best = _Best.nothing(query)
            for found in indexed:
                best = best.add(found.scores, self._row_ids(found), found.addresses)
            return best.scored()
        factor = factor or 1
        best = self._refined(indexed, query, query.k * factor)
        while best.is_short_of_farther and sum(map(len, indexed)) >= query.k * factor:
            # What is nearer than the range was in the way of what is in it.
            factor *= _FARTHER
            indexed, unreadable = self._indexed(replace(query, refine_factor=factor), wanted)
            scanned |= unreadable
            best = self._refined(indexed, query, query.k * factor)
        return self._look(best, query, frozenset(scanned), wanted).scored()

    def _takes_all(self, query: NearestQuery, wanted: RowSet) -> bool:
        """Return whether `k` covers all rows that count, so that all partitions are searched.

        As in pylance, unless the number of partitions is given.
        """
        exactly = query.minimum_nprobes == query.maximum_nprobes
        return bool(self.segments) and len(wanted) <= query.k and not exactly

    @property
    def _searched(self) -> frozenset[int]:
        manifest = self.dataset.manifest
        return self.scanned.union(*(effective_fragments(manifest, item) for item, _ in self.segments))

    def _indexed(self, query: NearestQuery, wanted: RowSet | None) -> tuple[list[Scored], frozenset[int]]:
        """Return the results of each segment, and the fragments of unreadable ones.

        For rows with several vectors, the results of all segments are combined.
        """
        several = query.vector.ndim > 1
        vectors = [query]
        if several:
            vectors = [replace(query, vector=one, refine_factor=OVER_FETCH) for one in query.vector]
        found: list[list[Scored]] = []
        unreadable: frozenset[int] = frozenset()
        for segment, kind in self.segments:
            locate = RowLocator(self.dataset, segment, kind, wanted)
            try:
                with reading(segment):
                    found.append(
                        [
                            search_segment(
                                self.dataset, segment, one, locate, enough=query.k if several else None
                            )
                            for one in vectors
                        ]
                    )
            except LanceOpsError as error:
                warn_unreadable(error)
                unreadable |= effective_fragments(self.dataset.manifest, segment)
        if not several or not found:
            return [part for (part,) in found], unreadable
        most = OVER_FETCH * query.k
        return [estimated_distances([_most(parts, most) for parts in zip(*found, strict=True)])], unreadable

    def _refined(self, found: Sequence[Scored], query: NearestQuery, count: int) -> "_Best":
        """Return the best candidates by exact distances."""
        rows = RowSet.of(_most(found, count).addresses)
        return self._look(_Best.nothing(query), query, rows.fragment_ids, rows)

    def _look(
        self, best: "_Best", query: NearestQuery, fragments: frozenset[int], wanted: RowSet | None
    ) -> "_Best":
        """Return the best of those known and of the rows of some fragments, whose vectors are read."""
        for batch in scanned_rows(self.dataset, query.column, fragments, wanted):
            distances = row_distances(self.metric, query.vector, batch.column(0))
            ids, addresses = (batch.column(name).to_numpy() for name in (ROW_ID, ROW_ADDRESS))
            best = best.add(distances, ids, addresses)
        return best

    def _row_ids(self, found: Scored) -> npt.NDArray[np.uint64]:
        if not self.dataset.manifest.uses_stable_row_ids or not len(found):
            return found.addresses
        ids: npt.NDArray[np.uint64] = self.dataset.take(found.addresses, [ROW_ID], by="address")[0].to_numpy()
        return ids


def plan_nearest(dataset: Dataset, given: Mapping[str, Any], *, fast: bool, limit: int | None) -> NearestPlan:
    """See `table.scan.search.Search.plan_nearest`."""
    queries, use_index = nearest_queries(dataset, given, limit)
    first = queries[0]
    several = holds_several(dataset.lance_schema.field(first.column))
    segments = _segments(dataset, first) if use_index else []
    metric = first.metric
    usable: list[tuple[IndexMetadata, IndexKind]] = []
    unreadable: list[frozenset[int]] = []
    for segment, kind in segments:
        try:
            with reading(segment):
                measured = metric_of(dataset, segment)
        except LanceOpsError as error:
            warn_unreadable(error)
            unreadable.append(effective_fragments(dataset.manifest, segment))
            continue
        # Distances of different metrics do not compare.
        metric = metric or measured
        if measured == metric:
            usable.append((segment, kind))
    metric = metric or default_metric(queries[0].vector)
    covered = frozenset[int]().union(*(effective_fragments(dataset.manifest, item) for item, _ in usable))
    scanned = frozenset(ids_of(dataset.fragments)) - covered
    if fast:
        scanned = frozenset[int]().union(*unreadable)
    if several and first.distance_range != (None, None):
        # An index has distances of vectors, but the range is one of their sums.
        usable, scanned = [], scanned | covered
    queries = tuple(replace(query, metric=metric) for query in queries)
    return NearestPlan(
        dataset, queries, tuple(usable), scanned, metric, not several and several_vectors(given["q"])
    )


def _segments(dataset: Dataset, query: NearestQuery) -> list[tuple[IndexMetadata, IndexKind]]:
    """Return segments of the vector index on a column: of several, the first of the manifest."""
    field = dataset.lance_schema.field(query.column)
    for index in listed_coverage(dataset):
        known = [(segment, kind_of(segment)) for segment in index.segments if segment.kind == VECTOR_KIND]
        readable = [(segment, kind) for segment, kind in known if kind is not None]
        if index.fields == (field.id,) and readable:
            # One that covers nothing any more is not passed over, either: all rows are compared then.
            return [item for item in readable if effective_fragments(dataset.manifest, item[0])]
    return []


def _most(found: Sequence[Scored], count: int) -> Scored:
    addresses = np.concatenate([np.zeros(0, np.uint64), *(part.addresses for part in found)])
    scores = np.concatenate([np.zeros(0, np.float32), *(part.scores for part in found)])
    order = np.lexsort((addresses, scores))[:count]
    return Scored(addresses[order], scores[order])


@dataclass(frozen=True, slots=True)
class _Best:
    """The nearest rows seen so far, in their order: by distance, and rows as near by their ids."""

    query: NearestQuery
    distances: npt.NDArray[np.float32]
    ids: npt.NDArray[np.uint64]
    addresses: npt.NDArray[np.uint64]

    @classmethod
    def nothing(cls, query: NearestQuery) -> "_Best":
        """Return an empty result."""
        return cls(query, np.zeros(0, np.float32), np.zeros(0, np.uint64), np.zeros(0, np.uint64))

    def add(
        self,
        distances: npt.NDArray[np.float32],
        ids: npt.NDArray[np.uint64],
        addresses: npt.NDArray[np.uint64],
    ) -> "_Best":
        """With more rows; those at no distance, which is NaN, do not count."""
        low, high = self.query.distance_range
        counts = ~np.isnan(distances)
        if low is not None:
            counts &= distances >= np.float32(low)
        if high is not None:
            counts &= distances < np.float32(high)
        if len(self.distances) == self.query.k:
            counts &= distances <= self.distances[-1]
        if not counts.any():
            return self
        columns = (
            np.concatenate((self.distances, distances[counts])),
            np.concatenate((self.ids, ids[counts])),
            np.concatenate((self.addresses, addresses[counts])),
        )
        order = np.lexsort((columns[1], columns[0]))[: self.query.k]
        return _Best(self.query, columns[0][order], columns[1][order], columns[2][order])

    @property
    def is_short_of_farther(self) -> bool:
        """Return whether there is room for rows that are farther than some which were too near to count."""
        return self.query.distance_range[0] is not None and len(self.distances) < self.query.k

    def scored(self) -> Scored:
        """Convert to the result of a search."""
        return Scored(self.addresses, self.distances)
