"""Full-text search: a query over columns, answered by segments and by a scan of uncovered rows."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from lance_ops.encoding.distinct import distinct
from lance_ops.errors import InvalidArgumentError
from lance_ops.index.inverted.best import best_places
from lance_ops.index.inverted.column_search import UNINDEXED, ColumnSearch, IndexedTexts, OpenPartition
from lance_ops.index.inverted.layout import SegmentLayout
from lance_ops.index.inverted.parameters import require_rows
from lance_ops.index.inverted.partition import Partition, open_partitions
from lance_ops.index.inverted.query import (
    BooleanQuery,
    BoostQuery,
    MatchQuery,
    MultiMatchQuery,
    PhraseQuery,
    TextQuery,
)
from lance_ops.index.inverted.tokenizers.analyzer import Analyzer
from lance_ops.index.inverted.tokenizers.documents import JSON
from lance_ops.index.inverted.tokenizers.parameters import TextParameters
from lance_ops.index.opened import opened
from lance_ops.index.reading import reading
from lance_ops.index.scored import Locate, Scored
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import Addresses
from lance_ops.table.snapshot import Snapshot

_RUNS = "simple"
_KEPT_BYTES = 128 << 20
"""Maximum size of a segment whose tokens and documents are cached between searches."""


@dataclass(frozen=True, slots=True)
class TextSource:
    """Sources of the strings of a column.

    Attributes:
        segments: Segments of its index, each with its row locator.
        unindexed: Reads rows that no segment covers and that count, as tables (`values`, `ids`: addresses).
            It may be called more than once.
        parameters: Tokenizer parameters without segments.
    """

    segments: tuple[tuple[IndexMetadata, Locate], ...]
    unindexed: Callable[[], Iterable[pa.Table]]
    parameters: TextParameters = UNINDEXED


def search_text(
    dataset: Snapshot, sources: Mapping[str, TextSource], query: TextQuery, limit: int | None = None
) -> Scored:
    """Return rows that a query finds, best first; those with equal scores by address.

    Args:
        dataset: The version that is searched.
        sources: Sources of each column of the query (`columns_of`).
        query: Result of `parse_text_query`.
        limit: Maximum rows to find.

    Raises:
        InvalidArgumentError: The query has a phrase, and the index has no positions; or it has only negative
            conditions.
        UnsupportedError: The tokenizer of the index is not supported.
        UnreadableIndexError: A segment cannot be read.
    """
    columns = {path: _open(dataset, source) for path, source in sources.items()}
    found = _find(columns, query, limit or None)
    if limit is not None and 0 < limit < len(found) and not np.isnan(found.scores).any():
        # Ties of the last score are kept: the least addresses of them count.
        best = best_places(found.scores, limit)
        found = Scored(found.addresses[best], found.scores[best])
    order = np.lexsort((found.addresses, -found.scores))[:limit]
    return Scored(found.addresses[order], found.scores[order])


def _open(dataset: Snapshot, source: TextSource) -> ColumnSearch:
    layouts: list[SegmentLayout] = []
    partitions: list[OpenPartition] = []
    for segment, locate in source.segments:
        with reading(segment):
            require_rows(segment)
            layout, found = _partitions(dataset, segment)
        layouts.append(layout)
        partitions += [OpenPartition(dataset, segment, partition, locate) for partition in found]
    return ColumnSearch(
        partitions, Analyzer(layouts[0].parameters if layouts else source.parameters), source.unindexed
    )


def _partitions(dataset: Snapshot, segment: IndexMetadata) -> tuple[SegmentLayout, tuple[Partition, ...]]:
    """Return the partitions of a segment; those of a small one are cached, with their tokens."""
    size = sum(file.size_bytes for file in segment.files)
    if not 0 < size <= _KEPT_BYTES:
        return open_partitions(*dataset.bases.index_directory(segment))
    open_it = partial(open_partitions, *dataset.bases.index_directory(segment))
    return opened(dataset, segment, open_it, size_bytes=lambda _: size)


def rows_with_words(dataset: Snapshot, segment: IndexMetadata, text: str) -> Addresses | None:
    """Return row references of a segment that may have all words of a string.

    None if its words are not alphanumeric runs, or are stop words, which the index omits.

    Raises:
        UnreadableIndexError: The segment cannot be read.
        UnsupportedError: Its tokenizer is not supported.
    """
    with reading(segment):
        require_rows(segment)
        layout, partitions = _partitions(dataset, segment)
    if layout.parameters.base_tokenizer != _RUNS or layout.parameters.lance_tokenizer == JSON:
        return None
    words = Analyzer(layout.parameters).words(pa.array([text], pa.string())).vocabulary
    if not words:
        return None
    found = [np.zeros(0, np.uint64)]
    for partition in partitions:
        texts = IndexedTexts(OpenPartition(dataset, segment, partition, _everywhere), words)
        with reading(segment):
            found.append(texts.rows(words))
    return np.concatenate(found)


def _everywhere(rows: Addresses) -> "tuple[Addresses, np.ndarray[tuple[int], np.dtype[np.bool_]]]":
    return rows, np.ones(len(rows), np.bool_)


def _find(columns: Mapping[str, ColumnSearch], query: TextQuery, most: int | None = None) -> Scored:
    """Return the results of a query, by ascending address; rows below the best `most` may be missing."""
    match query:
        case MatchQuery():
            return _column(columns, query.column).match(query, most)
        case PhraseQuery():
            return _column(columns, query.column).phrase(query, most)
        case MultiMatchQuery():
            return _best([_find(columns, child) for child in query.queries])
        case BoostQuery():
            positive, negative = _find(columns, query.positive), _find(columns, query.negative)
            taken = np.float32(query.negative_boost) * _scores_at(negative, positive)
            return Scored(positive.addresses, positive.scores - taken)
        case BooleanQuery():
            return _boolean(columns, query)


def _boolean(columns: Mapping[str, ColumnSearch], query: BooleanQuery) -> Scored:
    if not query.must and not query.should:
        raise InvalidArgumentError("a boolean query needs a must or should clause", field="full_text_query")
    must = [_find(columns, child) for child in query.must]
    should = [_find(columns, child) for child in query.should]
    found = must[0] if must else _best(should)
    for other in must[1:]:
        kept = np.isin(found.addresses, other.addresses)
        found = Scored(found.addresses[kept], found.scores[kept])
    for child in query.must_not:
        kept = ~np.isin(found.addresses, _find(columns, child).addresses)
        found = Scored(found.addresses[kept], found.scores[kept])
    scores = np.zeros(len(found), np.float32)
    for part in (*must, *should):
        scores += _scores_at(part, found)
    return Scored(found.addresses, scores)


def _best(parts: list[Scored]) -> Scored:
    """Return rows of any of several, with their best scores."""
    addresses = distinct(np.concatenate([part.addresses for part in parts]))
    scores = np.full(len(addresses), -np.inf, np.float32)
    for part in parts:
        place = np.searchsorted(addresses, part.addresses)
        scores[place] = np.maximum(scores[place], part.scores)
    return Scored(addresses, scores)


def _scores_at(scored: Scored, wanted: Scored) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    """Return the score of each wanted row, or 0."""
    scores = np.zeros(len(wanted), np.float32)
    place = np.searchsorted(wanted.addresses, scored.addresses)
    inside = place < len(wanted)
    inside[inside] = wanted.addresses[place[inside]] == scored.addresses[inside]
    scores[place[inside]] = scored.scores[inside]
    return scores


def _column(columns: Mapping[str, ColumnSearch], path: str | None) -> ColumnSearch:
    if path is None or path not in columns:
        raise InvalidArgumentError(f"column {path!r} has no strings to search", field="full_text_query")
    return columns[path]
