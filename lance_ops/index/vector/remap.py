"""Remap of a vector segment after a rewrite, without reading vectors of the table.

Removed rows are dropped from the segment: pylance would count them, and return fewer rows. Without removed
rows everything but the row ids is copied unchanged.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.file_version import index_file_version
from lance_ops.index.kind import BuiltSegment, SegmentMove
from lance_ops.index.reading import check_addresses, current_addresses, reading
from lance_ops.index.vector.graph.edit import without_rows
from lance_ops.index.vector.graph.model import Graph, read_graphs
from lance_ops.index.vector.ivf import read_partitions
from lance_ops.index.vector.model import Model
from lance_ops.index.vector.segment.read import INDEX_FILE, ROW_ID, STORAGE_FILE, VectorSegment, row_ids
from lance_ops.index.vector.segment.share import storage_schema
from lance_ops.index.vector.segment.write import write_index, write_storage
from lance_ops.table.manifest.index_metadata import IndexFile
from lance_ops.table.manifest.row_set import Addresses


def remap(move: SegmentMove) -> BuiltSegment:
    """See `IndexKind.remap`.

    Raises:
        UnreadableIndexError: the segment cannot be read.
    """
    dataset, segment = move.dataset, move.segment
    with reading(segment):
        opened = VectorSegment.open(*dataset.bases.index_directory(segment))
        source, index = opened.storage, opened.index
        lost = any(not _moved(move, names, opened)[1].all() for names in opened.addresses())
        if lost or not isinstance(source, FileReader) or not isinstance(index, FileReader):
            return BuiltSegment(_without_lost_rows(move, opened), segment.details)
        return BuiltSegment(_renamed(move, opened, source, index), segment.details)


def _renamed(
    move: SegmentMove, opened: VectorSegment, source: FileReader, index: FileReader
) -> tuple[IndexFile, ...]:
    """Return a copy with other names for its rows."""
    target = move.dataset.store
    # The encodings of a field are those of its storage version.
    with FileWriter(
        target, f"{move.directory}/{STORAGE_FILE}", Schema(source.schema.fields), version=source.version
    ) as writer:
        for number in range(1, source.num_global_buffers):
            writer.add_global_buffer(source.global_buffer(number))
        writer.add_schema_metadata(source.schema.metadata)
        for batch in source.iter_batches(batch_rows=1 << 17):
            rows = pa.Table.from_batches([batch])
            old = row_ids(rows, source.path)
            names, kept = _moved(move, old, opened)
            column = pa.array(np.where(kept, names, old), pa.uint64())
            writer.write(rows.set_column(0, rows.schema.field(0), column))
        written = writer.finish()
    return IndexFile(STORAGE_FILE, written.size_bytes), _copy_index(move, index)


def _without_lost_rows(move: SegmentMove, opened: VectorSegment) -> tuple[IndexFile, ...]:
    store, model = move.dataset.store, opened.model()
    version = index_file_version(move.dataset)
    storage, _ = write_storage(store, move.directory, model, _kept_rows(move, opened, model), version)
    index = opened.index
    if not isinstance(index, FileReader):
        return storage, write_index(store, move.directory, model, (), version)
    if model.graph is None:
        return storage, _copy_index(move, index)
    graphs = _kept_graphs(move, opened, index, model)
    return storage, write_index(store, move.directory, model, graphs, version)


def _kept_rows(move: SegmentMove, opened: VectorSegment, model: Model) -> Iterator[pa.Table]:
    for number in range(len(opened.partitions)):
        names, kept, rows = _partition(move, opened, model, number)
        moved = rows.add_column(0, storage_schema(model).field(0), pa.array(names, pa.uint64()))
        yield moved if kept.all() else moved.filter(pa.array(kept))


def _kept_graphs(
    move: SegmentMove, opened: VectorSegment, index: FileReader, model: Model
) -> Iterator[Graph]:
    graphs = read_graphs(index, read_partitions(index))
    for number, graph in enumerate(graphs):
        _, kept, rows = _partition(move, opened, model, number)
        if kept.all():
            yield graph
        else:
            yield without_rows(graph, kept, model.decode(rows, number), model.metric, index.path)


def _partition(
    move: SegmentMove, opened: VectorSegment, model: Model, number: int
) -> tuple[Addresses, npt.NDArray[np.bool_], pa.Table]:
    stored = opened.read_partition(number)
    names, kept = _moved(move, row_ids(stored, opened.storage.path), opened)
    return names, kept, model.quantizer.unpack(stored.drop_columns([ROW_ID]))


def _moved(
    move: SegmentMove, names: Addresses, opened: VectorSegment
) -> tuple[Addresses, npt.NDArray[np.bool_]]:
    """Return names of rows after the rewrite, and which are still there and the segment's affair."""
    check_addresses(move.dataset.manifest, names, opened.storage.path)
    current, there = current_addresses(move.dataset, move.segment, names)
    covered = np.array(sorted(effective_fragments(move.dataset.manifest, move.segment)), np.uint64)
    there = there & np.isin(current >> np.uint64(32), covered)
    current = np.where(there, current, 0).astype(np.uint64)
    moved, kept = move.moves.map(current)
    return moved, there & kept


def _copy_index(move: SegmentMove, index: FileReader) -> IndexFile:
    store, directory = move.dataset.bases.index_directory(move.segment)
    output = move.dataset.store.open_writer(f"{move.directory}/{INDEX_FILE}")
    try:
        output.copy_from(store, f"{directory}/{INDEX_FILE}", [(0, index.size_bytes)])
    except BaseException:
        output.abort()
        raise
    output.close()
    return IndexFile(INDEX_FILE, index.size_bytes)
