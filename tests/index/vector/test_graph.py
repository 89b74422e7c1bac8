"""Graphs of releases that count the row at which searches begin in the lowest level only."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.vector.graph.edit import without_rows
from lance_ops.index.vector.graph.model import (
    GRAPH_METADATA,
    GRAPH_SCHEMA,
    check_graphs,
    graph_nodes,
    read_graphs,
)
from lance_ops.index.vector.ivf import Partitions
from lance_ops.storage import open_store

VECTORS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 3.0]], np.float32)
LEVELS = ((0, 1, 2, 3), (0, 2), (0,), (0,))
"""Rows of each level; row 0, where searches begin, is in all."""


def graphs(tmp_path: Path, offsets: list[int]) -> tuple[FileReader, Partitions]:
    """A file of one graph that says its levels begin there."""
    tables = []
    for level in LEVELS:
        edges = [[other for other in level if other != row] for row in level]
        counts = np.array([len(row) for row in edges])
        targets = np.array([other for row in edges for other in row], np.int64)
        distances = np.ones(len(targets), np.float32)
        tables.append(graph_nodes(np.array(level), counts, targets, distances))
    nodes = pa.concat_tables(tables)
    parameters = {"max_level": 4, "m": 2, "ef_construction": 10}
    about = json.dumps({"entry_point": 0, "params": parameters, "level_offsets": offsets})
    store = open_store(str(tmp_path))
    schema = Schema.from_arrow(GRAPH_SCHEMA)
    with FileWriter(store, "index.idx", schema, version="2.0") as writer:
        writer.add_schema_metadata({GRAPH_METADATA: json.dumps([about]).encode()})
        writer.write(nodes.combine_chunks())
        writer.finish()
    return FileReader.open(store, "index.idx"), Partitions(np.array([0]), np.array([nodes.num_rows]))


@pytest.mark.parametrize("offsets", [[0, 4, 6, 7, 8], [0, 4, 5, 5, 5]])
def test_levels_are_found_however_they_were_counted(tmp_path: Path, offsets: list[int]) -> None:
    reader, partitions = graphs(tmp_path, offsets)
    check_graphs(reader, partitions, np.array([4]), deep=True)
    (graph,) = read_graphs(reader, partitions)
    assert json.loads(graph.about)["level_offsets"] == [0, 4, 6, 7, 8]
    kept = np.array([True, False, True, True])
    left = without_rows(graph, kept, VECTORS, "l2", reader.path)
    assert json.loads(left.about)["level_offsets"] == [0, 3, 5, 6, 7]
    assert left.nodes["__vector_id"].to_pylist() == [0, 1, 2, 0, 1, 0, 0]


def test_other_levels_than_there_are_nodes_are_damage(tmp_path: Path) -> None:
    reader, partitions = graphs(tmp_path, [0, 4, 5, 6, 6])
    with pytest.raises(CorruptFileError, match="partition 0"):
        check_graphs(reader, partitions, np.array([4]), deep=False)
