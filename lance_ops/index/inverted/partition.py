"""Partition of a segment: its tokens, documents and posting lists."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.errors import CorruptFileError, InvalidArgumentError, NotFoundError, UnsupportedError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.index.inverted import postings as posting_lists
from lance_ops.index.inverted.bm25 import scored_sizes
from lance_ops.index.inverted.layout import (
    SegmentLayout,
    documents_file,
    is_without_partitions,
    postings_file,
    tokens_file,
)
from lance_ops.index.inverted.packing import Ints
from lance_ops.index.inverted.positions import ListedPositions, StreamedPositions, WordPositions
from lance_ops.index.inverted.postings import Postings
from lance_ops.index.inverted.token_set import TokenSet, read_token_set
from lance_ops.storage import Store
from lance_ops.storage.fork_safe import cached_property
from lance_ops.table.manifest.row_set import Addresses

POSTING = "_posting"
LENGTH = "_length"
MAX_SCORE = "_max_score"
IMPACTS = "_impacts"
LISTED = "_position"
STREAM = "_compressed_position"
STREAM_OFFSETS = "_position_block_offset"
ROW_ID = "_rowid"
NUM_TOKENS = "_num_tokens"
TOTAL_TOKENS = "total_tokens"


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents of a partition, numbered from 0.

    Attributes:
        rows: Row of each, by address or stable row id, as in the file.
        sizes: Words of each.
        total: Words of all.
    """

    rows: Addresses
    sizes: npt.NDArray[np.uint32]
    total: int

    def __len__(self) -> int:
        return len(self.rows)


class Partition:
    """An open partition; files are read on demand.

    Args:
        store: Where it is.
        directory: Of the segment.
        number: Of the partition.
        layout: Of the segment.
    """

    def __init__(self, store: Store, directory: str, number: int, layout: SegmentLayout) -> None:
        self.store = store
        self.directory = directory
        self.number = number
        self.layout = layout

    @cached_property
    def tokens(self) -> TokenSet:
        """Words with the rows of their posting lists."""
        return read_token_set(self._open(tokens_file(self.number)), self.layout.vocabulary)

    @cached_property
    def documents(self) -> Documents:
        """All documents."""
        reader = self._open(documents_file(self.number))
        table = reader.read_table()
        if ROW_ID not in table.column_names or NUM_TOKENS not in table.column_names:
            raise CorruptFileError("its documents are not there", path=reader.path, field=ROW_ID)
        for name in (ROW_ID, NUM_TOKENS):
            if table[name].null_count:
                raise CorruptFileError("documents without a row or a length", path=reader.path, field=name)
        rows = np.asarray(table[ROW_ID].to_numpy(), np.uint64)
        sizes = np.asarray(table[NUM_TOKENS].to_numpy(), np.uint32)
        return Documents(rows, sizes, int(sizes.sum(dtype=np.int64)))

    @cached_property
    def scored_sizes(self) -> npt.NDArray[np.uint32]:
        """Sizes of all documents, as scores rest on them."""
        return scored_sizes(self.documents.sizes, self.layout.postings.block_size)

    @cached_property
    def invert(self) -> FileReader:
        """The file of the posting lists, one row a word."""
        reader = self._open(postings_file(self.number))
        names = {field.name for field in reader.schema.fields}
        if POSTING not in names or LENGTH not in names:
            raise CorruptFileError("its posting lists are not there", path=reader.path, field=POSTING)
        return reader

    @property
    def has_positions(self) -> bool:
        """Return whether it has token positions."""
        names = {field.name for field in self.invert.schema.fields}
        return LISTED in names or STREAM in names

    def require_positions(self) -> None:
        """Refuse phrases without token positions.

        Raises:
            InvalidArgumentError: The index has none.
        """
        if not self.has_positions:
            raise InvalidArgumentError(
                "phrase queries need token positions, which the index does not have",
                path=self.directory,
                field="full_text_query",
                hint="build the index with with_position=True",
            )

    def postings(self, words: Sequence[int]) -> list[Postings]:
        """Return the posting lists of some words, by their rows, distinct; read at once.

        Raises:
            CorruptFileError: They cannot be read, or have documents out of range.
        """
        if not words:
            return []
        ascending = np.unique(np.array([self.checked(word) for word in words], np.int64))
        rows = self._rows(ascending, [POSTING, LENGTH]).combine_chunks()
        if rows[LENGTH].null_count:
            raise CorruptFileError("posting lists without a length", path=self.invert.path, field=LENGTH)
        lengths = np.asarray(rows[LENGTH].to_numpy(), np.int64)
        lists = rows[POSTING].combine_chunks()
        lists = lists if isinstance(lists, pa.Array) else pa.concat_arrays(lists.chunks)
        found = posting_lists.decode_many(lists.flatten(), lengths, self.layout.postings, self.invert.path)
        self.check_documents(found)
        stops = np.cumsum(lengths)
        parts = {
            word: found.part(stop - length, stop)
            for word, stop, length in zip(ascending.tolist(), stops.tolist(), lengths.tolist(), strict=True)
        }
        return [parts[word] for word in words]

    def check_documents(self, found: Postings) -> None:
        """Refuse posting lists that name documents that are not there.

        Raises:
            CorruptFileError: They do.
        """
        if len(found) and found.documents.max() >= len(self.documents):
            raise CorruptFileError(
                f"a posting list names document {int(found.documents.max())} of {len(self.documents)}",
                path=self.invert.path,
                field=POSTING,
                hint="rebuild the index",
            )

    def checked(self, word: int) -> int:
        """Return the number of a word, if it has a posting list.

        Raises:
            CorruptFileError: It has none.
        """
        if not 0 <= word < self.invert.num_rows:
            raise CorruptFileError(
                f"a word has number {word}, and there are {self.invert.num_rows} posting lists",
                path=self.invert.path,
                field=POSTING,
                hint="rebuild the index",
            )
        return word

    def checked_words(self, words: npt.NDArray[np.uint64]) -> Ints:
        """Return checked tokens by number."""
        if len(words):
            self.checked(int(words.max()))
        return words.astype(np.int64)

    def verify(self, *, deep: bool) -> None:
        """Read the first words, or all, with their posting lists and positions.

        Raises:
            CorruptFileError: They cannot be read, or are inconsistent.
        """
        if len(self.tokens) != self.invert.num_rows:
            raise CorruptFileError(
                f"{len(self.tokens)} words have {self.invert.num_rows} posting lists",
                path=self.invert.path,
                field=POSTING,
                hint="rebuild the index",
            )
        first = range(min(1, self.invert.num_rows))
        for word in self.checked_words(self.tokens.words()[1]).tolist() if deep else first:
            (found,) = self.postings([word])
            if self.has_positions:
                self.positions(word, found).of(np.arange(len(found)))

    def positions(self, word: int, postings: Postings) -> WordPositions:
        """Return the positions of a token in its documents.

        Raises:
            InvalidArgumentError: The index has no positions.
            CorruptFileError: They cannot be read.
        """
        names = {field.name for field in self.invert.schema.fields}
        if STREAM in names:
            row = self._row(word, [STREAM, STREAM_OFFSETS])
            return self.streamed(row, postings)
        self.require_positions()
        lists = _values(self._row(word, [LISTED])[LISTED].combine_chunks())
        return ListedPositions(lists, postings.counts, self.invert.path)

    def streamed(self, row: pa.Table, postings: Postings) -> StreamedPositions:
        """Return positions in the newer layout, from a table of one row."""
        return StreamedPositions(
            row[STREAM][0].as_py() or b"",
            np.asarray(_values(row[STREAM_OFFSETS].combine_chunks()).to_numpy(), np.uint32),
            postings.counts,
            self.layout.postings.block_size,
            self.layout.packed_positions,
            self.invert.path,
        )

    def _row(self, word: int, names: list[str]) -> pa.Table:
        return self._rows(np.array([self.checked(word)]), names)

    def _rows(self, words: Ints, names: list[str]) -> pa.Table:
        fields = tuple(field for field in self.invert.schema.fields if field.name in names)
        return self.invert.take(words, Schema(fields))

    def _open(self, name: str) -> FileReader:
        return FileReader.open(self.store, f"{self.directory}/{name}")


def _values(lists: pa.Array) -> pa.Array:
    """Items of the only list of a column."""
    lists = lists if isinstance(lists, pa.Array) else pa.concat_arrays(lists.chunks)
    return lists[0].values if lists[0].is_valid else lists.values.slice(0, 0)


def open_partitions(store: Store, directory: str) -> tuple[SegmentLayout, tuple[Partition, ...]]:
    """Return all partitions of a segment.

    Raises:
        CorruptFileError: What it consists of cannot be read.
        UnsupportedError: It is of a kind that is not known here.
    """
    try:
        layout = SegmentLayout.read(store, directory)
    except NotFoundError:
        if not is_without_partitions(store, directory):
            raise
        raise UnsupportedError(
            "text indices without partitions, as of pylance 0.27 and older, are not supported", path=directory
        ) from None
    return layout, tuple(Partition(store, directory, number, layout) for number in layout.partitions)
