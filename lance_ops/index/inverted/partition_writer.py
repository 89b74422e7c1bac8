"""Partition writer: collect, sort and write tokens."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.kernels.index import posting_lists
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.inverted import positions as layouts_of_positions
from lance_ops.index.inverted.bm25 import K1, document_weights, norms, scored_sizes, word_weights
from lance_ops.index.inverted.impacts import encode_impacts, size_codes
from lance_ops.index.inverted.layout import (
    TRANSDUCER,
    SegmentLayout,
    documents_file,
    postings_file,
    tokens_file,
)
from lance_ops.index.inverted.packing import Ints
from lance_ops.index.inverted.partition import (
    IMPACTS,
    LENGTH,
    LISTED,
    MAX_SCORE,
    NUM_TOKENS,
    POSTING,
    ROW_ID,
    STREAM,
    STREAM_OFFSETS,
    TOTAL_TOKENS,
)
from lance_ops.index.inverted.posting_encoder import encode
from lance_ops.index.inverted.token_set import column_table, transducer_table
from lance_ops.storage import Store
from lance_ops.table.manifest.index_metadata import IndexFile
from lance_ops.table.manifest.row_set import Addresses

_POSTINGS_AT_ONCE = 1 << 18
_BYTES_OF_OCCURRENCE = 48
"""Approximate memory of an occurrence while a partition is sorted."""
_BYTES_OF_WORD = 200
_PARTITION_BITS = 48


def new_partition() -> int:
    """Return a number that no other partition has, of this or any other task."""
    return uuid.uuid4().int >> (128 - _PARTITION_BITS)


@dataclass(frozen=True, slots=True)
class WrittenPartition:
    """A partition on disk.

    Attributes:
        number: Of the partition.
        files: Its files, below the directory of the segment.
        words: Words of all its documents.
    """

    number: int
    files: tuple[IndexFile, ...]
    words: int


class PartitionWriter:
    """Collects the words of documents, and writes them as a partition.

    Args:
        store: Where it goes.
        directory: Of the segment.
        layout: Of the segment.
    """

    def __init__(self, store: Store, directory: str, layout: SegmentLayout) -> None:
        self._store = store
        self._directory = directory
        self._layout = layout
        self._numbers: dict[str, int] = {}
        self._rows: list[Addresses] = []
        self._sizes: list[npt.NDArray[np.uint32]] = []
        self._occurrences: list[tuple[npt.NDArray[np.uint32], ...]] = []
        self._documents = 0
        self._held = 0

    @property
    def held_bytes(self) -> int:
        """Memory that writing takes, about."""
        return self._held * _BYTES_OF_OCCURRENCE + len(self._numbers) * _BYTES_OF_WORD + self._documents * 24

    def add_documents(self, rows: Addresses, sizes: npt.NDArray[np.uint32]) -> int:
        """Add documents; returns the number of the first.

        Args:
            rows: Row of each.
            sizes: Words of each.
        """
        first = self._documents
        self._rows.append(rows)
        self._sizes.append(sizes)
        self._documents += len(rows)
        return first

    def add_words(
        self,
        vocabulary: Sequence[str],
        numbers: Ints,
        documents: Ints,
        extra: npt.NDArray[np.uint32],
    ) -> None:
        """Add words of documents.

        Args:
            vocabulary: Different words.
            numbers: Word (in `vocabulary`) of each entry.
            documents: Document of each entry; those of one word ascend, also from call to call.
            extra: With positions the position of each entry, which ascend for a word of a document; else how
                often the document holds the word.
        """
        if not len(numbers):
            return
        known = self._numbers
        mapping = np.array([known.setdefault(word, len(known)) for word in vocabulary], np.uint32)
        self._occurrences.append((mapping[numbers], documents.astype(np.uint32), np.ascontiguousarray(extra)))
        self._held += len(numbers)

    def finish(self) -> WrittenPartition | None:
        """Write what was added; None when no document was."""
        if not self._documents:
            return None
        number = new_partition()
        rows, sizes = np.concatenate(self._rows), np.concatenate(self._sizes)
        words = sorted(self._numbers, key=str.encode)
        rank = np.empty(len(words), np.uint32)
        rank[[self._numbers[word] for word in words]] = np.arange(len(words), dtype=np.uint32)
        # They are in `words`, and all are needed below.
        self._numbers.clear()
        written_words = self._write_words(number, words)
        del words
        entries, documents, extra = self._in_order(rank)
        files = (
            written_words,
            self._write_postings(number, sizes, entries, documents, extra),
            self._write_documents(number, rows, sizes),
        )
        return WrittenPartition(number, files, int(sizes.sum(dtype=np.int64)))

    def _in_order(
        self, rank: npt.NDArray[np.uint32]
    ) -> tuple[Ints, npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Entries of each word by its rank; of all, in that order: documents, what else. Frees them."""
        sizes = np.zeros(len(rank), np.int64)
        for words, _, _ in self._occurrences:
            sizes += np.bincount(words, minlength=len(rank))
        by_rank = np.empty_like(sizes)
        by_rank[rank] = sizes
        places = (np.cumsum(by_rank) - by_rank)[rank]
        total = int(sizes.sum())
        documents_out, extra_out = np.empty(total, np.uint32), np.empty(total, np.uint32)
        while self._occurrences:
            words, documents, extra = self._occurrences.pop(0)
            posting_lists.arrange(
                words=words,
                documents=documents,
                extra=extra,
                places=places,
                documents_out=documents_out,
                extra_out=extra_out,
            )
        return by_rank, documents_out, extra_out

    def _write_words(self, number: int, words: list[str]) -> IndexFile:
        table = transducer_table(words) if self._layout.vocabulary == TRANSDUCER else column_table(words)
        return self._write(tokens_file(number), Schema.from_arrow(table.schema), [table])

    def _write_documents(self, number: int, rows: Addresses, sizes: npt.NDArray[np.uint32]) -> IndexFile:
        schema = pa.schema(
            [pa.field(ROW_ID, pa.uint64(), nullable=False), pa.field(NUM_TOKENS, pa.uint32(), nullable=False)]
        )
        table = pa.table([pa.array(rows), pa.array(sizes)], schema=schema)
        total = str(int(sizes.sum(dtype=np.int64))).encode()
        return self._write(documents_file(number), Schema.from_arrow(schema), [table], {TOTAL_TOKENS: total})

    def _write_postings(
        self,
        number: int,
        sizes: npt.NDArray[np.uint32],
        entries: Ints,
        documents: npt.NDArray[np.uint32],
        extra: npt.NDArray[np.uint32],
    ) -> IndexFile:
        metadata = {key: value.encode() for key, value in self._layout.posting_metadata().items()}
        schema = postings_schema(self._layout)
        tables = self._posting_tables(schema, sizes, entries, documents, extra)
        return self._write(postings_file(number), Schema.from_arrow(schema), tables, metadata)

    def _posting_tables(
        self,
        schema: pa.Schema,
        sizes: npt.NDArray[np.uint32],
        entries: Ints,
        documents: npt.NDArray[np.uint32],
        extra: npt.NDArray[np.uint32],
    ) -> Iterator[pa.Table]:
        words = len(entries)
        bounds = np.concatenate(([0], np.cumsum(entries)))
        scored = scored_sizes(sizes, self._layout.postings.block_size)
        norms_of = norms(scored, int(sizes.sum(dtype=np.int64)), len(sizes))
        codes = size_codes(sizes)
        first = 0
        while first < words:
            # At least one token, and others up to the limit.
            last = int(np.searchsorted(bounds, bounds[first] + _POSTINGS_AT_ONCE, side="right")) - 1
            last = min(max(last, first + 1), words)
            part = slice(int(bounds[first]), int(bounds[last]))
            owners = np.repeat(np.arange(last - first, dtype=np.uint32), entries[first:last])
            yield self._posting_table(
                schema, owners, last - first, documents[part], extra[part], norms_of, codes
            )
            first = last

    def _posting_table(
        self,
        schema: pa.Schema,
        entries: npt.NDArray[np.uint32],
        words: int,
        documents: npt.NDArray[np.uint32],
        extra: npt.NDArray[np.uint32],
        norms_of: npt.NDArray[np.float32],
        codes: npt.NDArray[np.uint8],
    ) -> pa.Table:
        with_position = self._layout.parameters.with_position
        counts = extra
        if with_position:
            starts = np.ones(len(entries), np.bool_)
            starts[1:] = (entries[1:] != entries[:-1]) | (documents[1:] != documents[:-1])
            first = np.flatnonzero(starts)
            counts = np.diff(first, append=len(entries)).astype(np.uint32)
            entries, documents = entries[first], documents[first]
        lengths = np.bincount(entries, minlength=words).astype(np.int64)
        weights = word_weights(lengths, len(norms_of))
        scores = document_weights(counts, norms_of[documents]) / (K1 + np.float32(1))
        scores = np.asarray(scores * (weights * (K1 + np.float32(1)))[entries], np.float32)
        form = self._layout.postings
        encoded = encode(documents, counts, scores, lengths, form)
        columns = [encoded.blocks, pa.array(encoded.best), pa.array(encoded.lengths)]
        if self._layout.has_impacts:
            columns.append(encode_impacts(documents, counts, codes[documents], lengths, form.block_size))
        if with_position and self._layout.streams_positions:
            columns += layouts_of_positions.encode_streams(
                extra, counts.astype(np.int64), lengths, form.block_size
            )
        elif with_position:
            columns.append(layouts_of_positions.encode_lists(extra, counts.astype(np.int64), lengths))
        return pa.table(columns, schema=schema)

    def _write(
        self,
        name: str,
        schema: Schema,
        tables: Iterator[pa.Table] | list[pa.Table],
        metadata: dict[str, bytes] | None = None,
    ) -> IndexFile:
        path = f"{self._directory}/{name}"
        with FileWriter(self._store, path, schema, version=self._layout.file_version) as writer:
            for table in tables:
                writer.write(table)
            if metadata:
                writer.add_schema_metadata(metadata)
            return IndexFile(name, writer.finish().size_bytes)


def postings_schema(layout: SegmentLayout) -> pa.Schema:
    """Return columns of `part_N_invert.lance`."""
    binaries = pa.list_(pa.field("item", pa.large_binary()))
    columns = [(POSTING, binaries), (MAX_SCORE, pa.float32()), (LENGTH, pa.uint32())]
    if layout.has_impacts:
        columns.append((IMPACTS, binaries))
    if layout.streams_positions:
        columns += [(STREAM, pa.large_binary()), (STREAM_OFFSETS, pa.list_(pa.field("item", pa.uint32())))]
    elif layout.parameters.with_position:
        columns.append((LISTED, pa.list_(pa.field("item", binaries))))
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns])
