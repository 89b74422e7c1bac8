"""Graph edit: the graph of a partition without some of its rows.

A row that loses a neighbour is offered the neighbours of that one, and keeps the nearest: ways that led
through lost rows lead past them. That takes a fraction of the time of a new graph.
"""

import json
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError
from lance_ops.index.vector.graph.model import GRAPH_SCHEMA, Graph, edge_distances, graph_nodes
from lance_ops.index.vector.metric import Vectors

_PAIRS = 1 << 21


def without_rows(
    graph: Graph, kept: npt.NDArray[np.bool_], vectors: Vectors, metric: str, path: str
) -> Graph:
    """Remove rows from a graph.

    Args:
        graph: Of the partition.
        kept: Mask of the kept rows.
        vectors: All rows of the partition, including removed ones.
        metric: Metric of distances.
        path: Its file, for messages.

    Raises:
        CorruptFileError: the graph is not one of as many rows.
    """
    if not kept.any() or not graph.about:
        return Graph(GRAPH_SCHEMA.empty_table(), "")
    about: dict[str, Any] = json.loads(graph.about)
    levels = about["level_offsets"]
    if levels[-1] != graph.nodes.num_rows or sorted(levels) != levels:
        raise CorruptFileError("graph levels do not match their metadata", path=path, field="level_offsets")
    new_numbers = np.cumsum(kept) - 1
    tables: list[pa.Table] = []
    offsets = [0]
    entry = 0
    for level, (start, stop) in enumerate(pairwise(levels)):
        width = about["params"]["m"] * (1 if level else 2)
        nodes, sources, targets = _level(graph.nodes.slice(start, stop - start), len(kept), path)
        sources, targets = _past_lost_rows(sources, targets, kept, vectors, metric, width)
        nodes = nodes[kept[nodes]]
        tables.append(_level_table(nodes, sources, targets, new_numbers, vectors, metric))
        offsets.append(offsets[-1] + len(nodes))
        if len(nodes):
            # The way begins at a row of the highest level that is left, the same one where that is there.
            same = kept[about["entry_point"]] and about["entry_point"] in nodes
            entry = int(about["entry_point"] if same else nodes[0])
    about["entry_point"] = int(new_numbers[entry])
    about["level_offsets"] = offsets
    return Graph(pa.concat_tables(tables).combine_chunks(), json.dumps(about, separators=(",", ":")))


def _level(
    table: pa.Table, rows: int, path: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Nodes of a level, and its edges as (from, to)."""
    lists = table["__neighbors"].combine_chunks()
    numbers = table["__vector_id"].combine_chunks(), lists.flatten()
    # Nulls would be cast from NaN to any number.
    if lists.null_count or any(found.null_count for found in numbers):
        raise CorruptFileError("a graph has nodes without a number", path=path, field="__neighbors")
    nodes, targets = (np.asarray(found, np.int64) for found in numbers)
    if any(len(found) and int(found.max()) >= rows for found in (nodes, targets)):
        raise CorruptFileError(
            "a graph names rows that its partition does not have", path=path, field="__neighbors"
        )
    return nodes, np.repeat(nodes, np.diff(np.asarray(lists.offsets))), targets


def _past_lost_rows(
    sources: npt.NDArray[np.int64],
    targets: npt.NDArray[np.int64],
    kept: npt.NDArray[np.bool_],
    vectors: Vectors,
    metric: str,
    width: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Edges between kept rows, those that led to a lost row replaced by ways past it."""
    whole = kept[sources] & kept[targets]
    broken = kept[sources] & ~kept[targets]
    found = [np.stack([sources[whole], targets[whole]])]
    # Edges that leave lost rows, by the row that they leave.
    leaving = ~kept[sources] & kept[targets]
    order = np.argsort(sources[leaving], kind="stable")
    lost, beyond = sources[leaving][order], targets[leaving][order]
    starts, stops = np.searchsorted(lost, targets[broken]), np.searchsorted(lost, targets[broken], "right")
    counts = stops - starts
    ends = np.cumsum(counts)
    position = 0
    while position < len(counts):
        until = max(
            position + 1, int(np.searchsorted(ends, (ends[position - 1] if position else 0) + _PAIRS))
        )
        part = slice(position, until)
        places = np.repeat(starts[part] - (np.cumsum(counts[part]) - counts[part]), counts[part])
        pairs = np.stack(
            [np.repeat(sources[broken][part], counts[part]), beyond[places + np.arange(len(places))]]
        )
        found.append(pairs[:, pairs[0] != pairs[1]])
        position = until
    mended = np.unique(sources[broken])
    edges = np.concatenate(found, axis=1)
    touched = np.isin(edges[0], mended)
    best = _nearest_edges(np.unique(edges[:, touched], axis=1), vectors, metric, width)
    return np.concatenate([edges[0, ~touched], best[0]]), np.concatenate([edges[1, ~touched], best[1]])


def _nearest_edges(
    edges: npt.NDArray[np.int64], vectors: Vectors, metric: str, width: int
) -> npt.NDArray[np.int64]:
    """Return the `width` shortest edges from each row."""
    far = edge_distances(vectors, edges[0], edges[1], metric)
    order = np.lexsort((far, edges[0]))
    edges = edges[:, order]
    first = np.searchsorted(edges[0], edges[0])
    return edges[:, np.arange(edges.shape[1]) - first < width]


def _level_table(
    nodes: npt.NDArray[np.int64],
    sources: npt.NDArray[np.int64],
    targets: npt.NDArray[np.int64],
    new_numbers: npt.NDArray[np.int64],
    vectors: Vectors,
    metric: str,
) -> pa.Table:
    order = np.argsort(sources, kind="stable")
    sources, targets = sources[order], targets[order]
    place = np.argsort(nodes, kind="stable")
    nodes = nodes[place]
    counts = np.searchsorted(sources, nodes, "right") - np.searchsorted(sources, nodes)
    distances = edge_distances(vectors, sources, targets, metric)
    return graph_nodes(new_numbers[nodes], counts, new_numbers[targets], distances)
