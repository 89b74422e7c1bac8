"""Graph: the neighbours of each row of a partition (HNSW), for readers that walk from row to row.

Rows of the file are nodes: for each partition all rows of it (level 0), then those that are at level 1 as
well, and so on; the IVF message says where the nodes of a partition begin. Searches of lance_ops read the
codes of a partition whole, which are fewer bytes than its graph: they answer more exactly, and need no graph.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.kernels.index.code_distances import compare_pairs
from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.index.vector.ivf import Partitions
from lance_ops.index.vector.metric import Vectors
from lance_ops.index.vector.model import GraphParameters

GRAPH_METADATA = "lance:hnsw"
GRAPH_SCHEMA = pa.schema(
    [
        pa.field("__vector_id", pa.uint32()),
        pa.field("__neighbors", pa.list_(pa.uint32())),
        pa.field("_distance", pa.list_(pa.float32())),
    ]
)


@dataclass(frozen=True, slots=True)
class Graph:
    """The graph of a partition.

    Attributes:
        nodes: Of `GRAPH_SCHEMA`, level by level.
        about: What the metadata say of it; empty for an empty partition.
    """

    nodes: pa.Table
    about: str


def graph_nodes(
    nodes: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    targets: npt.NDArray[np.int64] | npt.NDArray[np.int32],
    distances: npt.NDArray[np.float32],
) -> pa.Table:
    """Serialise nodes of a level, with `counts` neighbours each."""
    starts = pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))
    return pa.table(
        [
            pa.array(nodes.astype(np.uint32)),
            pa.ListArray.from_arrays(starts, pa.array(targets.astype(np.uint32))),
            pa.ListArray.from_arrays(starts, pa.array(distances)),
        ],
        schema=GRAPH_SCHEMA,
    )


def edge_distances(
    vectors: Vectors, sources: npt.NDArray[np.int64], targets: npt.NDArray[np.int64], metric: str
) -> npt.NDArray[np.float32]:
    """Return distances of rows from others, shape (edges,)."""
    found = np.empty(len(sources), np.float32)
    compare_pairs(
        vectors=np.require(vectors, np.float32, ["C", "A"]),
        ones=np.ascontiguousarray(sources, np.int64),
        others=np.ascontiguousarray(targets, np.int64),
        squared=metric == "l2",
        sums=found,
    )
    return found if metric == "l2" else 1 - found


def read_graph_parameters(reader: FileReader) -> GraphParameters:
    """Read the build parameters of the graphs of a file.

    Raises:
        CorruptFileError: The file has none.
    """
    for about in _abouts(reader):
        if about:
            known = about["params"]
            return GraphParameters(known["m"], known["ef_construction"], known["max_level"])
    return GraphParameters()


def read_graphs(reader: FileReader, graphs: Partitions) -> Iterator[Graph]:
    """Yield the graphs of all partitions.

    Raises:
        CorruptFileError: they cannot be read.
    """
    for number, about in enumerate(_abouts(reader)):
        start, length = int(graphs.offsets[number]), int(graphs.lengths[number])
        nodes = reader.read_table(start=start, stop=start + length)
        if about is not None:
            about["level_offsets"] = _counted(about["level_offsets"], length)
        text = json.dumps(about, separators=(",", ":")) if about is not None else ""
        yield Graph(nodes.cast(GRAPH_SCHEMA).combine_chunks(), text)


def check_graphs(reader: FileReader, graphs: Partitions, rows: npt.NDArray[np.int64], *, deep: bool) -> None:
    """Check that each partition has a graph of its rows.

    Args:
        reader: Of the file with the graphs.
        graphs: Positions of the nodes of each partition.
        rows: Rows of each partition.
        deep: Check every node.

    Raises:
        CorruptFileError: a graph is not that of its partition.
    """
    abouts = _abouts(reader)
    if len(abouts) != len(rows):
        raise CorruptFileError(
            f"{len(abouts)} graphs, {len(rows)} partitions", path=reader.path, field=GRAPH_METADATA
        )
    for number, about in enumerate(abouts):
        nodes, count = int(graphs.lengths[number]), int(rows[number])
        if about is None:
            if nodes or count:
                raise CorruptFileError(
                    f"partition {number} has no graph", path=reader.path, field=GRAPH_METADATA
                )
            continue
        levels = np.asarray(_counted(about["level_offsets"], nodes), np.int64)
        if (
            not len(levels)
            or levels[0] != 0
            or (np.diff(levels) < 0).any()
            or levels[-1] != nodes
            or (len(levels) > 1 and levels[1] != count)
            or not (0 <= about["entry_point"] < max(count, 1))
        ):
            raise CorruptFileError(
                f"the graph of partition {number} is not one of {count:,} rows",
                path=reader.path,
                field=GRAPH_METADATA,
            )
        if deep and nodes:
            start = int(graphs.offsets[number])
            _check_nodes(reader, reader.read_table(start=start, stop=start + nodes), count, number)


def _check_nodes(reader: FileReader, nodes: pa.Table, rows: int, number: int) -> None:
    ids = nodes["__vector_id"].combine_chunks()
    targets = nodes["__neighbors"].combine_chunks().flatten()
    for name, found in (("__vector_id", ids), ("__neighbors", targets)):
        if found.null_count or (len(found) and int(np.asarray(found).max()) >= rows):
            raise CorruptFileError(
                f"the graph of partition {number} names rows that it does not have",
                path=reader.path,
                field=name,
            )
    if not np.array_equal(np.asarray(ids)[:rows], np.arange(rows)):
        raise CorruptFileError(
            f"the graph of partition {number} lacks rows of it", path=reader.path, field="__vector_id"
        )


def _counted(offsets: list[int], nodes: int) -> list[int]:
    """Where the levels of a graph begin, and its nodes end.

    Releases of pylance up to 7.1 count the row that searches begin at in the lowest level only; all have it.
    """
    if nodes != offsets[-1] + len(offsets) - 2:
        return offsets
    return [offset + max(level - 1, 0) for level, offset in enumerate(offsets)]


def _abouts(reader: FileReader) -> list[dict[str, Any] | None]:
    try:
        texts = json.loads(reader.schema.metadata[GRAPH_METADATA])
        found = [json.loads(text) if text else None for text in texts]
        for about in found:
            if about is not None:
                about["entry_point"] = int(about["entry_point"])
                about["level_offsets"] = [int(offset) for offset in about["level_offsets"]]
                parameters = about["params"]
                known = {name: int(parameters[name]) for name in ("m", "ef_construction", "max_level")}
                about["params"] = {**parameters, **known}
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(
            f"its graphs are not described: {error!r}", path=reader.path, field=GRAPH_METADATA
        ) from error
    return found
