"""Graphs that searches get through: every row is found from where they begin."""

import json
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_ops.index.vector.graph import build
from lance_ops.index.vector.graph.build import build_graph
from lance_ops.index.vector.graph.model import Graph, edge_distances
from lance_ops.index.vector.model import GraphParameters

FEW = GraphParameters(m=8, ef_construction=40, max_level=4)


def vectors_of(rows: int, dimension: int, seed: int, metric: str = "l2") -> np.ndarray:
    found = np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True) if metric == "cosine" else found


def lists_of(graph: Graph) -> tuple[dict[str, int], list[dict[int, list[int]]]]:
    """What is said of a graph, and the neighbours of each node of each level."""
    about = json.loads(graph.about)
    starts = about["level_offsets"]
    levels = []
    for start, stop in pairwise(starts):
        nodes = graph.nodes.slice(start, stop - start)
        ids, neighbours = nodes["__vector_id"].to_pylist(), nodes["__neighbors"].to_pylist()
        levels.append(dict(zip(ids, neighbours, strict=True)))
    return about, levels


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@settings(max_examples=15)
@given(
    rows=st.integers(1, 300), dimension=st.integers(2, 20), seed=st.integers(0, 99), compiled=st.booleans()
)
def test_levels_are_within_one_another_and_nodes_have_so_many_neighbours(
    metric, rows, dimension, seed, compiled
) -> None:
    vectors = vectors_of(rows, dimension, seed, metric)
    if compiled:
        graph = build_graph(vectors, FEW, metric)
    else:
        pytest.importorskip("faiss")
        with patch.object(build, "_COMPARED_ROWS", 0):
            graph = build_graph(vectors, FEW, metric)
    about, levels = lists_of(graph)
    assert list(levels[0]) == list(range(rows))
    assert about["entry_point"] in [level for level in levels if level][-1]
    for number, level in enumerate(levels):
        assert set(level) <= set(levels[max(number - 1, 0)])
        for node, neighbours in level.items():
            assert len(neighbours) <= FEW.m * (1 if number else 2)
            assert len(set(neighbours)) == len(neighbours)
            assert set(neighbours) <= set(level) - {node}


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_the_distances_of_edges_are_those_of_their_rows(metric) -> None:
    # Far from zero, where the difference of two lengths says little of small distances.
    vectors = vectors_of(400, 16, 5, metric) + (1000 if metric == "l2" else 0)
    graph = build_graph(vectors.astype(np.float32), FEW, metric)
    nodes = graph.nodes
    counts = [len(one) for one in nodes["__neighbors"].to_pylist()]
    sources = np.repeat(nodes["__vector_id"].to_numpy(), counts).astype(np.int64)
    targets = nodes["__neighbors"].combine_chunks().flatten().to_numpy().astype(np.int64)
    told = nodes["_distance"].combine_chunks().flatten().to_numpy()
    assert np.allclose(told, edge_distances(vectors, sources, targets, metric), rtol=1e-3, atol=1e-3)


def test_every_row_of_clusters_is_found_from_where_searches_begin() -> None:
    # Each has many more rows than a row has neighbours.
    centers = np.random.default_rng(3).normal(size=(6, 8)).astype(np.float32) * 100
    rows = 1200
    vectors = centers[np.arange(rows) % len(centers)] + vectors_of(rows, 8, 4)
    about, levels = lists_of(build_graph(vectors, FEW, "l2"))
    reached = {about["entry_point"]}
    for level in reversed(levels):
        waiting = list(reached)
        while waiting:
            for other in level.get(waiting.pop(), []):
                if other not in reached:
                    reached.add(other)
                    waiting.append(other)
    assert len(reached) >= 0.99 * rows


def test_equal_rows_and_values_without_a_distance_do_not_stop_it() -> None:
    equal = np.zeros((100, 4), np.float32)
    assert len(lists_of(build_graph(equal, FEW, "l2"))[1][0]) == 100
    far = vectors_of(100, 4, 1) * np.float32(5e37)
    assert len(lists_of(build_graph(far, FEW, "l2"))[1][0]) == 100
    assert build_graph(equal[:0], FEW, "l2").nodes.num_rows == 0
