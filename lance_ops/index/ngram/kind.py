"""NGRAM as an index kind: rows whose text has all trigrams of what is searched for."""

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from lance_ops.encoding.distinct import distinct
from lance_ops.errors import InvalidArgumentError
from lance_ops.file.schema.logical_types import JSON_TYPE
from lance_ops.file.schema.model import Field
from lance_ops.index.column import column_values
from lance_ops.index.column_query import ColumnQuery
from lance_ops.index.coverage import effective_fragments
from lance_ops.index.kind import BuildTask, BuiltSegment, IndexKind, Match, SegmentBuild, SegmentMove, Share
from lance_ops.index.moved_sets import Move
from lance_ops.index.ngram.literals import required_literals
from lance_ops.index.ngram.postings import (
    POSTINGS,
    Posting,
    PostingFile,
    Tokens,
    merged,
    moved,
    rows_of,
    write_batches,
    write_postings,
)
from lance_ops.index.ngram.trigrams import NULL_TOKEN, trigrams, trigrams_of
from lance_ops.index.opened import opened
from lance_ops.index.reading import check_addresses, current_addresses, reading
from lance_ops.index.row_ids import locate_row_ids
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import Addresses, RowSet
from lance_ops.table.snapshot import Snapshot

_SCAN_IS_BETTER = 0.5
"""Share of rows above which a scan is cheaper than a search."""
_CUT_BYTES = 1 << 22
"""Maximum bytes of strings whose trigrams are in memory at once."""
_TOKEN_BITS = 32


class NGramKind(IndexKind):
    """NGRAM: narrows contains, starts_with, ends_with, LIKE, = and simple regular expressions.

    Index version 0 holds row ids, which are addresses unless the table has stable row ids; version 1 holds
    addresses in any table.
    """

    name = "NGRAM"
    type_url = "/lance.table.NGramIndexDetails"
    names_every_row = False

    def check_field(self, field: Field) -> None:
        """See `IndexKind.check_field`."""
        text = pa.types.is_string(field.storage_type) or pa.types.is_large_string(field.storage_type)
        if field.children or not text or field.logical_type == JSON_TYPE:
            raise InvalidArgumentError(
                f"column {field.name!r} is {field.storage_type}, which an NGRAM cannot index",
                field="column",
                hint="NGRAM supports string columns only",
            )

    def build_share(self, task: BuildTask, path: str) -> Share:
        """See `IndexKind.build_share`: a file of posting lists."""
        found: dict[int, BitMap64] = {}
        values = column_values(
            task.dataset, task.column, task.fragment_ids, row_ids=task.row_ids, slowly=True
        )
        for table in values:
            for token, rows in _rows_by_token(table):
                posting = found.get(token)
                if posting is None:
                    found[token] = BitMap64(rows)
                else:
                    posting.update(rows)
        file = f"{path}.lance"
        write_postings(task.dataset.store, file, sorted(found.items()))
        return Share((file,))

    def merge(self, build: SegmentBuild) -> BuiltSegment:
        """See `IndexKind.merge`."""
        store = build.dataset.store
        sources = [_kept(build.dataset, segment) for segment in build.segments]
        sources += [PostingFile.open(store, share.temporary[0]).postings() for share in build.shares]
        return BuiltSegment((write_postings(store, f"{build.directory}/{POSTINGS}", merged(sources)),))

    def remap(self, move: SegmentMove) -> BuiltSegment:
        """See `IndexKind.remap`."""
        dataset, segment = move.dataset, move.segment

        def follow(rows: Addresses) -> tuple[Addresses, npt.NDArray[np.bool_]]:
            current, kept = _current(dataset, segment, rows)
            if kept.all():
                return move.moves.map(current)
            current, survived = move.moves.map(np.where(kept, current, np.uint64(0)))
            return current, kept & survived

        batches = _moved(dataset, segment, follow)
        written = write_batches(dataset.store, f"{move.directory}/{POSTINGS}", batches)
        return BuiltSegment((written,), segment.details)

    def addresses(self, dataset: Snapshot, segment: IndexMetadata) -> Iterator[Addresses]:
        """Yield row addresses, one for each trigram of a row."""
        for _, posting in _postings(dataset, segment):
            yield rows_of(posting)

    def search(self, dataset: Snapshot, segment: IndexMetadata, query: ColumnQuery) -> Match | None:
        """See `IndexKind.search`."""
        wanted = frozenset[int]().union(*map(trigrams_of, required_literals(query.condition)))
        if not wanted:
            return None
        file, tokens = opened(dataset, segment, lambda: _with_tokens(dataset, segment))
        asked = np.array(sorted(wanted), np.uint32)
        places = np.searchsorted(tokens, asked)
        known = np.flatnonzero(np.isin(asked, tokens))
        # A posting list that has to be there shows that the file is sound enough to be believed.
        lists = file.take(places[known]) if len(known) else []
        if len(known) < len(asked):
            return Match(RowSet(), exact=True)
        rows = rows_of(reduce(and_, sorted(lists, key=len)))
        covered = effective_fragments(dataset.manifest, segment)
        physical = sum(item.physical_rows for item in dataset.fragments if item.id in covered)
        return None if len(rows) > max(_SCAN_IS_BETTER * physical, 1) else Match(RowSet.of(rows), exact=False)

    def verify(self, dataset: Snapshot, segment: IndexMetadata, *, deep: bool) -> None:
        """See `IndexKind.verify`."""
        has_addresses = self.holds_addresses(segment, stable_row_ids=dataset.manifest.uses_stable_row_ids)
        with reading(segment):
            file = PostingFile.open(*_file(dataset, segment))
            file.tokens()
            # A compaction of pylance leaves empty lists of trigrams whose rows are all deleted.
            for _, posting in file.postings():
                if has_addresses:
                    check_addresses(dataset.manifest, rows_of(posting), file.reader.path)
                if not deep:
                    return

    def statistics(self, dataset: Snapshot, segment: IndexMetadata) -> Mapping[str, Any]:
        """See `IndexKind.statistics`."""
        with reading(segment):
            return {"num_ngrams": len(PostingFile.open(*_file(dataset, segment)).tokens())}


def _with_tokens(dataset: Snapshot, segment: IndexMetadata) -> tuple[PostingFile, npt.NDArray[np.uint32]]:
    file = PostingFile.open(*_file(dataset, segment))
    return file, file.tokens()


def _rows_by_token(table: pa.Table) -> Iterator[tuple[int, Addresses]]:
    """Yield the rows of each token in some rows of a column."""
    size = max(table["values"].nbytes, 1)
    step = max(1, table.num_rows * _CUT_BYTES // size)
    for start in range(0, table.num_rows, step):
        part = table.slice(start, step).combine_chunks()
        values = part["values"].combine_chunks()
        values = values if isinstance(values, pa.Array) else pa.concat_arrays(values.chunks)
        ids = np.asarray(part["ids"].to_numpy(), np.uint64)
        tokens, owners = trigrams(values)
        if values.null_count:
            yield NULL_TOKEN, ids[np.asarray(values.is_null().to_numpy(zero_copy_only=False))]
        keys = distinct(tokens.astype(np.uint64) << np.uint64(_TOKEN_BITS) | owners.astype(np.uint64))
        if not len(keys):
            continue
        found = keys >> np.uint64(_TOKEN_BITS)
        rows = ids[(keys & np.uint64((1 << _TOKEN_BITS) - 1)).astype(np.int64)]
        first = np.flatnonzero(np.diff(found, prepend=found[:1] + np.uint64(1)))
        stops = [*first[1:].tolist(), len(found)]
        for begin, end in zip(first.tolist(), stops, strict=True):
            yield int(found[begin]), rows[begin:end]


def _file(dataset: Snapshot, segment: IndexMetadata) -> tuple[Any, str]:
    store, directory = dataset.bases.index_directory(segment)
    return store, f"{directory}/{POSTINGS}"


def _postings(dataset: Snapshot, segment: IndexMetadata) -> Iterator[Posting]:
    with reading(segment):
        yield from PostingFile.open(*_file(dataset, segment)).postings()


def _moved(
    dataset: Snapshot, segment: IndexMetadata, follow: Move
) -> Iterator[tuple[Tokens, pa.BinaryArray]]:
    with reading(segment):
        yield from PostingFile.open(*_file(dataset, segment)).moved(follow)


def _current(
    dataset: Snapshot, segment: IndexMetadata, rows: Addresses
) -> tuple[Addresses, npt.NDArray[np.bool_]]:
    with reading(segment):
        check_addresses(dataset.manifest, rows, segment.directory)
        return current_addresses(dataset, segment, rows)


def _kept(dataset: Snapshot, segment: IndexMetadata) -> Iterator[Posting]:
    """Posting lists of a segment with the rows of fragments that it still covers."""
    covered = effective_fragments(dataset.manifest, segment)
    live = np.array(sorted(covered), np.uint64)
    stable = dataset.manifest.uses_stable_row_ids

    def keep(rows: Addresses) -> tuple[Addresses, npt.NDArray[np.bool_]]:
        if not NGramKind().holds_addresses(segment, stable_row_ids=stable):
            return rows, locate_row_ids(dataset, segment, covered, rows)[1]
        current, kept = _current(dataset, segment, rows)
        return current, kept & np.isin(current >> np.uint64(32), live)

    return moved(_postings(dataset, segment), keep)
