"""Analyzer: tokens of strings, by the parameters of an index."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_ops.extras import load_extra
from lance_ops.index.inverted.tokenizers import splitting
from lance_ops.index.inverted.tokenizers.code import code_words
from lance_ops.index.inverted.tokenizers.documents import JSON, Leaf, document_leaves, query_leaves
from lance_ops.index.inverted.tokenizers.libraries import library_cut
from lance_ops.index.inverted.tokenizers.lists import joined_items
from lance_ops.index.inverted.tokenizers.parameters import CODE, TextParameters
from lance_ops.index.inverted.tokenizers.splitting import Pieces, Texts
from lance_ops.index.inverted.tokenizers.tables import folding, newer_lower_case, stop_words
from lance_ops.storage.fork_safe import cached_property

_REMEMBERED = 1 << 20
"""Pieces whose words are kept available."""

_ASCII_RUNS = re.compile(r"[A-Za-z0-9]+")

_SHORT = 1024
"""Maximum characters of a query whose tokens are cached."""


@dataclass(frozen=True, slots=True)
class Words:
    """Words of strings, in the order of the strings.

    Attributes:
        strings: The number of the text that each word is from.
        positions: Which word of its text it is; words that are left out count.
        numbers: The number of each word in `vocabulary`.
        vocabulary: Different words, none twice.
    """

    texts: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    vocabulary: tuple[str, ...]


class Analyzer:
    """Tokenizer of strings.

    Args:
        parameters: Of the tokenizer.

    Raises:
        UnsupportedError: The tokenizer is not supported, or the stemming library is not installed.
    """

    def __init__(self, parameters: TextParameters) -> None:
        parameters.require_known()
        self.parameters = parameters
        if parameters.stem:
            _stemming()
        self._stop_words: frozenset[str] = frozenset()
        if parameters.remove_stop_words:
            own = parameters.custom_stop_words
            self._stop_words = stop_words(parameters.language) if own is None else frozenset(own)
        self._known: dict[str, str | None] = {}

    @cached_property
    def _stemmer(self) -> Any:
        # Its own memory of words would only repeat ours.
        return _stemming().Stemmer(self.parameters.language.lower(), 0)

    def words(self, values: pa.Array) -> Words:
        """Cut the strings of an array of strings, or of lists of them; a null has no words.

        Raises:
            InvalidArgumentError: They should be JSON documents, and one is not.
        """
        if self.parameters.lance_tokenizer == JSON:
            return self.words_of_leaves(document_leaves(values))
        return self._words_of_texts(joined_items(values))

    def _words_of_texts(self, values: pa.Array) -> Words:
        pieces = self._split(Texts.of(values))
        if values.null_count and self.parameters.base_tokenizer == "raw":
            pieces = _without(pieces, np.asarray(values.is_null().to_numpy(zero_copy_only=False)))
        encoded = pieces.pieces.dictionary_encode()
        normal = self._normalize(encoded.dictionary.to_pylist())
        numbers: dict[str, int] = {}
        mapping = np.array(
            [-1 if word is None else numbers.setdefault(word, len(numbers)) for word in normal], np.int64
        )
        found = mapping[encoded.indices.to_numpy()] if len(mapping) else np.zeros(0, np.int64)
        kept = found >= 0
        return Words(pieces.texts[kept], pieces.positions[kept], found[kept], tuple(numbers))

    def words_of_leaves(self, leaves: Sequence[Leaf]) -> Words:
        """Words of the values of JSON documents; positions count all words of a document that are kept."""
        cut = self._words_of_texts(pa.array([leaf.value for leaf in leaves if leaf.is_text], pa.string()))
        ends = np.searchsorted(cut.texts, np.arange(len(leaves)), side="right").tolist()
        known = [cut.vocabulary[number] for number in cut.numbers.tolist()]
        numbers: dict[str, int] = {}
        found, documents, text, start = [], [], 0, 0
        for leaf in leaves:
            words = [leaf.value]
            if leaf.is_text:
                words, start, text = known[start : ends[text]], ends[text], text + 1
            found += [numbers.setdefault(leaf.prefix + word, len(numbers)) for word in words]
            documents += [leaf.document] * len(words)
        owners = np.array(documents, np.int64)
        positions = np.arange(len(owners)) - np.searchsorted(owners, owners)
        return Words(owners, positions, np.array(found, np.int64), tuple(numbers))

    def query_words(self, text: str) -> tuple[tuple[str, int], ...]:
        """Return words of a query with their positions, counted from the first that is kept.

        Raises:
            InvalidArgumentError: It is for JSON documents, and has no path or type.
        """
        if len(text) <= _SHORT:
            return _kept_words(self.parameters, text)
        return _query_words(self, text)

    def words_of_runs(self, runs: Sequence[str]) -> list[str | None]:
        """Return the token of each alphanumeric run, or None if it is omitted."""
        return self._normalize(runs)

    def _split(self, texts: Texts) -> Pieces:
        chosen = self.parameters
        if (cut := library_cut(chosen.base_tokenizer)) is not None:
            return splitting.cut_pieces(splitting.whole(texts), cut)
        if chosen.base_tokenizer == CODE:
            return code_words(
                texts,
                split=chosen.split_identifiers,
                numerics=chosen.split_on_numerics,
                original=chosen.preserve_original,
                operators=chosen.index_operators,
            )
        if chosen.base_tokenizer == "ngram":
            least, greatest = chosen.min_ngram_length, chosen.max_ngram_length
            return splitting.ngrams(texts, least, greatest, prefix_only=chosen.prefix_only)
        split = {
            "simple": splitting.words,
            "whitespace": splitting.between_blanks,
            "raw": splitting.whole,
        }
        return split[chosen.base_tokenizer](texts)

    def _normalize(self, pieces: Sequence[str]) -> list[str | None]:
        """Return the word for each piece, or None when it is left out."""
        known = self._known
        if len(known) > _REMEMBERED:
            known.clear()
        fresh = [piece for piece in pieces if piece not in known]
        for piece, word in zip(fresh, self._words_of(fresh), strict=True):
            known[piece] = word
        return [known[piece] for piece in pieces]

    def _words_of(self, pieces: Sequence[str]) -> list[str | None]:
        chosen = self.parameters
        limit = chosen.max_token_length
        kept = [limit is None or len(piece.encode()) < limit for piece in pieces]
        found = list(pieces)
        if chosen.lower_case:
            found = [_lower(word) for word in found]
        if chosen.stem:
            found = self._stemmer.stemWords(found)
        kept = [keep and word not in self._stop_words for keep, word in zip(kept, found, strict=True)]
        if chosen.ascii_folding:
            table = folding()
            found = [word if word.isascii() else word.translate(table) for word in found]
        return [word if keep else None for keep, word in zip(kept, found, strict=True)]


def _query_words(analyzer: Analyzer, text: str) -> tuple[tuple[str, int], ...]:
    chosen = analyzer.parameters
    if chosen.lance_tokenizer != JSON and chosen.base_tokenizer == "simple" and text.isascii():
        # The usual query needs no arrays.
        words = analyzer.words_of_runs(_ASCII_RUNS.findall(text))
        kept = [(word, place) for place, word in enumerate(words) if word is not None]
        return tuple((word, place - kept[0][1]) for word, place in kept)
    if chosen.lance_tokenizer == JSON:
        found = analyzer.words_of_leaves(query_leaves(text))
    else:
        found = analyzer.words(pa.array([text], pa.string()))
    first = int(found.positions[0]) if len(found.positions) else 0
    return tuple(
        (found.vocabulary[number], position - first)
        for number, position in zip(found.numbers.tolist(), found.positions.tolist(), strict=True)
    )


@lru_cache(maxsize=256)
def _kept_words(parameters: TextParameters, text: str) -> tuple[tuple[str, int], ...]:
    # The tokens depend on parameters and string only.
    return _query_words(Analyzer(parameters), text)


def _lower(word: str) -> str:
    if word.isascii():
        return word.lower()
    # Character by character: Python maps a final sigma differently from pylance.
    return "".join(letter.lower() for letter in word).translate(newer_lower_case())


def _without(pieces: Pieces, left_out: npt.NDArray[np.bool_]) -> Pieces:
    kept = ~left_out[pieces.texts]
    return Pieces(pieces.texts[kept], pieces.positions[kept], pieces.pieces.filter(pa.array(kept)))


def _stemming() -> Any:
    """Return the library of stems."""
    return load_extra("Stemmer")
