"""Moving the rows of a vector segment: their names change, everything else is copied as it is.

Rows that are gone keep their old names: they lie in fragments that never come back, so that nobody finds
them. Taking them out would move the rows behind them, which graphs and packed codes name by their places.
"""

import numpy as np
import pyarrow as pa

from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.kind import BuiltSegment, SegmentMove
from lance_ops.index.reading import check_addresses, current_addresses, reading
from lance_ops.index.vector.segment import INDEX_FILE, STORAGE_FILE, row_ids
from lance_ops.storage import Store
from lance_ops.table.manifest.index_metadata import IndexFile
from lance_ops.table.manifest.row_set import Addresses


def remap(move: SegmentMove) -> BuiltSegment:
    """See `IndexKind.remap`; works for quantizers that nobody here can search, too.

    Raises:
        UnreadableIndexError: the segment cannot be read.
    """
    dataset, segment = move.dataset, move.segment
    target = dataset.store
    with reading(segment):
        store, directory = dataset.bases.index_directory(segment)
        source = FileReader.open(store, f"{directory}/{STORAGE_FILE}")
    path = f"{move.directory}/{STORAGE_FILE}"
    # The type of a field and its encodings are those of its storage version.
    schema = Schema(source.schema.fields)
    with FileWriter(target, path, schema, version=source.version) as writer:
        with reading(segment):
            for number in range(1, source.num_global_buffers):
                writer.add_global_buffer(source.global_buffer(number))
            writer.add_schema_metadata(source.schema.metadata)
            for batch in source.iter_batches(batch_rows=1 << 17):
                rows = pa.Table.from_batches([batch])
                names = _moved(move, row_ids(rows, source.path), source.path)
                writer.write(rows.set_column(0, rows.schema.field(0), pa.array(names, pa.uint64())))
        written = writer.finish()
    with reading(segment):
        size = _copy(store, f"{directory}/{INDEX_FILE}", target, f"{move.directory}/{INDEX_FILE}")
    files = (IndexFile(STORAGE_FILE, written.size_bytes), IndexFile(INDEX_FILE, size))
    return BuiltSegment(files, segment.details)


def _moved(move: SegmentMove, names: Addresses, path: str) -> Addresses:
    check_addresses(move.dataset.manifest, names, path)
    current, there = current_addresses(move.dataset, move.segment, names)
    moved, kept = move.moves.map(current)
    return np.where(there & kept, moved, names)


def _copy(store: Store, path: str, target: Store, new_path: str) -> int:
    size = store.size(path)
    output = target.open_writer(new_path)
    try:
        output.copy_from(store, path, [(0, size)])
    except BaseException:
        output.abort()
        raise
    output.close()
    return size
