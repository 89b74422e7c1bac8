"""BM25: how well strings fit words, in the single precision and the order of operations of pylance."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.kernels.index.text_scores import merge, weigh
from lance_ops.encoding.memory import empty
from lance_ops.index.inverted.packing import Ints
from lance_ops.index.inverted.postings import LARGE_BLOCK, Postings

Floats = npt.NDArray[np.float32]

K1 = np.float32(1.2)
B = np.float32(0.75)
_ONE = np.float32(1)
_HALF = np.float32(0.5)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Corpus statistics of scores.

    Attributes:
        documents: Number of documents.
        words: Tokens of all documents.
        holding: Number of documents with a token, by token.
    """

    documents: int = 0
    words: int = 0
    holding: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: "Statistics") -> "Statistics":
        holding = dict(self.holding)
        for word, count in other.holding.items():
            holding[word] = holding.get(word, 0) + count
        return Statistics(self.documents + other.documents, self.words + other.words, holding)

    def word_weight(self, word: str) -> np.float32:
        """Return the inverse document frequency of a token."""
        holding = self.holding.get(word, 0)
        return np.float32(word_weights(np.array([holding]), self.documents)[0] if holding else 0)

    @property
    def average(self) -> np.float32:
        """Words of a document."""
        return np.float32(self.words) / np.float32(max(self.documents, 1))

    def norms(self, sizes: npt.NDArray[np.uint32]) -> Floats:
        """Return the length norms of documents, given their sizes in tokens."""
        return norms(sizes, self.words, self.documents)


def word_weights(holding: npt.NDArray[np.int64], documents: int) -> Floats:
    """Return the weights of tokens, given the number of documents with each."""
    count, total = holding.astype(np.float32), np.float32(documents)
    return np.asarray(np.log((total - count + _HALF) / (count + _HALF) + _ONE), np.float32)


def norms(sizes: npt.NDArray[np.uint32], words: int, documents: int) -> Floats:
    """Return the length norms of documents in a corpus with so many tokens."""
    average = np.float32(words) / np.float32(max(documents, 1))
    return np.asarray(K1 * (_ONE - B + B * sizes.astype(np.float32) / average), np.float32)


def document_weights(counts: npt.NDArray[np.uint32], norms_of: Floats) -> Floats:
    """Return the weights of documents for a token, given its frequencies."""
    frequency = counts.astype(np.float32)
    return np.asarray((K1 + _ONE) * frequency / (frequency + norms_of), np.float32)


def sum_scores(
    words: Sequence[tuple[np.float32, Postings]], sizes: npt.NDArray[np.uint32], statistics: Statistics
) -> tuple[Ints, Floats]:
    """Return documents with any token, ascending, and their scores.

    Args:
        words: The weight of each, and its postings.
        sizes: Of all strings.
        statistics: Corpus statistics.
    """
    found: tuple[Ints, Floats] = np.zeros(0, np.int64), np.zeros(0, np.float32)
    for weight, postings in words:
        if not len(postings):
            continue
        documents, scores = postings.documents, empty(len(postings), np.float32)
        weigh(
            documents=documents,
            counts=postings.counts,
            sizes=sizes,
            average=statistics.average,
            weight=weight,
            k1=K1,
            b=B,
            scores=scores,
        )
        if len(found[0]):
            room = len(found[0]) + len(documents)
            both = empty(room, np.int64), empty(room, np.float32)
            count = merge(
                documents=found[0],
                scores=found[1],
                others=documents,
                added=scores,
                all_documents=both[0],
                all_scores=both[1],
            )
            found = both[0][:count], both[1][:count]
        else:
            found = documents, scores
    return found


def scored_sizes(sizes: npt.NDArray[np.uint32], block_size: int) -> npt.NDArray[np.uint32]:
    """Return sizes that scores rest on: in segments with blocks of 256 only their four highest bits."""
    if block_size != LARGE_BLOCK:
        return np.ascontiguousarray(sizes)
    bits = np.frexp(sizes.astype(np.float64))[1]
    shift = np.maximum(bits - 4, 0).astype(np.uint32)
    return np.asarray((sizes >> shift) << shift, np.uint32)
