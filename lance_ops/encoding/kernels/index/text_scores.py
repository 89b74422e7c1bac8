"""Compiled loops of text scores: documents of several words, with what each word adds to their scores."""

import numpy as np
from numba import njit, types

_DOCUMENTS = types.Array(types.int64, 1, "C", readonly=True)
_SCORES = types.Array(types.float32, 1, "C", readonly=True)
_NUMBERS = types.Array(types.uint32, 1, "C", readonly=True)


@njit(
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
    cache=True,
    nogil=True,
    error_model="numpy",
)
def weigh(documents, counts, sizes, average, weight, k1, b, scores):  # type: ignore[no-untyped-def]
    """What a word adds to the scores of the documents that hold it.

    Args:
        documents: Their numbers.
        counts: How often each holds it.
        sizes: Words of every document there is.
        average: Words of a document on average.
        weight: Of the word.
        k1: How soon more of a word says no more.
        b: How much the size of a document counts.
        scores: As many as documents: filled.
    """
    one = np.float32(1)
    for place in range(len(documents)):
        size = np.float32(sizes[documents[place]])
        norm = k1 * (one - b + b * size / average)
        count = np.float32(counts[place])
        scores[place] = weight * ((k1 + one) * count / (count + norm))


@njit(
    types.int64(_DOCUMENTS, _SCORES, _DOCUMENTS, _SCORES, types.int64[::1], types.float32[::1]),
    cache=True,
    nogil=True,
)
def merge(documents, scores, others, added, all_documents, all_scores):  # type: ignore[no-untyped-def]
    """Documents of two lists that ascend, each once, with the sum of their scores.

    Returns:
        How many there are.
    """
    zero = np.float32(0)
    one, other, count = 0, 0, 0
    while one < len(documents) and other < len(others):
        first, second = documents[one], others[other]
        # Without branches, which nobody could foretell.
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
