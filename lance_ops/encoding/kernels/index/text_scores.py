"""Text scores (BM25): documents of several words, with what each word adds to their scores."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Floats, Integers
from lance_ops.encoding.kernels.loops import loop, types

_DOCUMENTS = types.Array(types.int64, 1, "C", readonly=True)
_SCORES = types.Array(types.float32, 1, "C", readonly=True)
_NUMBERS = types.Array(types.uint32, 1, "C", readonly=True)


@loop(
    types.void(
        _DOCUMENTS,
        _NUMBERS,
        _NUMBERS,
        types.float32,
        types.float32,
        types.float32,
        types.float32,
        types.float32[::1],
    ),
    error_model="numpy",
)
def _weigh(documents, counts, sizes, average, weight, k1, b, scores):
    one = np.float32(1)
    for place in range(len(documents)):
        size = np.float32(sizes[documents[place]])
        norm = k1 * (one - b + b * size / average)
        count = np.float32(counts[place])
        scores[place] = weight * ((k1 + one) * count / (count + norm))


@loop(types.int64(_DOCUMENTS, _SCORES, _DOCUMENTS, _SCORES, types.int64[::1], types.float32[::1]))
def _merge(documents, scores, others, added, all_documents, all_scores):
    zero = np.float32(0)
    one, other, count = 0, 0, 0
    while one < len(documents) and other < len(others):
        first, second = documents[one], others[other]
        # Without branches, which cannot be predicted.
        is_first, is_second = first <= second, second <= first
        all_documents[count] = first if is_first else second
        all_scores[count] = (scores[one] if is_first else zero) + (added[other] if is_second else zero)
        one += is_first
        other += is_second
        count += 1
    for place in range(one, len(documents)):
        all_documents[count], all_scores[count] = documents[place], scores[place]
        count += 1
    for place in range(other, len(others)):
        all_documents[count], all_scores[count] = others[place], added[place]
        count += 1
    return count


def weigh(
    *,
    documents: Integers,
    counts: npt.NDArray[np.uint32],
    sizes: npt.NDArray[np.uint32],
    average: np.float32,
    weight: np.float32,
    k1: np.float32,
    b: np.float32,
    scores: Floats,
) -> None:
    """Compute the score of a token for the documents that contain it, in single precision.

    Args:
        documents: Shape (documents,): their numbers, each with a size.
        counts: Shape (documents,): how often each holds it.
        sizes: Shape (all documents,): words of each.
        average: Words of a document on average.
        weight: Of the word.
        k1: How soon more of a word says no more.
        b: How much the size of a document counts.
        scores: Shape (documents,): filled.
    """
    _weigh(documents, counts, sizes, average, weight, k1, b, scores)


def merge(
    *,
    documents: Integers,
    scores: Floats,
    others: Integers,
    added: Floats,
    all_documents: Integers,
    all_scores: Floats,
) -> int:
    """Return documents of two lists, each once, with the sum of their scores.

    Args:
        documents: Shape (documents,), ascending.
        scores: Shape (documents,): their scores.
        others: Shape (others,), ascending.
        added: Shape (others,): their scores.
        all_documents: Room for both, filled from the start: ascending.
        all_scores: Likewise.

    Returns:
        How many there are.
    """
    return int(_merge(documents, scores, others, added, all_documents, all_scores))
