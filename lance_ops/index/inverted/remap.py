"""Remap of a full-text segment after a rewrite of fragments, without reading strings of the table.

Posting lists refer to documents by position, so documents of removed rows keep their positions, with the
address of a fragment that does not exist. Releases of pylance before 10 would look for them there, and fail:
the segment names that fragment among the deleted ones, whose rows readers leave out. Segments of releases
before 4 have no list of deleted fragments: they are rewritten without the documents.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyroaring import BitMap

from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.inverted.layout import DELETED_FRAGMENTS, METADATA, SegmentLayout
from lance_ops.index.inverted.merge import copy_into
from lance_ops.index.inverted.parameters import BuildParameters
from lance_ops.index.inverted.partition import Partition, open_partitions
from lance_ops.index.inverted.partition_writer import PartitionWriter
from lance_ops.index.kind import BuiltSegment, SegmentMove
from lance_ops.index.reading import reading
from lance_ops.index.row_id_files import GONE_FRAGMENT, follow_keeping_dead, is_gone, move_row_ids
from lance_ops.table.manifest.index_metadata import IndexFile
from lance_ops.table.manifest.row_set import Addresses


def remap(move: SegmentMove, files: Sequence[IndexFile]) -> BuiltSegment:
    """See `IndexKind.remap`.

    Args:
        move: The segment and the rewrite.
        files: Of the segment.

    Raises:
        UnreadableIndexError: the segment cannot be read.
    """
    with reading(move.segment):
        source, directory = move.dataset.bases.index_directory(move.segment)
        layout, partitions = open_partitions(source, directory)
        follow = follow_keeping_dead(move)
        moved = [follow(partition.documents.rows) for partition in partitions]
        if not any(is_gone(rows).any() for rows in moved):
            return BuiltSegment(move_row_ids(move, files), move.segment.details)
        if not layout.names_deleted:
            return _without_lost_rows(move, layout, partitions, moved)
        about = FileReader.open(source, f"{directory}/{METADATA}")
        others = [file for file in files if file.path != METADATA]
        told = _naming_gone_rows(move, about, layout)
        return BuiltSegment((told, *move_row_ids(move, others)), move.segment.details)


def _naming_gone_rows(move: SegmentMove, about: FileReader, layout: SegmentLayout) -> IndexFile:
    """Return a copy of `metadata.lance` that lists the fragment of removed rows as deleted."""
    schema = about.schema.to_arrow()
    deleted = BitMap([*layout.deleted_fragments, GONE_FRAGMENT]).serialize()
    known = [about.read_table()[name] for name in schema.names]
    columns = [
        pa.array([deleted], field.type) if field.name == DELETED_FRAGMENTS else column.slice(0, 1)
        for field, column in zip(schema, known, strict=True)
    ]
    with FileWriter(
        move.dataset.store, f"{move.directory}/{METADATA}", Schema(about.schema.fields), version=about.version
    ) as writer:
        writer.add_schema_metadata(about.schema.metadata)
        for number in range(1, about.num_global_buffers):
            writer.add_global_buffer(about.global_buffer(number))
        writer.write(pa.table(columns, schema=schema))
        return IndexFile(METADATA, writer.finish().size_bytes)


def _without_lost_rows(
    move: SegmentMove, layout: SegmentLayout, partitions: Sequence[Partition], moved: Sequence[Addresses]
) -> BuiltSegment:
    made = BuildParameters.of_layout(layout)
    store, written = move.dataset.store, []
    for partition, rows in zip(partitions, moved, strict=True):
        writer = PartitionWriter(store, move.directory, made.layout())
        copy_into(writer, partition, rows, ~is_gone(rows), with_position=made.text.with_position)
        if (part := writer.finish()) is not None:
            written.append(part)
    metadata = made.layout(tuple(part.number for part in written)).write(store, move.directory)
    files = tuple(file for part in written for file in part.files)
    details = made.text.to_details(move.segment.details, max(made.format_version, 1))
    return BuiltSegment((metadata, *files), details, made.index_version)
