"""Segment, written: the rows by partition, and the centroids with the graphs."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.vector.graph.model import GRAPH_METADATA, GRAPH_SCHEMA, Graph
from lance_ops.index.vector.ivf import IVF_METADATA, Partitions
from lance_ops.index.vector.model import Model
from lance_ops.index.vector.segment.read import INDEX_FILE, INDEX_METADATA, STORAGE_FILE, STORAGE_METADATA
from lance_ops.index.vector.segment.share import storage_schema
from lance_ops.index.vector.tensor import encode_tensor
from lance_ops.storage import Store
from lance_ops.table.manifest.index_metadata import IndexFile

FLAT_METADATA = "lance:flat"
_FLAT_SCHEMA = pa.schema([pa.field("__flat_marker", pa.uint64(), nullable=False)])
# Readers expect the partitions in the first buffer, and a codebook in the second.
_IVF_BUFFER = 1
_CODEBOOK_BUFFER = 2


def write_storage(
    store: Store, directory: str, model: Model, partitions: Iterable[pa.Table], version: str
) -> tuple[IndexFile, npt.NDArray[np.int64]]:
    """Write the rows of all partitions.

    Args:
        store: Of the dataset.
        directory: Of the segment.
        model: Of the index.
        partitions: The rows of each, in turn: `_rowid`, then the columns of the quantizer.
        version: Storage version of the file.

    Returns:
        The file, and the rows of each partition.
    """
    schema = storage_schema(model)
    lengths: list[int] = []
    with FileWriter(
        store, f"{directory}/{STORAGE_FILE}", Schema.from_arrow(schema), version=version
    ) as writer:
        for rows in partitions:
            lengths.append(rows.num_rows)
            if rows.num_rows:
                packed = model.quantizer.pack(rows.drop_columns(rows.column_names[0]))
                writer.write(packed.add_column(0, schema.field(0), rows.column(0)))
        counts = np.array(lengths, np.int64)
        writer.add_global_buffer(Partitions.of_lengths(counts).encode())
        info: dict[str, Any] = dict(model.quantizer.info)
        if model.quantizer.codebook is not None:
            writer.add_global_buffer(encode_tensor(model.quantizer.codebook).SerializeToString())
            info["codebook_position"] = _CODEBOOK_BUFFER
        writer.add_schema_metadata(
            {
                "distance_type": model.metric.encode(),
                IVF_METADATA: str(_IVF_BUFFER).encode(),
                STORAGE_METADATA: json.dumps([json.dumps(info)]).encode(),
            }
        )
        written = writer.finish()
    return IndexFile(STORAGE_FILE, written.size_bytes), counts


def write_index(
    store: Store, directory: str, model: Model, graphs: Iterable[Graph], version: str
) -> IndexFile:
    """Write the centroids, and the graphs of all partitions, if the index has any."""
    schema = _FLAT_SCHEMA if model.graph is None else GRAPH_SCHEMA
    with FileWriter(store, f"{directory}/{INDEX_FILE}", Schema.from_arrow(schema), version=version) as writer:
        count = len(model.centroids)
        lengths, abouts = np.zeros(count, np.int64), [""] * count
        for number, graph in enumerate(graphs):
            lengths[number], abouts[number] = graph.nodes.num_rows, graph.about
            if graph.nodes.num_rows:
                writer.write(graph.nodes)
        writer.add_global_buffer(Partitions.of_lengths(lengths, model.centroids, model.loss).encode())
        about = {"type": model.index_type, "distance_type": model.metric}
        writer.add_schema_metadata(
            {
                INDEX_METADATA: json.dumps(about, separators=(",", ":")).encode(),
                IVF_METADATA: str(_IVF_BUFFER).encode(),
                FLAT_METADATA if model.graph is None else GRAPH_METADATA: json.dumps(abouts).encode(),
            }
        )
        written = writer.finish()
    return IndexFile(INDEX_FILE, written.size_bytes)
