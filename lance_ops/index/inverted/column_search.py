"""Searching one column for words: all partitions of all segments, and strings that no segment covers.

Scores of what the index covers rest on the numbers of all its partitions, deleted rows included; those of
other strings on these and their own together. So pylance has it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import add

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.encoding.distinct import distinct
from lance_ops.index.inverted.best import best_places
from lance_ops.index.inverted.bm25 import Floats, Statistics, document_weights, sum_scores
from lance_ops.index.inverted.packing import Ints
from lance_ops.index.inverted.partition import Partition
from lance_ops.index.inverted.postings import Postings
from lance_ops.index.inverted.query import MatchQuery, PhraseQuery
from lance_ops.index.inverted.tokenizers.analyzer import Analyzer
from lance_ops.index.inverted.tokenizers.documents import JSON, prefix_of
from lance_ops.index.inverted.tokenizers.parameters import TextParameters
from lance_ops.index.inverted.unindexed import FreshTexts
from lance_ops.index.inverted.word_matching import holds_phrase, similar_words
from lance_ops.index.opened import opened_parts
from lance_ops.index.reading import reading
from lance_ops.index.scored import Locate, Scored
from lance_ops.table.manifest.index_metadata import IndexMetadata
from lance_ops.table.manifest.row_set import Addresses
from lance_ops.table.snapshot import Snapshot

UNINDEXED = TextParameters(
    lower_case=False, stem=False, remove_stop_words=False, ascii_folding=False, max_token_length=None
)
"""Tokenizer of pylance for a column without an index."""

_Group = tuple[str, ...]
"""Tokens that count as equal."""
_SPARSE = 64
"""Share of strings above which they are marked instead of sorted."""
_FEW = 1 << 10
"""Number of strings below which all are located before the best are selected."""
_SPARE = 32
"""Additional results in case some are deleted."""


@dataclass(frozen=True, slots=True)
class OpenPartition:
    """An open partition of a segment, with the locator of its rows."""

    dataset: Snapshot
    segment: IndexMetadata
    partition: Partition
    locate: Locate


class ColumnSearch:
    """A search of one column.

    Args:
        partitions: Of all segments.
        analyzer: Tokenizes queries like the index.
        unindexed: Reads uncovered strings.
    """

    def __init__(
        self,
        partitions: Sequence[OpenPartition],
        analyzer: Analyzer,
        unindexed: Callable[[], Iterable[pa.Table]],
    ) -> None:
        self._partitions = partitions
        self._analyzer = analyzer
        self._read_unindexed = unindexed
        self._fresh: FreshTexts | None = None

    def match(self, query: MatchQuery, most: int | None = None) -> Scored:
        """Strings that hold some words, or all.

        Args:
            query: What is searched for.
            most: Strings that are not among the best so many may be left out; none when None.
        """
        words = self._analyzer.query_words(query.query)
        groups, fresh_groups = _by_place(words), None
        if query.fuzziness:
            groups, fresh_groups = self._expanded(query, groups)
        if not groups and not fresh_groups:
            return Scored.nothing()
        # Other weights may make scores equal, or turn their order round.
        most = most if query.boost == 1 else None
        every = query.operator == "AND"
        found = self._score(groups, every=every, phrase=None, most=most, fresh_groups=fresh_groups)
        return replace(found, scores=found.scores * np.float32(query.boost))

    def phrase(self, query: PhraseQuery, most: int | None = None) -> Scored:
        """Strings that hold words in an order; see `match` for `most`."""
        words = self._analyzer.query_words(query.query)
        if not words:
            return Scored.nothing()
        groups = [(word,) for word, _ in words]
        places = [place for _, place in words]
        return self._score(groups, every=True, phrase=_Phrase(tuple(places), query.slop), most=most)

    def _expanded(self, query: MatchQuery, exact: Sequence[_Group]) -> tuple[list[_Group], list[_Group]]:
        """Return the expansions of each token of a query: in the index, and in uncovered strings.

        In the index they are similar tokens, at most as many as the query allows, as in pylance. In other
        strings pylance searches exact tokens only; here similar ones count too, so results do not depend on
        coverage.

        Args:
            query: The query.
            exact: Its tokens, see `_by_place`.
        """
        tokenizer = self._analyzer.parameters.lance_tokenizer
        plain = replace(UNINDEXED, lance_tokenizer=tokenizer)
        written = [word for word, _ in Analyzer(plain).query_words(query.query)]
        fresh_words = {word for numbers in self._fresh_texts().numbers for word in numbers}
        aligned = written if len(written) == len(exact) else [group[0] for group in exact]
        similar = _similar(query, aligned, fresh_words, tokenizer)
        fresh = [tuple(dict.fromkeys(both)) for both in map(add, exact, similar)]
        return _similar(query, written, self._vocabulary(), tokenizer), fresh

    def _vocabulary(self) -> set[str]:
        known: set[str] = set()
        for item in self._partitions:
            with reading(item.segment):
                known.update(item.partition.tokens.words()[0].to_pylist())
        return known

    def _fresh_texts(self) -> FreshTexts:
        if self._fresh is None:
            self._fresh = FreshTexts.of(self._read_unindexed(), self._analyzer)
        return self._fresh

    def _score(
        self,
        groups: Sequence[_Group],
        *,
        every: bool,
        phrase: "_Phrase | None",
        most: int | None,
        fresh_groups: Sequence[_Group] | None = None,
    ) -> Scored:
        """Strings that hold a word of one group, or of every one, the best `most` at least.

        Groups are others for strings that no segment covers where they are given.
        """
        fresh_groups = groups if fresh_groups is None else fresh_groups
        words = tuple(dict.fromkeys(word for group in (*groups, *fresh_groups) for word in group))
        lists = [IndexedTexts(item, words) for item in self._partitions]
        statistics = sum((texts.statistics() for texts in lists), Statistics())
        found = [
            texts.located(*_scored(texts, groups, statistics, every=every, phrase=phrase), most=most)
            for texts in lists
            if groups
        ]
        fresh = self._fresh_texts()
        if len(fresh.rows) and fresh_groups:
            texts = _UnindexedTexts(fresh)
            statistics = statistics + fresh.statistics(words)
            documents, scores = _scored(texts, fresh_groups, statistics, every=every, phrase=phrase)
            found.append(Scored(fresh.rows[documents], scores))
        return _together(found)


def _similar(
    query: MatchQuery, words: Sequence[str], known: Collection[str], tokenizer: str | None
) -> list[_Group]:
    """Return for each token the similar ones, at most as many in total as the query allows."""
    groups: list[_Group] = []
    left = query.max_expansions
    for word in words:
        # Path and type of a value are never others.
        prefix = query.prefix_length + (len(prefix_of(word).encode()) if tokenizer == JSON else 0)
        found = similar_words(word, known, query.fuzziness or 0, prefix)
        similar = sorted(found, key=str.encode)[:left]
        left -= len(similar)
        groups.append(tuple(similar))
    return groups


def _by_place(words: Sequence[tuple[str, int]]) -> list[_Group]:
    """Return whether tokens at one position of a query (as of n-grams) are alternatives."""
    groups: dict[int, dict[str, None]] = {}
    for word, place in words:
        groups.setdefault(place, {})[word] = None
    return [tuple(group) for group in groups.values()]


@dataclass(frozen=True, slots=True)
class _Phrase:
    """Conditions of a phrase besides its tokens; see `holds_phrase`."""

    places: tuple[int, ...]
    slop: int


class _Texts(ABC):
    """Strings numbered from 0, as scored."""

    sizes: npt.NDArray[np.uint32]

    @abstractmethod
    def postings(self, word: str) -> Postings:
        """Strings that hold a word."""

    @abstractmethod
    def occurrences(self, word: str, documents: Ints) -> tuple[Ints, Ints]:
        """Return the occurrences of a token: strings, ascending, and positions."""


class _UnindexedTexts(_Texts):
    def __init__(self, fresh: FreshTexts) -> None:
        self.sizes = fresh.sizes
        self._fresh = fresh

    def postings(self, word: str) -> Postings:
        return self._fresh.postings(word)

    def occurrences(self, word: str, documents: Ints) -> tuple[Ints, Ints]:
        texts, positions = self._fresh.occurrences(word)
        kept = np.isin(texts, documents)
        return texts[kept], positions[kept]


class IndexedTexts(_Texts):
    """The strings of a partition that hold some words.

    Args:
        item: The partition.
        words: The words.

    Raises:
        UnreadableIndexError: It cannot be read.
    """

    def __init__(self, item: OpenPartition, words: Iterable[str]) -> None:
        self._segment = item.segment
        self._partition = partition = item.partition
        self._locate = item.locate
        with reading(item.segment):
            self._numbers = {word: partition.tokens.get(word) for word in words}
            known = sorted({number for number in self._numbers.values() if number is not None})
            held = opened_parts(
                item.dataset,
                item.segment,
                [(partition.number, number) for number in known],
                lambda missing: partition.postings([number for _, number in missing]),
                lambda postings: postings.size_bytes,
            )
            self.sizes = partition.scored_sizes
        self._postings = dict(zip(known, held, strict=True))

    def statistics(self) -> Statistics:
        """Return the corpus statistics of this partition."""
        held = {word: len(self.postings(word)) for word, n in self._numbers.items() if n is not None}
        documents = self._partition.documents
        return Statistics(len(documents), documents.total, held)

    def rows(self, words: Sequence[str]) -> Addresses:
        """Return rows that hold all of some of the words, as the segment names them."""
        lists = [[(word, self.postings(word))] for word in words]
        return self._there(_wanted(lists, len(self.sizes), every=True))[0]

    def postings(self, word: str) -> Postings:
        """See `_Texts.postings`."""
        number = self._numbers[word]
        return Postings.nothing() if number is None else self._postings[number]

    def occurrences(self, word: str, documents: Ints) -> tuple[Ints, Ints]:
        """See `_Texts.occurrences`."""
        postings, number = self.postings(word), self._numbers[word]
        assert number is not None
        self._partition.require_positions()
        with reading(self._segment):
            held = self._partition.positions(number, postings)
            positions, counts = held.of(np.searchsorted(postings.documents, documents))
        return np.repeat(documents, counts), positions

    def located(self, documents: Ints, scores: Floats, *, most: int | None) -> Scored:
        """Return results at their current addresses.

        Args:
            documents: Numbers of strings.
            scores: Of each.
            most: Rows below the best so many may be omitted; all are returned when None.
        """
        if most is not None and len(scores) > _FEW:
            # Some may be deleted. What has lower scores than enough rows of this partition has lower ones
            # than enough of all.
            best = best_places(scores, most + _SPARE)
            found = self._located(documents[best], scores[best])
            if len(distinct(found.addresses)) >= most:
                return found
        return self._located(documents, scores)

    def _located(self, documents: Ints, scores: Floats) -> Scored:
        rows, there = self._there(documents)
        addresses, kept = self._locate(rows)
        return Scored(np.asarray(addresses[kept], np.uint64), scores[there][kept])

    def _there(self, documents: Ints) -> tuple[Addresses, npt.NDArray[np.bool_]]:
        """Return rows of documents except those of uncovered fragments, and a mask of them."""
        rows = self._partition.documents.rows[documents]
        deleted = self._partition.layout.deleted_fragments
        if not deleted:
            return rows, np.ones(len(rows), np.bool_)
        there = ~np.isin(rows >> np.uint64(32), np.array(sorted(deleted), np.uint64))
        return rows[there], there


def _scored(
    texts: _Texts,
    groups: Sequence[_Group],
    statistics: Statistics,
    *,
    every: bool,
    phrase: _Phrase | None,
) -> tuple[Ints, Floats]:
    """Return numbers of strings that count, ascending, and their scores."""
    held = [[(word, texts.postings(word)) for word in group] for group in groups]
    if phrase is None and not every:
        return sum_scores(
            [(statistics.word_weight(word), postings) for group in held for word, postings in group],
            texts.sizes,
            statistics,
        )
    size = len(texts.sizes)
    wanted = _wanted(held, size, every=every)
    if phrase is not None and len(wanted):
        occurrences = [texts.occurrences(group[0], wanted) for group in groups]
        wanted = holds_phrase(occurrences, phrase.places, phrase.slop)
    if not len(wanted):
        return wanted, np.zeros(0, np.float32)
    counting = _mask(wanted, size)
    scores = np.zeros(size, np.float32)
    for group in held:
        for word, postings in group:
            there = counting[postings.documents]
            documents, counts = postings.documents[there], postings.counts[there]
            weights = document_weights(counts, statistics.norms(texts.sizes[documents]))
            scores[documents] += statistics.word_weight(word) * weights
    return wanted, scores[wanted]


def _wanted(held: Sequence[Sequence[tuple[str, Postings]]], size: int, *, every: bool) -> Ints:
    """Return strings with a token of any group, or of every group."""
    unions = [_union([postings.documents for _, postings in group], size) for group in held]
    if not every:
        return _union(unions, size)
    found = min(unions, key=len)
    for documents in unions:
        if documents is not found and len(found):
            found = found[_mask(documents, size)[found]]
    return found


def _union(parts: Sequence[Ints], size: int) -> Ints:
    filled = [part for part in parts if len(part)]
    if len(filled) < 2:
        return filled[0] if filled else np.zeros(0, np.int64)
    if sum(map(len, filled)) * _SPARSE < size:
        return distinct(np.concatenate(filled))
    found = np.zeros(size, np.bool_)
    for part in filled:
        found[part] = True
    return np.flatnonzero(found)


def _mask(documents: Ints, size: int) -> npt.NDArray[np.bool_]:
    found = np.zeros(size, np.bool_)
    found[documents] = True
    return found


def _together(found: Sequence[Scored]) -> Scored:
    """Merge the results of partitions; of a row that is in several the best."""
    addresses = np.concatenate([part.addresses for part in found]) if found else np.zeros(0, np.uint64)
    scores = np.concatenate([part.scores for part in found]) if found else np.zeros(0, np.float32)
    if len(addresses) > 1 and not (addresses[1:] > addresses[:-1]).all():
        order = np.lexsort((-scores, addresses))
        addresses, scores = addresses[order], scores[order]
        first = np.ones(len(addresses), np.bool_)
        first[1:] = addresses[1:] != addresses[:-1]
        addresses, scores = addresses[first], scores[first]
    return Scored(np.asarray(addresses, np.uint64), scores)
