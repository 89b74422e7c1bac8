"""Posting lists: the rows of each token, read and written in the order of the tokens."""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from lance_ops.errors import CorruptFileError
from lance_ops.file.reader import FileReader
from lance_ops.file.schema.model import Schema
from lance_ops.file.writer import FileWriter
from lance_ops.index.moved_sets import Move, move_sets
from lance_ops.storage import Store
from lance_ops.table.manifest.index_metadata import IndexFile
from lance_ops.table.manifest.row_set import Addresses

POSTINGS = "ngram_postings.lance"
FILE_VERSION = "2.0"
"""Storage version of index files: every peer since 0.30 reads it."""

SCHEMA = pa.schema(
    [
        pa.field("tokens", pa.uint32()),
        # They are compressed already.
        pa.field(
            "posting_list", pa.binary(), nullable=False, metadata={"lance-encoding:compression": "none"}
        ),
    ]
)

_READ_TOKENS = 1024
_MAPPED_ROWS = 1 << 20
_WRITTEN_BYTES = 1 << 22

Posting = tuple[int, BitMap64]
Tokens = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class PostingFile:
    """An open file of posting lists."""

    reader: FileReader

    @classmethod
    def open(cls, store: Store, path: str) -> "PostingFile":
        """Open a file.

        Raises:
            CorruptFileError: It has other columns.
        """
        reader = FileReader.open(store, path)
        columns = reader.schema.to_arrow()
        if columns.names != SCHEMA.names or columns.types != SCHEMA.types:
            raise CorruptFileError(f"its columns are {columns.names}", path=path, field="schema")
        return cls(reader)

    def tokens(self) -> npt.NDArray[np.uint32]:
        """Return all tokens, ascending.

        Raises:
            CorruptFileError: They are not.
        """
        column = self.reader.read_table(Schema(self.reader.schema.fields[:1])).column(0)
        tokens = np.asarray(column.fill_null(0).to_numpy(), np.uint32)
        if (tokens[1:] <= tokens[:-1]).any():
            raise CorruptFileError("its tokens do not ascend", path=self.reader.path, field="tokens")
        return tokens

    def take(self, rows: npt.NDArray[np.int64]) -> list[BitMap64]:
        """Return the posting lists at some places of the file, in this order."""
        order = np.argsort(rows)
        found = self.reader.take(rows[order], Schema(self.reader.schema.fields[1:])).column(0)
        lists = [self._posting(data) for data in found]
        return [lists[place] for place in np.argsort(order)]

    def postings(self) -> Iterator[Posting]:
        """Yield all of them, ascending by token."""
        for tokens, lists in self.batches():
            yield from self._postings(tokens, lists)

    def batches(self) -> Iterator[tuple[Tokens, pa.BinaryArray]]:
        """Yield all posting lists as stored, in batches, ascending by token."""
        last = -1
        for batch in self.reader.iter_batches(batch_rows=_READ_TOKENS):
            tokens = np.asarray(batch["tokens"].fill_null(0).to_numpy(), np.uint32)
            if (np.diff(tokens.astype(np.int64), prepend=last) <= 0).any():
                raise CorruptFileError("its tokens do not ascend", path=self.reader.path, field="tokens")
            last = int(tokens[-1]) if len(tokens) else last
            yield tokens, batch["posting_list"]

    def moved(self, move: Move) -> Iterator[tuple[Tokens, pa.BinaryArray]]:
        """Posting lists with their rows where they are now; those of which nothing is left are left out."""
        for tokens, lists in self.batches():
            for part, found in move_sets(lists, move, framed=False):
                if found is None:
                    yield _arrays(moved(self._postings(tokens[part], lists[part]), move))
                else:
                    filled, written = found
                    yield tokens[part][filled], written

    def _postings(self, tokens: Tokens, lists: pa.BinaryArray) -> Iterator[Posting]:
        for token, data in zip(tokens.tolist(), lists, strict=True):
            yield token, self._posting(data)

    def _posting(self, data: pa.Scalar) -> BitMap64:
        try:
            return BitMap64.deserialize(data.as_py())
        except (ValueError, TypeError) as error:
            raise CorruptFileError(
                f"a posting list cannot be read: {error}", path=self.reader.path, field="posting_list"
            ) from error


def rows_of(posting: BitMap64) -> Addresses:
    """Return the rows of a posting list, ascending."""
    return np.frombuffer(posting.to_array(), np.uint64)


def moved(postings: Iterable[Posting], move: Move) -> Iterator[Posting]:
    """Posting lists with their rows where they are now; those of which nothing is left are left out."""
    held: list[tuple[int, Addresses]] = []
    count = 0
    for token, posting in postings:
        held.append((token, rows_of(posting)))
        count += len(posting)
        if count >= _MAPPED_ROWS:
            yield from _moved_together(held, move)
            held, count = [], 0
    yield from _moved_together(held, move)


def _moved_together(held: list[tuple[int, Addresses]], move: Move) -> Iterator[Posting]:
    if not held:
        return
    addresses, kept = move(np.concatenate([rows for _, rows in held]))
    start = 0
    for token, rows in held:
        stop = start + len(rows)
        left = addresses[start:stop][kept[start:stop]]
        start = stop
        if len(left):
            yield token, BitMap64(left)


def merged(sources: Iterable[Iterable[Posting]]) -> Iterator[Posting]:
    """Posting lists of several sources, each ascending by token, as one."""
    for token, group in groupby(heapq.merge(*sources, key=itemgetter(0)), key=itemgetter(0)):
        yield token, BitMap64.union(*(posting for _, posting in group))


def _arrays(postings: Iterable[Posting]) -> tuple[Tokens, pa.BinaryArray]:
    found = list(postings)
    tokens = np.array([token for token, _ in found], np.uint32)
    return tokens, pa.array([posting.serialize() for _, posting in found], pa.binary())


def write_postings(store: Store, path: str, postings: Iterable[Posting]) -> IndexFile:
    """Write a file of posting lists in ascending order of tokens."""
    return write_batches(store, path, _batches(postings))


def write_batches(store: Store, path: str, batches: Iterable[tuple[Tokens, pa.BinaryArray]]) -> IndexFile:
    """Write serialised posting lists in batches."""
    with FileWriter(store, path, Schema.from_arrow(SCHEMA), version=FILE_VERSION) as writer:
        for tokens, lists in batches:
            writer.write(pa.table([pa.array(tokens), lists], schema=SCHEMA))
        written = writer.finish()
    return IndexFile(path.rsplit("/", 1)[-1], written.size_bytes)


def _batches(postings: Iterable[Posting]) -> Iterator[tuple[Tokens, pa.BinaryArray]]:
    tokens: list[int] = []
    lists: list[bytes] = []
    size = 0
    for token, posting in postings:
        tokens.append(token)
        lists.append(posting.serialize())
        size += len(lists[-1])
        if size >= _WRITTEN_BYTES:
            yield np.array(tokens, np.uint32), pa.array(lists, pa.binary())
            tokens, lists, size = [], [], 0
    yield np.array(tokens, np.uint32), pa.array(lists, pa.binary())
