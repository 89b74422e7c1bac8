"""Text scores (BM25): documents of several words, with what each word adds to their scores."""

import numpy as np
import numpy.typing as npt

from lance_ops.encoding.arrays import Floats, Integers
from lance_ops.encoding.kernels import load
from lance_ops.encoding.reference.index import text_scores as reference


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
    kernel = load("index.text_scores")
    if kernel is None:
        reference.weigh(
            documents=documents,
            counts=counts,
            sizes=sizes,
            average=average,
            weight=weight,
            k1=k1,
            b=b,
            scores=scores,
        )
    else:
        kernel.weigh(documents, counts, sizes, average, weight, k1, b, scores)


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
    kernel = load("index.text_scores")
    if kernel is None:
        return reference.merge(
            documents=documents,
            scores=scores,
            others=others,
            added=added,
            all_documents=all_documents,
            all_scores=all_scores,
        )
    return int(kernel.merge(documents, scores, others, added, all_documents, all_scores))
