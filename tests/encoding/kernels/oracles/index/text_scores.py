"""Text scores: documents of several words, with what each word adds to their scores."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Floats, Integers

_ONE = np.float32(1)


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
    """Compute the score of a token for the documents that contain it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        norms = k1 * (_ONE - b + b * sizes[documents].astype(np.float32) / average)
        frequency = counts.astype(np.float32)
        scores[:] = weight * ((k1 + _ONE) * frequency / (frequency + norms))


def merge(
    *,
    documents: Integers,
    scores: Floats,
    others: Integers,
    added: Floats,
    all_documents: Integers,
    all_scores: Floats,
) -> int:
    """Return documents of two lists that ascend, each once, with the sum of their scores."""
    found = np.union1d(documents, others)
    sums = np.zeros(len(found), np.float32)
    sums[np.searchsorted(found, documents)] = scores
    sums[np.searchsorted(found, others)] += added
    all_documents[: len(found)], all_scores[: len(found)] = found, sums
    return len(found)
