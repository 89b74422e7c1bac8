"""Index files with a plain column of row addresses: only that column changes when rows move.

Full text keeps one for each document, vectors one for each row of their storage; what refers to them does so
by position. So rows that a rewrite removed stay where they are in the file, under an address that no row has:
taking them out would shift all positions behind them.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import SegmentMove
from lance_ops.index.reading import NOWHERE, check_addresses, reading
from lance_ops.storage import Store
from lance_ops.table.manifest.index_metadata import IndexFile
from lance_ops.table.manifest.row_set import Addresses

ROW_ID = "_rowid"
"""The column, in all kinds of pylance that have it."""

_BATCH_ROWS = 1 << 16
GONE_FRAGMENT = NOWHERE >> 32
"""Fragment id in the addresses of removed rows."""
_OFFSET_BITS = np.uint64(32)
_OFFSET_MASK = np.uint64(0xFFFF_FFFF)

Follow = Callable[[Addresses], Addresses]


def follow_keeping_dead(move: SegmentMove) -> Follow:
    """Map the rows of a segment after a rewrite; removed rows get an address that no row has.

    So do rows that the segment no longer covers, because their values changed.

    Not their old one: with a fragment reuse index for their fragments, readers would drop them, which shifts
    the positions of all others.
    """
    reuse = move.dataset.fragment_reuse
    covered = np.array(sorted(effective_fragments(move.dataset.manifest, move.segment)), np.uint64)

    def follow(addresses: Addresses) -> Addresses:
        dead = is_gone(addresses)
        check_addresses(move.dataset.manifest, addresses, move.segment.directory)
        moved, kept = addresses, ~dead
        if reuse is not None:
            moved, survived = reuse.map(moved)
            kept &= survived
        kept &= np.isin(moved >> _OFFSET_BITS, covered)
        moved, survived = move.moves.map(np.where(kept, moved, np.uint64(NOWHERE)))
        kept &= survived
        return np.where(kept, moved, np.uint64(NOWHERE) | (addresses & _OFFSET_MASK))

    return follow


def is_gone(addresses: Addresses) -> npt.NDArray[np.bool_]:
    """Return a mask of removed rows in the result of `follow_keeping_dead`."""
    gone: npt.NDArray[np.bool_] = addresses >> _OFFSET_BITS == np.uint64(GONE_FRAGMENT)
    return gone


def move_row_ids(move: SegmentMove, files: Sequence[IndexFile]) -> tuple[IndexFile, ...]:
    """Copy the files of a segment, with the addresses in their `_rowid` columns moved.

    Args:
        move: The segment and the rewrite.
        files: All files of the segment; those without the column are copied as they are.

    Raises:
        UnreadableIndexError: A file cannot be read.
    """
    follow = follow_keeping_dead(move)
    with reading(move.segment):
        source, directory = move.dataset.bases.index_directory(move.segment)
        return tuple(
            _move_file(
                source, f"{directory}/{file.path}", move.dataset.store, move.directory, file.path, follow
            )
            for file in files
        )


def read_row_ids(reader: FileReader) -> Sequence[Addresses]:
    """Return the `_rowid` column of a file, a part at a time.

    Raises:
        CorruptFileError: It has nulls or another type.
    """
    schema = reader.schema.project([ROW_ID])
    return [_row_ids(batch, reader.path) for batch in reader.iter_batches(schema, batch_rows=_BATCH_ROWS)]


def _move_file(
    source: Store, path: str, target: Store, directory: str, name: str, follow: Follow
) -> IndexFile:
    reader = FileReader.open(source, path)
    copy = f"{directory}/{name}"
    position = reader.schema.to_arrow().get_field_index(ROW_ID)
    if position < 0:
        _copy(source, path, reader.size_bytes, target, copy)
        return IndexFile(name, reader.size_bytes)
    # The type of a field and its encodings are those of its storage version.
    schema = Schema(reader.schema.fields)
    with FileWriter(target, copy, schema, version=reader.version) as writer:
        writer.add_schema_metadata(reader.schema.metadata)
        for number in range(1, reader.num_global_buffers):
            writer.add_global_buffer(reader.global_buffer(number))
        for batch in reader.iter_batches(batch_rows=_BATCH_ROWS):
            moved = pa.array(follow(_row_ids(batch, path)), pa.uint64())
            writer.write(batch.set_column(position, batch.schema.field(position), moved))
        return IndexFile(name, writer.finish().size_bytes)


def _row_ids(batch: pa.RecordBatch, path: str) -> Addresses:
    column = batch.column(batch.schema.get_field_index(ROW_ID))
    if column.type != pa.uint64() or column.null_count:
        raise CorruptFileError(
            f"its row ids are {column.type} with {column.null_count} nulls", path=path, field=ROW_ID
        )
    return np.asarray(column.to_numpy(), dtype=np.uint64)


def _copy(source: Store, path: str, size: int, target: Store, copy: str) -> None:
    output = target.open_writer(copy)
    try:
        output.copy_from(source, path, [(0, size)])
    except BaseException:
        output.abort()
        raise
    output.close()
