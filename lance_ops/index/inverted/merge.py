"""Writing partitions again: several as one, without the documents that no longer count."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError
from lance_ops.file.schema.model import Schema
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.inverted.packing import Ints
from lance_ops.index.inverted.parameters import BuildParameters
from lance_ops.index.inverted.partition import (
    LENGTH,
    LISTED,
    POSTING,
    STREAM,
    STREAM_OFFSETS,
    Partition,
    open_partitions,
)
from lance_ops.index.inverted.partition_writer import PartitionWriter, WrittenPartition
from lance_ops.index.inverted.positions import ListedPositions, WordPositions
from lance_ops.index.inverted.postings import Postings, decode_many
from lance_ops.index.kind import Parameters
from lance_ops.index.reading import check_addresses, current_addresses, reading
from lance_ops.index.row_ids import locate_row_ids
from lance_ops.table.dataset import Dataset
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import Addresses
from lance_ops.table.snapshot import Snapshot

_WORDS_AT_ONCE = 1 << 14
_POSTINGS_AT_ONCE = 1 << 19
"""Number of tokens whose posting lists are unpacked together; a token may have more."""
_BYTES_OF_WORD = 48
"""Approximate memory of an occurrence while a partition is sorted."""
_NO_WORD = ""


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Partitions that become one.

    Attributes:
        dataset: The version that their segments belong to.
        partitions: Segment and number of each.
        directory: Of the new segment.
        parameters: How it is made.
    """

    dataset: Dataset
    partitions: tuple[tuple[IndexMetadata, int], ...]
    directory: str
    parameters: Parameters


def merge_tasks(
    dataset: Dataset, segments: Sequence[IndexMetadata], directory: str, parameters: Parameters
) -> tuple[MergeTask, ...]:
    """Cut the partitions of segments into tasks that the memory holds.

    Raises:
        UnreadableIndexError: A segment cannot be read.
    """
    made = BuildParameters.of_dict(parameters)
    limit = made.memory_bytes
    groups: list[list[tuple[IndexMetadata, int]]] = []
    held = limit
    for segment in segments:
        with reading(segment):
            _, partitions = open_partitions(*dataset.bases.index_directory(segment))
            sizes = [partition.documents.total * _BYTES_OF_WORD for partition in partitions]
        for partition, size in zip(partitions, sizes, strict=True):
            if held + size > limit:
                groups.append([])
                held = 0
            groups[-1].append((segment, partition.number))
            held += size
    return tuple(MergeTask(dataset, tuple(group), directory, parameters) for group in groups)


def merge_partitions(task: MergeTask) -> WrittenPartition | None:
    """Run one merge task; None if no document is left.

    Raises:
        UnreadableIndexError: A segment cannot be read.
    """
    made = BuildParameters.of_dict(task.parameters)
    writer = PartitionWriter(task.dataset.store, task.directory, made.layout())
    for segment, number in task.partitions:
        with reading(segment):
            _, partitions = open_partitions(*task.dataset.bases.index_directory(segment))
            partition = next(item for item in partitions if item.number == number)
            rows, kept = current_rows(task.dataset, segment, partition)
            copy_into(writer, partition, rows, kept, with_position=made.text.with_position)
    return writer.finish()


def current_rows(
    dataset: Snapshot, segment: IndexMetadata, partition: Partition
) -> tuple[Addresses, npt.NDArray[np.bool_]]:
    """Return the row references of a partition for a new segment, and a mask of covered rows.

    Raises:
        CorruptFileError: They are not rows of the table.
    """
    rows = partition.documents.rows
    covered = effective_fragments(dataset.manifest, segment)
    if dataset.manifest.uses_stable_row_ids:
        _, kept = locate_row_ids(dataset, segment, covered, rows)
        return rows, kept
    check_addresses(dataset.manifest, rows, partition.directory)
    there = ~np.isin(rows >> np.uint64(32), _numbers(partition.layout.deleted_fragments))
    moved, kept = current_addresses(dataset, segment, rows)
    return moved, kept & there & np.isin(moved >> np.uint64(32), _numbers(covered))


def _numbers(fragments: frozenset[int]) -> Addresses:
    return np.array(sorted(fragments), np.uint64)


def copy_into(
    writer: PartitionWriter,
    partition: Partition,
    rows: Addresses,
    kept: npt.NDArray[np.bool_],
    *,
    with_position: bool,
) -> None:
    """Add documents of a partition to one that is written, with their words.

    Args:
        writer: Of the new partition.
        partition: The old one.
        rows: Row of each of its documents, as the new one names them.
        kept: Which of them to add.
        with_position: True if the new one has positions.

    Raises:
        CorruptFileError: The old one cannot be read.
    """
    if with_position:
        partition.require_positions()
    first = writer.add_documents(rows[kept], partition.documents.sizes[kept])
    renumbered = np.cumsum(kept) - 1 + first
    vocabulary = _vocabulary(partition)
    for start, postings, lengths, table in _lists(partition):
        words = np.repeat(np.arange(len(lengths)), lengths)
        own = vocabulary[start : start + len(lengths)]
        if not with_position:
            live = kept[postings.documents]
            documents = renumbered[postings.documents[live]]
            # Tokens without documents are removed.
            is_held = np.bincount(words[live], minlength=len(lengths)) > 0
            numbers = (np.cumsum(is_held) - 1)[words[live]]
            held = [own[word] for word in np.flatnonzero(is_held).tolist()]
            writer.add_words(held, numbers, documents, postings.counts[live])
            continue
        bounds = np.concatenate(([0], np.cumsum(lengths)))
        for word in np.flatnonzero(lengths).tolist():
            part = slice(int(bounds[word]), int(bounds[word + 1]))
            one = Postings(postings.documents[part], postings.counts[part])
            there = np.flatnonzero(kept[one.documents])
            if not len(there):
                continue
            positions, counts = _positions(partition, table.slice(word, 1), one).of(there)
            documents = np.repeat(renumbered[one.documents[there]], counts)
            numbers = np.zeros(len(positions), np.int64)
            writer.add_words([own[word]], numbers, documents, positions.astype(np.uint32))


def _vocabulary(partition: Partition) -> list[str]:
    """Return words by their numbers."""
    words, numbers = partition.tokens.words()
    rows = partition.checked_words(numbers)
    places = np.full(partition.invert.num_rows, -1, np.int64)
    places[rows] = np.arange(len(rows))
    found: list[str] = words.take(pa.array(places, mask=places < 0)).fill_null(_NO_WORD).to_pylist()
    return found


def _lists(partition: Partition) -> Iterator[tuple[int, Postings, Ints, pa.Table]]:
    """Posting lists of some words after the other, with the first of these words."""
    names = {POSTING, LENGTH, LISTED, STREAM, STREAM_OFFSETS}
    schema = Schema(tuple(field for field in partition.invert.schema.fields if field.name in names))
    every = _lengths(partition)
    for start, stop in _spans(every):
        table = partition.invert.read_table(schema, start=start, stop=stop).combine_chunks()
        lengths = every[start:stop]
        lists = table[POSTING].combine_chunks()
        lists = lists if isinstance(lists, pa.Array) else pa.concat_arrays(lists.chunks)
        found = decode_many(lists.flatten(), lengths, partition.layout.postings, partition.invert.path)
        partition.check_documents(found)
        yield start, found, lengths, table


def _lengths(partition: Partition) -> Ints:
    """Return documents of each word."""
    invert = partition.invert
    schema = Schema(tuple(field for field in invert.schema.fields if field.name == LENGTH))
    column = invert.read_table(schema)[LENGTH]
    if column.null_count:
        raise CorruptFileError("posting lists without a length", path=invert.path, field=LENGTH)
    return np.asarray(column.to_numpy(), np.int64)


def _spans(lengths: Ints) -> Iterator[tuple[int, int]]:
    """Words to unpack together: at least one, and others as long as neither they nor their lists are many."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(lengths):
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + _POSTINGS_AT_ONCE, side="right"))
        stop = min(max(fitting, start + 1), start + _WORDS_AT_ONCE)
        yield start, stop
        start = stop


def _positions(partition: Partition, row: pa.Table, postings: Postings) -> WordPositions:
    if STREAM in row.column_names:
        return partition.streamed(row, postings)
    return ListedPositions(row[LISTED].combine_chunks()[0].values, postings.counts, partition.invert.path)
