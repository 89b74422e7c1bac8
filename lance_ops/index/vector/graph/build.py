"""Graph build: the neighbours of each row of a partition (HNSW), by comparing all or on the graph itself."""

import json

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.kernels.index.graph import connect
from lance_ops.index.vector.faiss_library import load_faiss
from lance_ops.index.vector.graph.model import GRAPH_SCHEMA, Graph, edge_distances, graph_nodes
from lance_ops.index.vector.metric import Vectors
from lance_ops.index.vector.model import GraphParameters

_PREFETCH = 2
_COMPARED_ROWS = 1 << 13
"""Up to so many rows are compared exhaustively, which takes 256 MB."""
_SEED = 42


def build_graph(
    vectors: Vectors,
    parameters: GraphParameters,
    metric: str,
    alike: npt.NDArray[np.uint8] | None = None,
) -> Graph:
    """Return the graph of the vectors of a partition.

    Args:
        vectors: Shape (rows, dimension), float32.
        parameters: Build parameters.
        metric: "l2", "cosine" (of vectors of length one) or "dot".
        alike: Vectors of bytes with the same distances on a scale of their own, which are compared faster.

    Raises:
        UnsupportedError: faiss is not installed.
    """
    if not len(vectors):
        return Graph(GRAPH_SCHEMA.empty_table(), "")
    if len(vectors) <= _COMPARED_ROWS:
        levels, entry = _compared(vectors, parameters, metric)
    else:
        levels, entry = _searched(vectors, parameters, metric, alike)
    offsets = np.concatenate(([0], np.cumsum([table.num_rows for table in levels])))
    about = {
        "entry_point": entry,
        "params": {
            "max_level": parameters.max_level,
            "m": parameters.m,
            "ef_construction": parameters.ef_construction,
            "prefetch_distance": _PREFETCH,
        },
        "level_offsets": offsets.tolist(),
    }
    return Graph(pa.concat_tables(levels).combine_chunks(), json.dumps(about, separators=(",", ":")))


def _compared(vectors: Vectors, parameters: GraphParameters, metric: str) -> tuple[list[pa.Table], int]:
    """Nodes of each level, and where searches begin; all rows are compared with all.

    One product of matrices does that in less time than it takes to look for neighbours on the graph itself,
    and what it finds are the nearest.
    """
    rows, distances = len(vectors), _all_distances(vectors, metric)
    highest = np.random.default_rng(_SEED).geometric(1 - 1 / max(parameters.m, 2), rows) - 1
    highest = np.minimum(highest, parameters.max_level - 1)
    tables = []
    for level in range(parameters.max_level):
        nodes = np.flatnonzero(highest >= level)
        if not len(nodes):
            tables.append(GRAPH_SCHEMA.empty_table())
            continue
        width = parameters.m * (1 if level else 2)
        neighbours = np.full((rows, width + 1), -1, np.int32)
        lengths = np.empty((rows, width + 1), np.float32)
        connect(
            distances=distances,
            levels=highest,
            level=level,
            fresh=parameters.m,
            width=width,
            candidates=max(parameters.ef_construction, parameters.m),
            neighbours=neighbours,
            lengths=lengths,
        )
        there = neighbours[nodes] >= 0
        tables.append(graph_nodes(nodes, there.sum(axis=1), neighbours[nodes][there], lengths[nodes][there]))
    return tables, int(highest.argmax())


def _all_distances(vectors: Vectors, metric: str) -> npt.NDArray[np.float32]:
    """Return distances of all rows from all, shape (rows, rows)."""
    # Values may be so great that a distance is not a number: it is not the least then.
    with np.errstate(over="ignore", invalid="ignore"):
        if metric == "dot":
            products = vectors @ vectors.T
            return np.asarray(np.subtract(1, products, out=products), np.float32)
        # Distances are small differences of large numbers, unless the rows are centred. The library uses one
        # thread, next to other tasks, where numpy would use all.
        around = np.ascontiguousarray(vectors - vectors.mean(axis=0))
        squares = np.asarray(load_faiss().pairwise_distances(around, around), np.float32)
        if metric == "cosine":
            # Rows have length one.
            squares *= 0.5
        return np.maximum(squares, 0, out=squares)


def _searched(
    vectors: Vectors, parameters: GraphParameters, metric: str, alike: npt.NDArray[np.uint8] | None
) -> tuple[list[pa.Table], int]:
    """Nodes of each level, and where searches begin; neighbours are searched for on the graph itself."""
    faiss = load_faiss()
    if alike is None:
        measure = faiss.METRIC_INNER_PRODUCT if metric == "dot" else faiss.METRIC_L2
        index = faiss.IndexHNSWFlat(vectors.shape[1], parameters.m, measure)
    else:
        whole = faiss.ScalarQuantizer.QT_8bit_direct
        index = faiss.IndexHNSWSQ(vectors.shape[1], whole, parameters.m)
        # There is nothing to learn about bytes.
        index.is_trained = True
    index.hnsw.efConstruction = parameters.ef_construction
    # Searches of pylance keep few candidates: they need rows with as many neighbours as possible.
    index.keep_max_size_level0 = True
    index.add(np.ascontiguousarray(vectors if alike is None else alike, np.float32))
    made = index.hnsw
    levels = np.minimum(faiss.vector_to_array(made.levels), parameters.max_level)
    starts = faiss.vector_to_array(made.offsets).astype(np.int64)
    neighbours = faiss.vector_to_array(made.neighbors)
    tables: list[pa.Table] = []
    for level in range(parameters.max_level):
        nodes = np.flatnonzero(levels > level)
        first, last = made.cum_nb_neighbors(level), made.cum_nb_neighbors(level + 1)
        edges = neighbours[starts[nodes][:, None] + np.arange(first, last)] if len(nodes) else None
        tables.append(_nodes(nodes, edges, vectors, metric))
    # A node of a removed level is at the highest remaining one.
    return tables, int(made.entry_point)


def _nodes(
    nodes: npt.NDArray[np.int64], edges: npt.NDArray[np.int32] | None, vectors: Vectors, metric: str
) -> pa.Table:
    if edges is None:
        return GRAPH_SCHEMA.empty_table()
    there = edges >= 0
    counts, targets = there.sum(axis=1), edges[there].astype(np.int64)
    distances = edge_distances(vectors, np.repeat(nodes, counts), targets, metric)
    return graph_nodes(nodes, counts, targets, distances)
